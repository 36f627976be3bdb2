package volley

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"volley/reliable"
	"volley/simnet"
)

// A peer that has fallen silent gets keepalives faster as the timeout nears; one
// that has never acknowledged anything gets no more than usual.
func TestKeepAlivesHurry(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			link := simnet.Link{Latency: 20 * time.Millisecond}
			x, y := simnet.Pair(1, link, link)
			a, b, sim := mustConn(x, nil), mustConn(y, nil), x.Network()
			if known {
				b.Write([]byte("hello"))
				time.Sleep(time.Second)
			}
			for _, c := range []*Conn{a, b} {
				from, to := c.LocalAddr().(*net.UDPAddr), c.RemoteAddr().(*net.UDPAddr)
				sim.SetLink(from.AddrPort().Addr(), to.AddrPort().Addr(), simnet.Link{Blackout: true})
			}
			if !known {
				// A first packet of somebody whose address was forged.
				a.mu.Lock()
				a.endpoint.Receive(time.Now(), reliable.AppendHeader(nil, reliable.Header{Ack: 65535}))
				a.lastHeard = a.now()
				a.mu.Unlock()
			}
			before := b.Stats().KeepAlivesSent + a.Stats().KeepAlivesSent
			time.Sleep(defaultIdleTimeout - 100*time.Millisecond)
			n := b.Stats().KeepAlivesSent + a.Stats().KeepAlivesSent - before
			if known && (n < 30 || n > 100) {
				t.Errorf("%d keepalives towards silence of a known peer, want some dozens", n)
			}
			if !known && n > 10 {
				t.Errorf("%d keepalives of two sides that have heard nothing, want 5 each", n)
			}
			a.Close()
			b.Close()
		})
	}
}
