//go:build !linux

package main

import (
	"errors"

	"volley/simnet"
)

// connectTCP connects nowhere: only Linux has the devices that this needs.
func connectTCP(string) func(*simnet.Network, uint64, simnet.Link) (*connection, error) {
	return func(*simnet.Network, uint64, simnet.Link) (*connection, error) {
		return nil, errors.ErrUnsupported
	}
}
