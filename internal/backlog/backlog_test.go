package backlog

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type conn struct{ closed bool }

func (c *conn) Close() error { c.closed = true; return nil }

func TestQueue(t *testing.T) {
	q := New(2, (*conn).Close)
	a, b := new(conn), new(conn)
	if !q.Push(a) || !q.Push(b) || !q.Full() || q.Push(new(conn)) {
		t.Error("a Queue of 2 does not take two, and two only")
	}
	if c, err := q.Accept(context.Background()); c != a || err != nil {
		t.Errorf("Accept = %v, %v, want the first", c, err)
	}
	q.SetDeadline(time.Now().Add(-time.Second))
	if _, err := q.Accept(context.Background()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Accept past the deadline with a connection there: %v", err)
	}
	cause := errors.New("cause")
	q.Close(cause)
	q.Close(nil)
	if !b.closed || a.closed {
		t.Error("Close closed the wrong connections")
	}
	if _, err := q.Accept(context.Background()); err != cause {
		t.Errorf("Accept after Close: %v, want the cause, also past the deadline", err)
	}
	if q.Push(new(conn)) {
		t.Error("Push after Close was taken")
	}
	if err := q.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetDeadline after Close: %v", err)
	}
}

// What has ended gives way to what is new, the oldest first, and can be accepted
// until then.
func TestEnded(t *testing.T) {
	q := New(3, (*conn).Close)
	a, b, c, d, e := new(conn), new(conn), new(conn), new(conn), new(conn)
	for _, x := range []*conn{a, b, c} {
		q.Push(x)
	}
	q.Ended(d) // not in the Queue
	if !q.Full() {
		t.Error("Full is false with three that live")
	}
	q.Ended(c)
	q.Ended(b)
	q.Ended(b)
	if q.Full() || !q.Push(d) || !b.closed || c.closed {
		t.Errorf("Push beside two that have ended: Full %v, closed %v and %v, want false, true and false", q.Full(), b.closed, c.closed)
	}
	if x, _ := q.Accept(context.Background()); x != a {
		t.Error("Accept did not return the first")
	}
	if x, _ := q.Accept(context.Background()); x != c {
		t.Error("Accept did not return the one that has ended and kept its place")
	}
	if !q.Remove(d) || q.Remove(d) {
		t.Error("Remove does not take out once")
	}
	for range 3 {
		q.Push(e)
	}
	if !q.Full() {
		t.Error("three new ones do not fill the Queue")
	}
}

func TestAcceptWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, (*conn).Close)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := q.Accept(context.Background()); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("Accept: %v", err)
				}
			})
		}
		synctest.Wait()
		q.Push(new(conn))
		synctest.Wait()
		q.Close(nil)
		wg.Wait()
		q = New(1, (*conn).Close)
		begin := time.Now()
		q.SetDeadline(begin.Add(time.Minute))
		if _, err := q.Accept(context.Background()); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("Accept: %v after %v, want the deadline after 1m", err, time.Since(begin))
		}
	})
}

// Accept ends with its context, also if a connection waits.
func TestAcceptContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, (*conn).Close)
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		for range 2 {
			if _, err := q.Accept(ctx); err != cause {
				t.Errorf("Accept = %v, want the cause", err)
			}
			q.Push(new(conn))
		}
		if _, err := q.Accept(t.Context()); err != nil {
			t.Errorf("Accept = %v, and a connection waits", err)
		}
	})
}

// Diverted connections wait for no Accept, until Close. Those in the queue come first.
func TestDivert(t *testing.T) {
	q := New(1, (*conn).Close)
	a, b := new(conn), new(conn)
	q.Push(a)
	var got []*conn
	why := errors.New("why")
	if !q.Divert(why, func(c *conn) { got = append(got, c) }) || q.Divert(why, nil) {
		t.Error("Divert: want true, then false")
	}
	if !q.Push(b) || len(got) != 2 || got[0] != a || got[1] != b || q.Full() {
		t.Errorf("diverted %v", got)
	}
	if _, err := q.Accept(t.Context()); err != why {
		t.Errorf("Accept = %v", err)
	}
	q.Close(nil)
	if q.Push(new(conn)) || len(got) != 2 || a.closed {
		t.Error("Close does not end Divert")
	}
	if _, err := q.Accept(t.Context()); err != why {
		t.Errorf("Accept = %v after Close", err)
	}
}
