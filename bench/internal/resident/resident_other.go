//go:build !linux

package resident

import "runtime"

// Bytes returns what Go has in use, where the system's figure is not
// at hand.
func Bytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
