package datagram

import (
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// An inlineSocket is a fakeSocket that can be read in turns, and always has
// something: a datagram, or a passing error.
type inlineSocket struct {
	*fakeSocket
	mu sync.Mutex
	n  int
}

func (s *inlineSocket) ReadStep(handle func([]socket.Packet)) error {
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	if n%2 == 0 {
		return syscall.ECONNREFUSED
	}
	handle(from(peerAddr(1), "x"))
	return nil
}

func (s *inlineSocket) ReadLoop(handle func([]socket.Packet)) error {
	<-s.done
	return nil
}

func (s *inlineSocket) SetReadDeadline(time.Time) error { return nil }

func (s *inlineSocket) Features() socket.Features { return socket.Features{Loop: s, Steps: s} }

type noReaders struct{}

func (noReaders) Kick()        {}
func (noReaders) Callers() int { return 1 }

// Callers take turns in reading, with passing errors in between, for the race
// detector.
func TestInlineTurns(t *testing.T) {
	s := &inlineSocket{fakeSocket: newFakeSocket()}
	c := NewSingle(s, nil, 1000)
	h := &fakeHandler{batch: func([][]byte, *wire.Batch) {}}
	c.handler = h // no goroutine that reads
	var d deadline.Deadline
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				c.ReadInline(&d, noReaders{})
			}
		})
	}
	wg.Wait()
	c.Close()
	if len(h.ended()) != 0 {
		t.Errorf("ended with %v", h.ended())
	}
}

// A refusedSocket has nothing but passing errors.
type refusedSocket struct{ inlineSocket }

func (*refusedSocket) ReadStep(func([]socket.Packet)) error { return syscall.ECONNREFUSED }

func (s *refusedSocket) Features() socket.Features { return socket.Features{Loop: s, Steps: s} }

// However many errors there were, a caller of Read pauses for 10 ms at most, and
// never past its deadline.
func TestInlinePause(t *testing.T) {
	// pause returns how long a caller paused after 16 errors more. No caller comes
	// after it: a pause is longer than inlinePatience, so the goroutine may read then.
	pause := func(failures int, d *deadline.Deadline) time.Duration {
		c := NewSingle(&refusedSocket{inlineSocket{fakeSocket: newFakeSocket()}}, nil, 1000)
		defer c.Close()
		c.handler = &fakeHandler{}
		c.turns.backoff.failures = failures
		begin := time.Now()
		for range 16 {
			if !c.ReadInline(d, noReaders{}) {
				t.Fatal("ReadInline = false, want true")
			}
		}
		return time.Since(begin)
	}
	synctest.Test(t, func(t *testing.T) {
		for i, want := range []int{1, 2, 4, 8, 10, 10} {
			if took := pause(16*i, new(deadline.Deadline)); took != time.Duration(want)*time.Millisecond {
				t.Errorf("ReadInline paused for %v after %d errors, want %d ms", took, 16*(i+1), want)
			}
		}
		var d deadline.Deadline
		d.Set(time.Now().Add(time.Millisecond))
		if took := pause(16*6, &d); took != time.Millisecond {
			t.Errorf("ReadInline paused for %v with a deadline in 1ms, want 1ms", took)
		}
	})
}

// waitingReaders says that others wait.
type waitingReaders struct{ noReaders }

func (waitingReaders) Callers() int { return 2 }

// Nobody reads a socket that broke, not even for those who wait.
func TestBrokenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteppedSocket()
		s.broken = errBroken
		c := NewSingle(s, nil, 1000)
		h := &fakeHandler{}
		c.handler = h
		var d deadline.Deadline
		if !c.ReadInline(&d, waitingReaders{}) {
			t.Error("ReadInline = false, want true")
		}
		if c.ReadInline(&d, waitingReaders{}) {
			t.Error("second ReadInline = true, want false")
		}
		synctest.Wait()
		if len(h.ended()) != 1 || h.ended()[0] != errBroken || s.serves != 0 {
			t.Errorf("ended with %v after %d reads behind, want %v, 0", h.ended(), s.serves, errBroken)
		}
		c.Close()
	})
}

// countedReaders are as many as the test says.
type countedReaders struct{ several bool }

func (*countedReaders) Kick() {}

func (r *countedReaders) Callers() int {
	if r.several {
		return 2
	}
	return 1
}

// Who was refused because somebody else reads is not forgotten when that one
// stops.
func TestRefusedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteppedSocket()
		c := NewSingle(s, nil, 1000)
		c.handler = &fakeHandler{}
		var d deadline.Deadline
		var r countedReaders
		var wg sync.WaitGroup
		wg.Go(func() { c.ReadInline(&d, &r) })
		synctest.Wait()
		r.several = true
		if c.ReadInline(&d, &r) {
			t.Error("ReadInline = true, want false while somebody reads")
		}
		s.push(from(peerAddr(1), "x")...)
		wg.Wait()
		synctest.Wait()
		if s.serves != 1 {
			t.Errorf("%d goroutines read the socket, want 1", s.serves)
		}
		c.Close()
	})
}

// Callers whose deadlines pass before the socket looks for packets do not keep
// what is in it from being read.
func TestHastyReaders(t *testing.T) {
	for name, hurry := range map[string]func(*Single, *deadline.Deadline, *countedReaders){
		"passed before": func(c *Single, d *deadline.Deadline, r *countedReaders) {
			d.Expire()
			c.ReadInline(d, r)
		},
		"set meanwhile": func(c *Single, d *deadline.Deadline, r *countedReaders) {
			d.Set(time.Time{})
			if c.turns.begin(d, anyone, r) {
				c.turns.interrupt(r)
				c.turns.end(c.turns.readOnce(d))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSteppedSocket()
				c := NewSingle(s, nil, 1000)
				handled := 0
				c.handler = &fakeHandler{batch: func(bufs [][]byte, _ *wire.Batch) { handled += len(bufs) }}
				defer c.Close()
				var d deadline.Deadline
				var r countedReaders
				d.Set(time.Now().Add(2 * inlinePatience))
				c.ReadInline(&d, &r) // takes the turn, and finds nothing
				s.push(from(peerAddr(1), "x")...)
				const often = 700 * time.Microsecond // no part of inlinePatience: they never meet the goroutine
				for range inlinePatience/often + 1 {
					hurry(c, &d, &r)
					time.Sleep(often)
				}
				synctest.Wait()
				if handled != 1 {
					t.Errorf("%d packets were read within %v, want 1", handled, inlinePatience+often)
				}
			})
		})
	}
}

// The goroutine makes place for one caller of Read only: of several one may
// take the wake-up meant for another, and leave the socket to nobody.
func TestPlaceForOne(t *testing.T) {
	for name, asked := range map[string]bool{"several from the start": true, "another one later": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSteppedSocket()
				c := NewSingle(s, nil, 1000)
				r := countedReaders{several: asked}
				var d deadline.Deadline
				seen := 0
				h := &fakeHandler{batch: func([][]byte, *wire.Batch) {
					if seen++; seen > 1 {
						return
					}
					if c.ReadInline(&d, &r) {
						t.Error("ReadInline = true, want false while the goroutine reads")
					}
					r.several = true
				}}
				if err := c.Attach(h); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					s.push(from(peerAddr(1), "x")...)
					synctest.Wait()
				}
				if seen != 2 {
					t.Errorf("%d packets read, want 2", seen)
				}
				c.Close()
			})
		})
	}
}

// A panic of the application within a read does not take the turn along.
func TestPanicInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteppedSocket()
		c := NewSingle(s, nil, 1000)
		h := &fakeHandler{batch: func([][]byte, *wire.Batch) { panic("the application's") }}
		c.handler = h
		s.push(from(peerAddr(1), "x")...)
		var d deadline.Deadline
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			c.ReadInline(&d, noReaders{})
		}()
		h.batch = nil
		s.push(from(peerAddr(1), "y")...)
		time.Sleep(inlinePatience)
		synctest.Wait()
		wantStrings(t, "received", h.received(), "x", "y")
		c.Close()
	})
}

// Where no caller comes back for 5 ms, the goroutine reads what comes then.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteppedSocket()
		c := NewSingle(s, nil, 1000)
		h := &fakeHandler{}
		c.handler = h
		var d deadline.Deadline
		s.push(from(peerAddr(1), "x")...)
		c.ReadInline(&d, noReaders{})
		s.push(from(peerAddr(1), "y")...)
		time.Sleep(5*time.Millisecond - time.Nanosecond)
		synctest.Wait()
		wantStrings(t, "received", h.received(), "x")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantStrings(t, "received", h.received(), "x", "y")
		c.Close()
	})
}

// The goroutine of a socket that tells of packets is there only while they
// come, and for 200 ms after the last one.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteppedSocket()
		c := NewSingle(s, nil, 1000)
		h := &fakeHandler{}
		c.Attach(h)
		reads := func(want bool) {
			t.Helper()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if (s.readers == 1) != want {
				t.Errorf("at %v the goroutine reads: %t, want %t", time.Now(), !want, want)
			}
		}
		reads(false)
		s.push(from(peerAddr(1), "a")...)
		reads(true)
		time.Sleep(200*time.Millisecond - 1)
		s.push(from(peerAddr(1), "b")...)
		time.Sleep(200*time.Millisecond - 1)
		reads(true)
		time.Sleep(1 * time.Nanosecond)
		reads(false)
		s.push(from(peerAddr(1), "c")...)
		reads(true)
		wantStrings(t, "received", h.received(), "a", "b", "c")
		c.Close()
		reads(false)
	})
}

// A wallAcceptor notes how far the times it is told are from the clock's.
type wallAcceptor struct {
	fakeAcceptor
	off time.Duration
}

func (a *wallAcceptor) HandleUnknown(now time.Time, from netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) Admit {
	a.off = time.Now().Round(0).Sub(now.Round(0))
	return a.fakeAcceptor.HandleUnknown(now, from, late, bufs, out)
}

// An Acceptor is told the time of the system's clock, whatever that was when the
// socket was made: tokens expire by it.
func TestAcceptorClock(t *testing.T) {
	s := newFakeSocket()
	a := &wallAcceptor{}
	m := NewMux(s, MuxConfig{Acceptor: a})
	// As if the clock had been set an hour ahead since: only the wall clock's
	// part of the time changes, whose seconds are above 30 bits of nanoseconds.
	before := m.timers.base
	*(*uint64)(unsafe.Pointer(&m.timers.base)) -= 3600 << 30
	if before.Unix()-m.timers.base.Unix() != 3600 || before.Sub(m.timers.base) != 0 {
		t.Fatal("a time.Time is not what this test takes it for")
	}
	m.handlePackets(m.turns.now(), from(peerAddr(1), "x"))
	if a.off.Abs() > time.Minute {
		t.Errorf("the time is %v off", a.off)
	}
	a.peer(0).Close()
	m.Close()
}

// A deadline that the application has set on a socket in use does no harm.
func TestForeignDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wakes := range []bool{true, false} {
			s := newSteppedSocket()
			c := NewSingle(s, nil, 1000)
			if !wakes {
				c.turns.sleeps = false
			}
			h := &fakeHandler{}
			c.Attach(h)
			s.push(from(peerAddr(1), "a")...)
			synctest.Wait()
			s.SetReadDeadline(time.Now().Add(-time.Second))
			synctest.Wait() // for ever if the goroutine spins
			s.push(from(peerAddr(1), "b")...)
			synctest.Wait()
			wantStrings(t, "received", h.received(), "a", "b")
			c.Close()
		}
	})
}

// The same while a caller of Read reads.
func TestForeignDeadlineInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTurnsModel(t, 1)
		ch := m.channels[0]
		got := make(chan string, 2)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				p, err := ch.in.ReadAppend(nil, &ch.read)
				if err != nil {
					return
				}
				got <- string(p)
			}
		})
		synctest.Wait()
		m.sock.SetReadDeadline(time.Now().Add(-time.Second))
		synctest.Wait() // for ever if the reader spins
		m.push(0)
		synctest.Wait()
		if len(got) != 1 {
			t.Errorf("%d packets read, want 1", len(got))
		}
		m.close()
		wg.Wait()
	})
}
