package datagram

import (
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/deadline"
	"volley/internal/wire"
)

// An inlineSocket is a fakeSocket that can be read in turns, and always has
// something: a datagram, or a passing error.
type inlineSocket struct {
	*fakeSocket
	mu sync.Mutex
	n  int
}

func (s *inlineSocket) ServeOnce(handle func([]Packet)) error {
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

func (s *inlineSocket) Serve(handle func([]Packet)) error {
	<-s.done
	return nil
}

func (s *inlineSocket) SetReadDeadline(time.Time) error { return nil }

type noReaders struct{}

func (noReaders) Kick()         {}
func (noReaders) Waiting() bool { return false }

// Callers take turns in reading, with passing errors in between, for the race
// detector.
func TestInlineTurns(t *testing.T) {
	s := &inlineSocket{fakeSocket: newFakeSocket()}
	c := NewSingle(s, nil, nil, 1000)
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
	if len(h.ends) != 0 {
		t.Errorf("ended with %v", h.ends)
	}
}

// A refusedSocket has nothing but passing errors.
type refusedSocket struct{ inlineSocket }

func (*refusedSocket) ServeOnce(func([]Packet)) error { return syscall.ECONNREFUSED }

// However many errors there were, a caller of Read pauses for a moment only, and
// never past its deadline.
func TestInlinePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &refusedSocket{inlineSocket{fakeSocket: newFakeSocket()}}
		c := NewSingle(s, nil, nil, 1000)
		c.handler = &fakeHandler{}
		var d deadline.Deadline
		for range 100 {
			begin := time.Now()
			c.ReadInline(&d, noReaders{})
			if took := time.Since(begin); took > inlinePause {
				t.Fatalf("ReadInline paused for %v, want at most %v", took, inlinePause)
			}
		}
		begin := time.Now()
		d.Set(begin.Add(time.Millisecond))
		c.ReadInline(&d, noReaders{})
		if took := time.Since(begin); took > time.Millisecond {
			t.Errorf("ReadInline took %v with a deadline in 1ms", took)
		}
		c.Close()
	})
}
