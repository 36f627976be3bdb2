//go:build !linux

package main

import (
	"errors"
	"net"
	"runtime"
)

func neverFragment(*net.UDPConn) error { return errors.ErrUnsupported }

func systemLimits() limits { return limits{Kernel: runtime.GOOS} }
