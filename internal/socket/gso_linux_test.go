package socket

import (
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"volley/internal/loopback"
)

// refuseRunsTo refuses runs to one address of IPv4 with errno.
func refuseRunsTo(addr netip.Addr, errno syscall.Errno) func([]mmsghdr) (int, syscall.Errno) {
	return func(msgs []mmsghdr) (int, syscall.Errno) {
		for i := range msgs {
			_, run := isRun(&msgs[i])
			if !run || sockaddrAddrPort((*sockaddr)(unsafe.Pointer(msgs[i].hdr.Name))).Addr() != addr {
				continue
			}
			if i > 0 {
				return i, 0
			}
			return 0, errno
		}
		return len(msgs), 0
	}
}

// TestOnePeerKeepsOffload checks that the peer of a listener to whom the kernel
// refuses runs, with whichever error, gets its datagrams one by one from then
// on, and the others go on getting runs.
func TestOnePeerKeepsOffload(t *testing.T) {
	slow := loopback.Host()
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.EMSGSIZE, syscall.EIO} {
		k := &faultyKernel{onSend: refuseRunsTo(slow, errno)}
		p := faultyPair(t, k, false)
		other := udpSocket(t, listenUDP(t, "udp4", slow), Config{})
		defer other.Close()
		watchdog := time.AfterFunc(patience, func() { other.Close() })
		defer watchdog.Stop()
		to := netip.AddrPortFrom(slow, localPort(other.(*linuxSocket).conn))
		for i := range 10 {
			a := Packet{Buf: pattern(i, 990), Addr: to, Segment: 100}
			b := Packet{Buf: pattern(i, 990), Addr: p.serverAddr, Segment: 100}
			send(t, p.client, a, b)
			expect(t, other, p.clientAddr, a)
			expect(t, p.server, p.clientAddr, b)
		}
		stats := p.client.Stats()
		if stats.Fallbacks != 1 || !stats.GSO || k.runs.Load() != 10 {
			t.Errorf("%v: %d fallbacks, GSO %t, %d runs, want 1, true, and 10 to the other peer",
				errno, stats.Fallbacks, stats.GSO, k.runs.Load())
		}
		p.close()
	}
}

// TestRefusalsOfOneHost checks that one host, which has a network of IPv6 with 64 bits
// to itself, does not end runs to all, however many of its addresses are refused; so
// many hosts do.
func TestRefusalsOfOneHost(t *testing.T) {
	addr := func(network, host int) netip.Addr {
		a := netip.MustParseAddr("2001:db8::").As16()
		a[7], a[14], a[15] = byte(network), byte(host>>8), byte(host)
		return netip.AddrFrom16(a)
	}
	other := netip.MustParseAddrPort("[2001:db8:1::1]:1")
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.EIO} {
		var g gsoState
		for host := range 100 * maxStreak {
			g.refuse(1000, addr(0, host), errno)
		}
		if !g.allows(1000, other) || g.streak.Load() != 1 {
			t.Errorf("%v: runs to others allowed = %t, streak %d, want true, 1", errno, g.allows(1000, other), g.streak.Load())
		}
		for network := 1; network < maxStreak-1; network++ {
			g.refuse(1000, addr(network, 1), errno)
		}
		if !g.allows(1000, other) {
			t.Errorf("%v: runs to others are not allowed after %d hosts", errno, maxStreak-1)
		}
		g.took()
		for network := 1; network < maxStreak; network++ {
			g.refuse(1000, addr(network, 2), errno)
		}
		if !g.allows(1000, other) {
			t.Errorf("%v: what was refused before a run has left counts", errno)
		}
		g.refuse(1000, addr(200, 1), errno)
		if g.allows(1000, other) {
			t.Errorf("%v: runs to others are allowed after %d hosts", errno, maxStreak)
		}
	}
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "fe80::1%lo": "fe80::",
	} {
		if got := owner(netip.MustParseAddr(text)); got.String() != want {
			t.Errorf("owner(%s) = %v, want %s", text, got, want)
		}
	}
}

// TestRefusals checks what is concluded from refusals, and for how long.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := func(i int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1)
		}
		want := func(g *gsoState, what string, i, segment int, want bool) {
			t.Helper()
			if got := g.allows(segment, addr(i)); got != want {
				t.Errorf("%s: runs of %d bytes to peer %d allowed = %t, want %t", what, segment, i, got, want)
			}
		}
		var g gsoState
		g.refuse(1000, addr(1).Addr(), syscall.EMSGSIZE)
		want(&g, "too large", 1, 1000, false)
		want(&g, "too large", 1, 999, true)
		want(&g, "too large", 2, 1000, true)
		for i := range maxInvalid {
			want(&g, "invalid", 3, 900-i, true)
			g.refuse(900-i, addr(3).Addr(), syscall.EINVAL)
		}
		want(&g, "always invalid", 3, 10, false)
		g.refuse(1000, addr(4).Addr(), syscall.EIO)
		want(&g, "no checksums", 4, 10, false)
		time.Sleep(refusalLifetime - 1)
		want(&g, "just remembered", 1, 1000, false)
		time.Sleep(time.Nanosecond)
		for i := range 5 {
			want(&g, "forgotten", i, 1000, true)
		}
		if g.refusals.Load() != nil {
			t.Error("a table is kept though all is forgotten")
		}
		// One peer refused between others that are not says nothing about all.
		for i := range 2 * maxStreak {
			g.refuse(1000, addr(100+i).Addr(), syscall.EIO)
			g.took()
			want(&g, "mixed", 1, 1000, true)
		}
		// Errors about sizes never do.
		for i := range 2 * maxStreak {
			g.refuse(1000, addr(1000+i).Addr(), syscall.EMSGSIZE)
		}
		want(&g, "many small paths", 1, 1000, true)
		if n := len(g.refusals.Load().limits); n > maxRefusals {
			t.Errorf("%d addresses remembered, want at most %d", n, maxRefusals)
		}
		// Every peer refused is the device's fault, for a while.
		for i := range maxStreak {
			want(&g, "not yet", 1, 1000, true)
			g.refuse(1000, addr(5000+i).Addr(), syscall.EIO)
		}
		want(&g, "refused to all", 1, 1000, false)
		if g.offered(netip.AddrPort{}) {
			t.Error("offered = true though runs are refused to all")
		}
		g.took() // of a call that was under way
		want(&g, "refused to all", 1, 1000, false)
		time.Sleep(refusalLifetime)
		want(&g, "tried again", 1, 1000, true)
	})
}
