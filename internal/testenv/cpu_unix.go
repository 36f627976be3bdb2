//go:build unix

package testenv

import (
	"syscall"
	"time"
)

// CPUTime returns the user and system time of the process, 0 if unknown.
func CPUTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
