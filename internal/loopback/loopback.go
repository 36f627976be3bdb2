// Package loopback is test support: addresses of this machine that no other test
// uses.
package loopback

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
)

// Host returns an IP address of the loopback for a test that closes a port and
// needs it again, or needs it to stay closed. On 127.0.0.1 the system may give the
// port to a test of another package, which runs at the same time. The address is
// one of 16 million where the system has them all, else it is 127.0.0.1.
func Host() netip.Addr {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	r := rand.Uint32()
	return netip.AddrFrom4([4]byte{127, 1 + byte(r>>16)%254, byte(r >> 8), 1 + byte(r)%254})
}

// Addr returns Host with port 0, as functions that listen take it.
func Addr() string { return netip.AddrPortFrom(Host(), 0).String() }
