package datagram

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/socket"
	"volley/internal/testenv"
	"volley/internal/wire"
	"volley/simnet"
)

func withSingle(t *testing.T, h *fakeHandler, f func(t *testing.T, c *Single, s *fakeSocket)) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		c := NewSingle(s, &net.UDPAddr{Port: 2}, 1000)
		if err := c.Attach(h); err != nil {
			t.Fatal(err)
		}
		f(t, c, s)
		c.Close()
		if !s.closed() {
			t.Error("the socket is open after Close")
		}
	})
}

func TestSingleReceivesAndAnswers(t *testing.T) {
	h := &fakeHandler{
		batch: func(bufs [][]byte, out *wire.Batch) { out.Append(bufs[len(bufs)-1]) },
		tick: func(now time.Time, out *wire.Batch) time.Time {
			out.Append([]byte("tick"))
			return now.Add(time.Second)
		},
	}
	withSingle(t, h, func(t *testing.T, c *Single, s *fakeSocket) {
		s.in <- append(from(peerAddr(1), "a"), socket.Packet{Buf: []byte("bbc"), Segment: 2})
		synctest.Wait()
		c.Schedule(time.Now().Add(time.Second))
		time.Sleep(2500 * time.Millisecond)
		wantStrings(t, "received", h.received(), "a", "bb", "c")
		wantStrings(t, "sent", s.datagrams(), "c", "tick", "tick")
	})
}

func TestSingleAttach(t *testing.T) {
	withSingle(t, new(fakeHandler), func(t *testing.T, c *Single, s *fakeSocket) {
		if c.Attach(new(fakeHandler)) == nil {
			t.Error("Attach twice: no error")
		}
	})
	c := NewSingle(newFakeSocket(), nil, 1000)
	c.Close()
	if err := c.Attach(new(fakeHandler)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Attach after Close: %v, want net.ErrClosed", err)
	}
}

func TestSingleBreaks(t *testing.T) {
	var c *Single
	h := &fakeHandler{close: func(error) { c.Close() }}
	withSingle(t, h, func(t *testing.T, single *Single, s *fakeSocket) {
		c = single
		s.in <- error(syscall.ECONNREFUSED)
		s.in <- from(peerAddr(1), "still there")
		s.in <- errBroken
		synctest.Wait()
		wantStrings(t, "received", h.received(), "still there")
		if len(h.ended()) != 1 || h.ended()[0] != errBroken {
			t.Errorf("HandleClose got %v, want %v", h.ended(), errBroken)
		}
		if n := c.Stats().ReadErrors; n != 1 {
			t.Errorf("%d passing errors, want 1", n)
		}
	})
}

// The handler hears nothing of a Close of its own, nor of anything after it.
func TestSingleClose(t *testing.T) {
	h := new(fakeHandler)
	withSingle(t, h, func(t *testing.T, c *Single, s *fakeSocket) {
		c.Schedule(time.Now().Add(time.Second))
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := c.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		wg.Wait()
		c.Schedule(time.Now().Add(time.Second))
		time.Sleep(time.Minute)
		if len(h.ended()) != 0 || len(h.ticked()) != 0 {
			t.Errorf("after Close: HandleClose %v, HandleTick %v", h.ended(), h.ticked())
		}
	})
}

func TestSingleCloseInside(t *testing.T) {
	var c *Single
	h := &fakeHandler{
		batch: func([][]byte, *wire.Batch) { c.Close() },
		tick:  func(now time.Time, out *wire.Batch) time.Time { c.Close(); return now.Add(1) },
	}
	for _, tick := range []bool{false, true} {
		withSingle(t, h, func(t *testing.T, single *Single, s *fakeSocket) {
			c = single
			if tick {
				c.Schedule(time.Now())
			} else {
				s.in <- from(peerAddr(1), "x")
			}
			time.Sleep(time.Minute)
			if !s.closed() {
				t.Error("the socket is open")
			}
		})
	}
}

func TestSingleNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	c := NewSingle(nullSocket{}, nil, 1000)
	c.handler = echoHandler{}
	now, ps := time.Now(), from(peerAddr(1), "one", "two")
	if n := testing.AllocsPerRun(1000, func() { c.handlePackets(now, ps) }); n >= 1 {
		t.Errorf("%v allocations to receive and answer, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() { c.tick(now) }); n >= 1 {
		t.Errorf("%v allocations a tick, want 0", n)
	}
	later := now.Add(time.Hour)
	if n := testing.AllocsPerRun(1000, func() { c.Schedule(later); later = later.Add(-1) }); n >= 1 {
		t.Errorf("%v allocations to schedule, want 0", n)
	}
	c.Close()
}

// Over a simulated network: a Single on a foreign connection at each end.
func TestForeignOverSimnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := simnet.Pair(1, simnet.Link{Latency: time.Millisecond}, simnet.Link{})
		a, b := NewForeign(x, 1000, 1000), NewForeign(y, 1000, 1000)
		ha, hb := new(fakeHandler), &fakeHandler{batch: func(bufs [][]byte, out *wire.Batch) { out.Append(bufs[0]) }}
		a.Attach(ha)
		b.Attach(hb)
		var out wire.Batch
		out.Append([]byte("hello"))
		if err := a.WriteBatch(&out); err != nil {
			t.Errorf("WriteBatch: %v", err)
		}
		time.Sleep(time.Second)
		wantStrings(t, "echo", ha.received(), "hello")
		a.Close()
		b.Close()
		if err := a.WriteBatch(&out); !errors.Is(err, net.ErrClosed) {
			t.Errorf("WriteBatch after Close: %v, want net.ErrClosed", err)
		}
		if err := a.WaitWritable(1, nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("WaitWritable after Close: %v, want net.ErrClosed", err)
		}
	})
}

// What a peer that does not read makes its connection keep is limited.
func TestForeignQueueIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		c := NewForeign(x, 1000, 1000)
		var out wire.Batch
		for range 10_000 {
			out.Reset()
			out.Extend(1000)
			c.WriteBatch(&out)
			synctest.Wait() // the first one has been taken, and is stuck
		}
		c.sock.mu.Lock()
		if n := c.sock.queue.Size(); n > 2*(foreignQueue+1000)+1000 {
			t.Errorf("%d bytes queued", n)
		}
		c.sock.mu.Unlock()
		if n := c.Stats().WriteErrors; n < 9000 {
			t.Errorf("%d datagrams dropped, want most of them", n)
		}
		cancel := make(chan struct{})
		go func() { time.Sleep(time.Second); close(cancel) }()
		if err := c.WaitWritable(1, cancel); err == nil {
			t.Error("WaitWritable with a full queue: no error")
		}
		c.Close()
		y.Close()
	})
}

// Passing errors in a row are met with pauses, once they are many. After each
// pause there are several attempts, so that errors that come at any rate below
// that of the attempts do not hide the packets between them.
func TestReaderPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := func(b *backoff, err error) bool {
			pause, again := b.failed(err)
			time.Sleep(pause)
			return again
		}
		var r backoff
		begin := time.Now()
		for range 100 {
			pauses, paused := 0, begin
			for range patience {
				before := time.Now()
				if !again(&r, syscall.EPROTO) {
					t.Fatal("again = false for a passing error")
				}
				if now := time.Now(); now != before {
					pauses, paused = pauses+1, now
				}
			}
			if pauses != 1 || paused != time.Now() {
				t.Fatalf("%d pauses in %d attempts, want one behind the last", pauses, patience)
			}
		}
		if d := time.Since(begin); d < 9*time.Second || d > 10*time.Second {
			t.Errorf("100 pauses took %v, want about %v each", d, maxPause)
		}
		r.ok()
		begin = time.Now()
		for range patience - 1 {
			again(&r, syscall.ECONNREFUSED)
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("the first errors after a success took %v", d)
		}
		if again(&r, errBroken) || again(&r, net.ErrClosed) {
			t.Error("again = true for an error that ends the socket")
		}
	})
}
