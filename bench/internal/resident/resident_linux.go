// Package resident tells how much memory the process occupies.
package resident

import (
	"bytes"
	"os"
	"strconv"
)

// Bytes returns the memory that the process occupies, without the pages of its
// program file, which the system can drop; 0 if that fails.
func Bytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 3 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	file, _ := strconv.ParseInt(string(fields[2]), 10, 64)
	return (pages - file) * int64(os.Getpagesize())
}
