//go:build !linux

package main

import "runtime"

func systemLimits() limits { return limits{Kernel: runtime.GOOS} }
