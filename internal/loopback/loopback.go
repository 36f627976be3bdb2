// Package loopback is test support: addresses of this machine that no other test
// uses.
package loopback

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

// Host returns an IP address of the loopback for a test that closes a port and
// needs it again, or needs it to stay closed. On 127.0.0.1 the system may give the
// port to a test of another package, which runs at the same time. The address is
// one of 16 million where the system has them all, else it is 127.0.0.1.
func Host() netip.Addr {
	if !many() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	r := rand.Uint32()
	return netip.AddrFrom4([4]byte{127, 1 + byte(r>>16)%254, byte(r >> 8), 1 + byte(r)%254})
}

// many reports whether the system has all of 127.0.0.0/8, and sends from there
// what a socket there sends. Windows does, but wine sends from 127.0.0.1.
var many = sync.OnceValue(func() bool {
	if runtime.GOOS != "windows" {
		return runtime.GOOS == "linux"
	}
	c, err := net.ListenPacket("udp4", "127.1.2.3:0")
	if err != nil {
		return false
	}
	defer c.Close()
	if _, err := c.WriteTo([]byte("x"), c.LocalAddr()); err != nil {
		return false
	}
	c.SetReadDeadline(time.Now().Add(time.Second))
	_, from, err := c.ReadFrom(make([]byte, 1))
	return err == nil && from.String() == c.LocalAddr().String()
})

// Addr returns Host with port 0, as functions that listen take it.
func Addr() string { return netip.AddrPortFrom(Host(), 0).String() }
