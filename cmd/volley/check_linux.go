package main

import (
	"os"
	"strconv"
	"strings"
)

// systemLimits returns the largest socket buffers that the system grants, and its version.
func systemLimits() (l limits) {
	l.ReadMax = readNumber("/proc/sys/net/core/rmem_max")
	l.WriteMax = readNumber("/proc/sys/net/core/wmem_max")
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		l.Kernel = "Linux " + strings.TrimSpace(string(b))
	}
	return l
}

func readNumber(file string) int {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}
