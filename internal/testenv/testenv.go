// Package testenv tells tests about the process that they run in.
package testenv

import "runtime"

// Heap returns the bytes of the heap that are still in use after a collection.
func Heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
