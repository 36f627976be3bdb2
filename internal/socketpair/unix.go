//go:build unix

// Package socketpair is test support: connections of datagrams that block their
// writer when the other end does not read.
package socketpair

import (
	"net"
	"os"
	"syscall"
	"testing"
)

// Unixgram returns two ends of a pair of Unix datagram sockets, or skips the test.
func Unixgram(t *testing.T) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	open := func(fd int) net.Conn {
		f := os.NewFile(uintptr(fd), "socketpair")
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	return open(fds[0]), open(fds[1])
}
