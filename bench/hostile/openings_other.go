//go:build !linux

package main

import "errors"

func newForger(string, string) (attack, error) { return nil, errors.ErrUnsupported }
