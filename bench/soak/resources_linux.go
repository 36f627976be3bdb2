package main

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// supported tells whether every address of 127.0.0.0/8 can be used.
const supported = true

func resourcesNow() resources {
	r := resources{goroutines: runtime.NumGoroutine()}
	if names, err := os.ReadDir("/proc/self/fd"); err == nil {
		r.files = len(names)
	}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		r.cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return r
}

// residentBytes returns the memory that the process occupies.
func residentBytes() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return pages * uint64(os.Getpagesize())
}
