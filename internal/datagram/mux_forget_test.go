package datagram

import (
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"volley/internal/deadline"
)

// A Conn that has been closed is forgotten, with all that it holds, though no
// packet of another one comes.
func TestMuxForgets(t *testing.T) {
	for name, visit := range map[string]func(s *steppedSocket, p *Peer){
		"read behind": func(*steppedSocket, *Peer) {},
		"read inline": func(s *steppedSocket, p *Peer) {
			var d deadline.Deadline
			for !p.ReadInline(&d, noReaders{}) {
				s.push(from(p.addr, "y")...)
				synctest.Wait() // the goroutine makes place
			}
		},
		"wanted to": func(_ *steppedSocket, p *Peer) {
			var d deadline.Deadline
			p.ReadInline(&d, noReaders{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSteppedSocket()
				a := &fakeAcceptor{}
				m := NewMux(s, MuxConfig{Acceptor: a})
				m.Start()
				s.push(from(peerAddr(1), "x")...)
				synctest.Wait()
				p := weak.Make(a.conns[0])
				visit(s, a.conns[0])
				a.conns[0].Close()
				a.conns = nil
				synctest.Wait()
				runtime.GC()
				if p.Value() != nil {
					t.Error("the Peer is still there")
				}
				m.Close()
			})
		})
	}
}
