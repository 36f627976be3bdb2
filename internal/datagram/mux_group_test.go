package datagram

import (
	"testing"
	"testing/synctest"
)

// TestMuxGroup checks that the sockets of a group stay until nobody needs any
// of them, whatever happens to single ones.
func TestMuxGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 3
		var socks [count]*fakeSocket
		var accs [count]*fakeAcceptor
		var muxes [count]*Mux
		var ends [count][]error
		g := NewMuxGroup()
		for i := range count {
			socks[i], accs[i] = newFakeSocket(), new(fakeAcceptor)
			muxes[i] = NewMux(socks[i], MuxConfig{Acceptor: accs[i], MaxDatagram: 1000, Group: g,
				OnClose: func(err error) { ends[i] = append(ends[i], err) }})
		}
		for i, m := range muxes {
			m.Start()
			socks[i].in <- from(peerAddr(i), "hello")
		}
		synctest.Wait()
		wantClosed := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			for i, s := range socks {
				if s.closed() != want {
					t.Errorf("%s: socket %d closed = %t, want %t", when, i, s.closed(), want)
				}
			}
		}
		accs[0].peer(0).Close()
		wantClosed("no peer at one", false)
		socks[1].in <- errBroken
		wantClosed("one broke", false)
		for _, m := range muxes {
			m.Close()
		}
		wantClosed("all muxes closed", false)
		socks[2].in <- from(peerAddr(2), "still here")
		synctest.Wait()
		wantStrings(t, "received", accs[2].peer(0).handler.(*fakeHandler).received(), "hello", "still here")
		accs[1].peer(0).Close()
		wantClosed("the peer of the broken one closed", false)
		accs[2].peer(0).Close()
		wantClosed("the last peer closed", true)
		for i, want := range []error{nil, errBroken, nil} {
			if len(ends[i]) != 1 || ends[i][0] != want {
				t.Errorf("Mux %d: OnClose was told %v, want %v once", i, ends[i], want)
			}
		}
	})
}
