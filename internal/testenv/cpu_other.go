//go:build !unix

package testenv

import "time"

// CPUTime returns the user and system time of the process, 0 if unknown.
func CPUTime() time.Duration { return 0 }
