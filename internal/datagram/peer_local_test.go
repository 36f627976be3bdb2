package datagram

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"volley/internal/socket"
	"volley/internal/wire"
)

// TestPeerKeepsLocal checks from where a Mux answers: addresses without a Conn
// from where their datagram went to, and a peer from there as well: it has a Conn at
// each address of ours that it sends to, so whoever forges a datagram of it to
// another one changes nothing for the first.
func TestPeerKeepsLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, n}) }
		packet := func(peer int, local byte, b string) []socket.Packet {
			return []socket.Packet{{Buf: []byte(b), Addr: peerAddr(peer), Local: at(local)}}
		}
		a := &fakeAcceptor{handler: func(Conn) Handler {
			return &fakeHandler{batch: func(bufs [][]byte, out *wire.Batch) {
				for _, b := range bufs {
					out.Append(append([]byte("re: "), b...))
				}
			}}
		}}
		s := newFakeSocket()
		m := NewMux(s, MuxConfig{Acceptor: a, MaxDatagram: 1000})
		m.Start()
		s.in <- packet(1, 7, "a")
		s.in <- append(packet(1, 8, "forged"), packet(2, 9, "b")...)
		s.in <- packet(1, 7, "c")
		s.in <- packet(3, 9, "ask")
		synctest.Wait()
		p := a.peer(0)
		var b wire.Batch
		b.Append([]byte("d"))
		p.WriteBatch(&b)
		if m.Peers() != 3 || a.peer(1).LocalAddr().String() != "192.0.2.8:1" {
			t.Errorf("%d Conns, the second one at %v, want 3, and that at 192.0.2.8:1", m.Peers(), a.peer(1).LocalAddr())
		}
		s.mu.Lock()
		for i, want := range []struct {
			text  string
			local byte
		}{{"re: a", 7}, {"re: forged", 8}, {"re: b", 9}, {"re: c", 7}, {"answer", 9}, {"d", 7}} {
			if i >= len(s.sent) || string(s.sent[i].Buf) != want.text || s.sent[i].Local != at(want.local) {
				t.Fatalf("sent %v, want as number %d %q from %v", s.sent, i, want.text, at(want.local))
			}
		}
		s.mu.Unlock()
		if got := p.LocalAddr().String(); got != "192.0.2.7:1" {
			t.Errorf("LocalAddr = %s, want 192.0.2.7:1", got)
		}
		m.Close()
		p.Close()
		a.peer(1).Close()
		a.peer(2).Close()
	})
}
