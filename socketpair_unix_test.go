//go:build unix

package volley

import (
	"net"
	"os"
	"syscall"
	"testing"
)

// pairedUnixgram returns the two ends of a socketpair of datagrams.
func pairedUnixgram(t *testing.T) (a, b net.Conn) {
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
