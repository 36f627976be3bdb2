//go:build !linux

package main

import "runtime"

// residentBytes returns what Go has in use, where the system's figure is not
// at hand.
func residentBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
