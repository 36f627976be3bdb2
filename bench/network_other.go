//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// ownNetwork is nil: this platform has no network for a process alone.
func ownNetwork() *syscall.SysProcAttr { return nil }

func startLoopback() error { return errors.ErrUnsupported }

// datagramsSent is not known on this platform.
func datagramsSent() uint64 { return 0 }
