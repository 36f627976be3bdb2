//go:build !linux

package main

import (
	"errors"
	"time"
)

type forger struct{}

func newForger(string, string) (*forger, error) { return nil, errors.ErrUnsupported }

func (*forger) flood(int, time.Duration) (uint64, error) { return 0, errors.ErrUnsupported }
func (*forger) close()                                   {}
