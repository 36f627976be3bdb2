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

// Host returns a loopback address for a test that closes a port and needs it again, or
// closed. On 127.0.0.1 another package's test might get it. It is one of 16 million, or
// 127.0.0.1 where there is no other.
func Host() netip.Addr {
	if !many() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	r := rand.Uint32()
	return netip.AddrFrom4([4]byte{127, 1 + byte(r>>16)%254, byte(r >> 8), 1 + byte(r)%254})
}

// many reports whether sockets on all of 127.0.0.0/8 work. Under wine they do not.
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

// Again listens where something has just been closed. The address may be in use for a
// moment, until a goroutine that handles packets has ended. Again tries for up to 20
// seconds.
func Again[T any](listen func() (T, error)) (T, error) {
	end := time.Now().Add(20 * time.Second)
	for {
		l, err := listen()
		if err == nil || time.Now().After(end) {
			return l, err
		}
		time.Sleep(time.Millisecond)
	}
}
