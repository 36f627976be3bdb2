package datagram

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/socket"
	"volley/internal/testenv"
	"volley/internal/wire"
)

// withMux runs a test of a Mux on a fake socket in virtual time.
func withMux(t *testing.T, cfg MuxConfig, a *fakeAcceptor, f func(t *testing.T, m *Mux, s *fakeSocket)) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		cfg.Acceptor = a
		m := NewMux(s, cfg)
		m.Start()
		f(t, m, s)
		m.Close()
		for i := range a.made() {
			a.peer(i).Close()
		}
		if !s.closed() {
			t.Error("the socket is open after the last Close")
		}
	})
}

func wantStrings(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, append([]string(nil), want...)) && len(got)+len(want) > 0 {
		t.Errorf("%s = %q, want %q", what, got, want)
	}
}

// Packets of one address that follow each other arrive as one batch, in order.
func TestMuxDispatch(t *testing.T) {
	var batches []int
	a := &fakeAcceptor{handler: func(Conn) Handler {
		return &fakeHandler{batch: func(bufs [][]byte, _ *wire.Batch) { batches = append(batches, len(bufs)) }}
	}}
	withMux(t, MuxConfig{}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
		one, two := peerAddr(1), peerAddr(2)
		ps := append(from(one, "a", "b"), socket.Packet{Buf: []byte("112233"), Segment: 2, Addr: one})
		ps = append(ps, from(two, "c")...)
		ps = append(ps, from(one, "d")...)
		s.in <- ps
		synctest.Wait()
		if fmt.Sprint(batches) != "[5 1 1]" {
			t.Errorf("batches of %v datagrams, want [5 1 1]", batches)
		}
		wantStrings(t, "first peer", a.peer(0).handler.(*fakeHandler).received(), "a", "b", "11", "22", "33", "d")
		wantStrings(t, "second peer", a.peer(1).handler.(*fakeHandler).received(), "c")
		if m.Peers() != 2 {
			t.Errorf("%d peers, want 2", m.Peers())
		}
	})
}

// Who is not admitted may be answered, and leaves nothing.
func TestMuxUnknown(t *testing.T) {
	a := new(fakeAcceptor)
	withMux(t, MuxConfig{}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
		s.in <- from(peerAddr(1), "ask", "ask")
		s.in <- from(peerAddr(1), "no")
		synctest.Wait()
		wantStrings(t, "answers", s.datagrams(), "answer")
		if n := m.Stats().Unknown; m.Peers() != 0 || n != 3 {
			t.Errorf("%d peers, %d unknown, want 0, 3", m.Peers(), n)
		}
		s.in <- from(peerAddr(1), "yes")
		synctest.Wait()
		if m.Peers() != 1 {
			t.Errorf("%d peers, want 1", m.Peers())
		}
	})
}

// What a handler appends goes to its peer, from the reader and from a tick.
func TestMuxAnswers(t *testing.T) {
	a := &fakeAcceptor{handler: func(c Conn) Handler {
		return &fakeHandler{
			batch: func(bufs [][]byte, out *wire.Batch) {
				out.Append([]byte("re:" + string(bufs[0])))
				c.Schedule(time.Now().Add(time.Second))
			},
			tick: func(_ time.Time, out *wire.Batch) time.Time {
				out.Append([]byte("tick"))
				return time.Time{}
			},
		}
	}}
	withMux(t, MuxConfig{}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
		s.in <- from(peerAddr(1), "hello")
		time.Sleep(2 * time.Second)
		wantStrings(t, "sent", s.datagrams(), "re:hello", "tick")
		for _, p := range s.sent {
			if p.Addr != peerAddr(1) {
				t.Errorf("sent to %v, want %v", p.Addr, peerAddr(1))
			}
		}
	})
}

func TestPeerAttach(t *testing.T) {
	for _, attach := range []bool{true, false} {
		a := &fakeAcceptor{handler: func(c Conn) Handler {
			if !attach {
				return nil
			}
			h := new(fakeHandler)
			c.Attach(h)
			if c.Attach(h) == nil {
				t.Error("Attach twice: no error")
			}
			return nil
		}}
		withMux(t, MuxConfig{}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
			s.in <- from(peerAddr(1), "hello")
			synctest.Wait()
			if got := m.Peers() == 1; got != attach {
				t.Errorf("attached: %v, admitted: %v", attach, got)
			}
		})
	}
}

// Conns that are closed from their own methods, or as soon as they are made.
func TestPeerCloseInside(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler func(c Conn) Handler
	}{
		{"Admit", func(c Conn) Handler { c.Attach(new(fakeHandler)); c.Close(); return nil }},
		{"HandleBatch", func(c Conn) Handler {
			return &fakeHandler{batch: func([][]byte, *wire.Batch) { c.Close() }}
		}},
		{"HandleTick", func(c Conn) Handler {
			c.Attach(&fakeHandler{tick: func(now time.Time, out *wire.Batch) time.Time {
				c.Close()
				return now.Add(time.Second)
			}})
			c.Schedule(time.Now())
			return nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &fakeAcceptor{handler: test.handler}
			withMux(t, MuxConfig{}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
				s.in <- from(peerAddr(1), "hello")
				time.Sleep(time.Minute)
				if m.Peers() != 0 {
					t.Errorf("%d peers, want 0", m.Peers())
				}
				a.peer(0).Schedule(time.Now())
				time.Sleep(time.Minute)
				if h, ok := a.peer(0).handler.(*fakeHandler); ok && len(h.ticked()) > 1 {
					t.Errorf("%d ticks, want at most 1", len(h.ticked()))
				}
			})
		})
	}
}

// Close while a handler runs returns, and the Conn gets nothing afterwards.
func TestPeerCloseDuringBatch(t *testing.T) {
	inside, goOn := make(chan bool), make(chan bool)
	a := &fakeAcceptor{handler: func(c Conn) Handler {
		return &fakeHandler{batch: func([][]byte, *wire.Batch) { inside <- true; <-goOn }}
	}}
	s := newFakeSocket()
	m := NewMux(s, MuxConfig{Acceptor: a, Tombstone: time.Hour, MaxTombstones: 1})
	m.Start()
	s.in <- from(peerAddr(1), "hello")
	<-inside
	s.in <- from(peerAddr(1), "late")
	p := m.peers[peerAddr(1)]
	p.Close()
	goOn <- true
	for m.Stats().Unknown == 0 {
		time.Sleep(time.Millisecond)
	}
	wantStrings(t, "received", p.handler.(*fakeHandler).received(), "hello")
	m.Close()
	<-s.done
}

// The address of a closed Conn stays closed for a while.
func TestMuxTombstones(t *testing.T) {
	a := new(fakeAcceptor)
	withMux(t, MuxConfig{Tombstone: 10 * time.Second, MaxTombstones: 2}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
		wantPeers := func(what string, addr netip.AddrPort, want int) {
			t.Helper()
			s.in <- from(addr, "hello")
			synctest.Wait()
			if got := m.Peers(); got != want {
				t.Errorf("%s: %d peers, want %d", what, got, want)
			}
		}
		wantPeers("first", peerAddr(1), 1)
		a.peer(0).Close()
		wantPeers("late datagram", peerAddr(1), 0)
		time.Sleep(10 * time.Second)
		wantPeers("later", peerAddr(1), 1)
		a.peer(1).SetTombstone(0)
		a.peer(1).Close()
		wantPeers("without a tombstone", peerAddr(1), 1)

		wantPeers("two", peerAddr(2), 2)
		wantPeers("three", peerAddr(3), 3)
		for i := 2; i < 5; i++ {
			a.peer(i).Close()
		}
		wantPeers("pushed out by the cap", peerAddr(1), 1)
		wantPeers("still closed", peerAddr(2), 1)
		wantPeers("still closed", peerAddr(3), 1)
	})
}

// After Close there are no new peers; the old ones live on.
func TestMuxClose(t *testing.T) {
	a := new(fakeAcceptor)
	var ends []error
	withMux(t, MuxConfig{OnClose: func(err error) { ends = append(ends, err) }}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
		s.in <- append(from(peerAddr(1), "a"), from(peerAddr(2), "a")...)
		synctest.Wait()
		m.Close()
		m.Close()
		s.in <- append(from(peerAddr(1), "b"), from(peerAddr(3), "b")...)
		synctest.Wait()
		if s.closed() || m.Peers() != 2 {
			t.Errorf("socket closed: %v, %d peers, want open with 2", s.closed(), m.Peers())
		}
		wantStrings(t, "received", a.peer(0).handler.(*fakeHandler).received(), "a", "b")
		a.peer(0).Close()
		a.peer(0).Close()
		if s.closed() || len(ends) != 0 {
			t.Error("the socket has gone before the last Conn")
		}
		a.peer(1).Close()
		if !s.closed() || len(ends) != 1 || ends[0] != nil {
			t.Errorf("socket closed: %v, OnClose got %v, want one nil", s.closed(), ends)
		}
		if h := a.peer(0).handler.(*fakeHandler); len(h.ended()) != 0 {
			t.Errorf("HandleClose after Close: %v", h.ended())
		}
	})
}

// A socket that breaks ends all Conns, once, and then the Mux.
func TestMuxBreaks(t *testing.T) {
	a := &fakeAcceptor{handler: func(c Conn) Handler {
		return &fakeHandler{close: func(error) { c.Close() }}
	}}
	var ends []error
	withMux(t, MuxConfig{OnClose: func(err error) { ends = append(ends, err) }}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
		for i := range 10 {
			s.in <- from(peerAddr(i), "hello")
		}
		s.in <- errBroken
		synctest.Wait()
		for i := range 10 {
			if h := a.peer(i).handler.(*fakeHandler); len(h.ended()) != 1 || h.ended()[0] != errBroken {
				t.Errorf("conn %d ended with %v, want %v", i, h.ended(), errBroken)
			}
		}
		if len(ends) != 1 || ends[0] != errBroken {
			t.Errorf("OnClose got %v, want %v", ends, errBroken)
		}
		if m.Peers() != 0 {
			t.Errorf("%d peers, want 0", m.Peers())
		}
	})
}

// Passing errors are counted; a storm of them is met with pauses.
func TestMuxTransientErrors(t *testing.T) {
	a := new(fakeAcceptor)
	withMux(t, MuxConfig{}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
		s.in <- from(peerAddr(1), "a")
		storm := make(chan bool)
		go func() {
			for {
				select {
				case s.in <- error(syscall.ECONNREFUSED):
				case <-storm:
					storm <- true
					return
				}
			}
		}()
		time.Sleep(10 * time.Second)
		storm <- true
		<-storm
		if n := m.Stats().ReadErrors; n < patience || n > 120*patience {
			t.Errorf("%d errors in 10 s, want %d to %d", n, patience, 120*patience)
		}
		time.Sleep(time.Minute)
		s.in <- from(peerAddr(1), "b")
		synctest.Wait()
		wantStrings(t, "received", a.peer(0).handler.(*fakeHandler).received(), "a", "b")
	})
}

// A datagram that cannot be sent does not keep the next ones from it.
func TestWriteErrors(t *testing.T) {
	var b wire.Batch
	for i := range 100 {
		b.Extend(100 + i) // no runs
		b.At(i)[0] = byte(i)
	}
	for _, test := range []struct {
		name string
		err  error
		sent int
	}{
		{"passing", syscall.EPERM, 90},
		{"final", net.ErrClosed, 5},
	} {
		s := newFakeSocket()
		s.refuses = func(n int) error {
			if n%10 == 5 {
				return test.err
			}
			return nil
		}
		c := NewSingle(s, nil, MaxUDP)
		if err := c.WriteBatch(&b); !errors.Is(err, test.err) {
			t.Errorf("%s: WriteBatch = %v, want %v", test.name, err, test.err)
		}
		if test.name == "passing" && (len(s.sent) != test.sent || c.Stats().WriteErrors != 10) {
			t.Errorf("%s: %d datagrams sent, %d errors, want %d, 10", test.name, len(s.sent), c.Stats().WriteErrors, test.sent)
		}
	}
}

// Runs of equal datagrams leave as one packet.
func TestSendRuns(t *testing.T) {
	var b wire.Batch
	var want []string
	for _, n := range []int{300, 100, 100, 100, 50, 200, 200} {
		copy(b.Extend(n), fmt.Sprint(len(want)))
		want = append(want, string(b.At(b.Len()-1)))
	}
	for range 65 {
		copy(b.Extend(1000), fmt.Sprint(len(want)))
		want = append(want, string(b.At(b.Len()-1)))
	}
	s := newFakeSocket()
	NewSingle(s, nil, MaxUDP).WriteBatch(&b)
	wantStrings(t, "sent", s.datagrams(), want...)
	var got []string
	for _, p := range s.sent {
		got = append(got, fmt.Sprint(p.Segment, "/", len(p.Buf)))
	}
	wantStrings(t, "packets", got, "300/400", "100/250", "200/400", "1000/61000", "1000/4000")
}

// The map of peers gives memory back, and loses nobody by it.
func TestMuxShrinks(t *testing.T) {
	a := new(fakeAcceptor)
	withMux(t, MuxConfig{}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
		const n = 5000
		for i := range n {
			s.in <- from(peerAddr(i), "hello")
			if i%50 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		for i := range n - 100 {
			a.peer(i).Close()
		}
		if m.peak >= 1024 || m.Peers() != 100 {
			t.Errorf("peak %d, %d peers, want less than 1024, 100", m.peak, m.Peers())
		}
		for i := n - 100; i < n; i++ {
			s.in <- from(peerAddr(i), "again")
			synctest.Wait()
			wantStrings(t, "received", a.peer(i).handler.(*fakeHandler).received(), "hello", "again")
		}
		if a.made() != n {
			t.Errorf("%d Conns made, want %d", a.made(), n)
		}
	})
}

// Peers come, tick and go while the socket closes, for the race detector.
func TestMuxConcurrent(t *testing.T) {
	for range 20 {
		closed := make(chan error, 2)
		a := &fakeAcceptor{handler: func(c Conn) Handler {
			c.Attach(&fakeHandler{tick: func(now time.Time, out *wire.Batch) time.Time {
				out.Append([]byte("tick"))
				return now.Add(time.Microsecond)
			}})
			c.Schedule(time.Now())
			return nil
		}}
		s := newFakeSocket()
		m := NewMux(s, MuxConfig{Acceptor: a, Tombstone: time.Second, MaxTombstones: 10,
			OnClose: func(err error) { closed <- err }})
		m.Start()
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 50 {
					s.in <- from(peerAddr(i*4+g), "hello")
				}
			})
			wg.Go(func() {
				for i := range 50 {
					if i < a.made() {
						a.peer(i).Schedule(time.Now())
						a.peer(i).Close()
					}
				}
			})
		}
		wg.Wait()
		m.Close()
		for len(closed) == 0 { // one more may have been let in meanwhile
			for i := range a.made() {
				a.peer(i).Close()
			}
			runtime.Gosched()
		}
		if err := <-closed; err != nil || len(closed) != 0 {
			t.Errorf("OnClose got %v and %d more, want one nil", err, len(closed))
		}
	}
}

func TestMuxNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	a := &fakeAcceptor{handler: func(Conn) Handler { return echoHandler{} }}
	m := NewMux(nullSocket{}, MuxConfig{Acceptor: a})
	ps := append(from(peerAddr(1), "one", "two"), from(peerAddr(2), "three")...)
	now := time.Now()
	work := func() { m.handlePackets(now, ps) }
	work()
	p := a.peer(0)
	if n := testing.AllocsPerRun(1000, work); n != 0 {
		t.Errorf("%v allocations to receive and answer, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() { p.tick(now) }); n >= 1 {
		t.Errorf("%v allocations a tick, want 0", n)
	}
	later := now.Add(time.Hour)
	if n := testing.AllocsPerRun(1000, func() { p.Schedule(later); m.timers.cancel(&p.alarm) }); n >= 1 {
		t.Errorf("%v allocations to schedule, want 0", n)
	}
	m.timers.stop()
}

// echoHandler sends back what it gets.
type echoHandler struct{}

func (echoHandler) HandleBatch(_ time.Time, bufs [][]byte, out *wire.Batch) {
	for _, b := range bufs {
		out.Append(b)
	}
}
func (echoHandler) HandleTick(_ time.Time, out *wire.Batch) time.Time {
	out.Extend(10)
	return time.Time{}
}
func (echoHandler) HandleClose(error) {}

func (echoHandler) WaitRoom(int, <-chan struct{}) error { return nil }

// nullSocket takes everything and has nothing.
type nullSocket struct{ socket.Socket }

func (nullSocket) ReadBatch([]socket.Packet) (int, error)     { return 0, net.ErrClosed }
func (nullSocket) WriteBatch(ps []socket.Packet) (int, error) { return len(ps), nil }
func (nullSocket) Close() error                               { return nil }
func (nullSocket) Features() socket.Features                  { return socket.Features{} }
