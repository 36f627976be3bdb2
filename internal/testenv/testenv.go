// Package testenv tells tests about the process that they run in.
package testenv

import (
	"flag"
	"runtime"
)

// Heap returns the bytes of the heap that are still in use after a collection.
func Heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

var full = flag.Bool("full", false, "run the tests at their full size, which takes minutes")

// Sized returns a test's size: small, or large with -full and without the race detector.
func Sized(small, large int) int {
	if *full && !Race {
		return large
	}
	return small
}

// Raced returns what a test takes: plain, or raced with the race detector. That is for a test
// that does the same thing many times, in which the detector finds nothing more after the first
// hundreds, and takes ten times as long for each. A run without it does all.
func Raced[T any](plain, raced T) T {
	if Race {
		return raced
	}
	return plain
}

// Goroutines returns how many goroutines there are, while none of them runs. Other than
// runtime.NumGoroutine, it does not count those that have just ended, and that another thread
// puts in a list of free ones.
func Goroutines() int {
	n, _ := runtime.GoroutineProfile(make([]runtime.StackRecord, 1))
	return n
}
