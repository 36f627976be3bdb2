//go:build unix

// Package cputime tells what processor time a process has used.
package cputime

import (
	"syscall"
	"time"
)

// Process returns the user and system time of the process, 0 where that is not
// known.
func Process() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
