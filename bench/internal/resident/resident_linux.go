// Package resident tells how much memory the process occupies.
package resident

import (
	"bytes"
	"os"
	"strconv"
)

// Bytes returns the memory that the process occupies, or what Go has in use
// where the system does not tell; 0 if that fails.
func Bytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
