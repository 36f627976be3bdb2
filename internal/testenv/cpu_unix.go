//go:build unix

package testenv

import (
	"syscall"
	"time"
)

// CPUTime returns the user and system time of the process, or 0 where the
// platform does not tell.
func CPUTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
