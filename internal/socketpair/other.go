//go:build !unix

// Package socketpair is test support: connections of datagrams that block their
// writer when the other end does not read.
package socketpair

import (
	"net"
	"testing"
)

// Unixgram skips the test: there are no Unix datagram sockets here.
func Unixgram(t *testing.T) (a, b net.Conn) {
	t.Helper()
	t.Skip("no Unix datagram sockets here")
	return nil, nil
}
