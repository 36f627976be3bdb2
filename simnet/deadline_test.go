package simnet

import (
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestReadDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, b := pair(t, 1, Link{}, Link{})
		buf := make([]byte, 1)
		for range 3 { // a deadline can be refreshed after it has passed
			start := time.Now()
			b.SetReadDeadline(start.Add(time.Hour))
			_, err := b.Read(buf)
			wantOpError(t, err, "read", os.ErrDeadlineExceeded)
			if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
				t.Errorf("%v is not a timeout", err)
			}
			if got := time.Since(start); got != time.Hour {
				t.Errorf("Read returned after %v, want 1h", got)
			}
			// It stays passed.
			if _, err = b.Read(buf); time.Since(start) != time.Hour {
				t.Errorf("second Read waited")
			}
			wantOpError(t, err, "read", os.ErrDeadlineExceeded)
		}
	})
}

// TestPastDeadline checks that a deadline in the past wins over a datagram
// that could be read, which is not lost by it.
func TestPastDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{}, Link{})
		a.Write([]byte("x"))
		b.SetReadDeadline(time.Now().Add(-time.Second))
		_, err := b.Read(make([]byte, 1))
		wantOpError(t, err, "read", os.ErrDeadlineExceeded)
		b.SetReadDeadline(time.Time{})
		if k, err := b.Read(make([]byte, 1)); k != 1 || err != nil {
			t.Errorf("Read = %d, %v", k, err)
		}
		a.SetWriteDeadline(time.Now())
		k, err := a.Write([]byte("x"))
		wantOpError(t, err, "write", os.ErrDeadlineExceeded)
		if k != 0 || a.Network().Stats().Sent != 1 {
			t.Error("a write beyond its deadline was sent")
		}
		a.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := a.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	})
}

func TestDeadlinesAreIndependent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{}, Link{})
		past := time.Now().Add(-time.Second)
		a.SetReadDeadline(past)
		if _, err := a.Write([]byte("x")); err != nil {
			t.Errorf("Write after a read deadline: %v", err)
		}
		b.SetWriteDeadline(past)
		if _, err := b.Read(make([]byte, 1)); err != nil {
			t.Errorf("Read after a write deadline: %v", err)
		}
		b.SetDeadline(past)
		_, err := b.Read(make([]byte, 1))
		wantOpError(t, err, "read", os.ErrDeadlineExceeded)
		_, err = b.Write([]byte("x"))
		wantOpError(t, err, "write", os.ErrDeadlineExceeded)
	})
}

// TestDeadlineOfPendingRead changes the deadline while a read waits.
func TestDeadlineOfPendingRead(t *testing.T) {
	for _, test := range []struct {
		name        string
		first, then time.Duration // from the start; negative: in the past, 0: none
		want        time.Duration
	}{
		{"none to past", 0, -1, 10 * ms},
		{"none to future", 0, 50 * ms, 50 * ms},
		{"earlier", 100 * ms, 50 * ms, 50 * ms},
		{"later", 50 * ms, 100 * ms, 100 * ms},
		{"none, then data", 50 * ms, 0, 200 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a, b := pair(t, 1, Link{}, Link{})
				start := time.Now()
				set := func(d time.Duration) {
					if d == 0 {
						b.SetReadDeadline(time.Time{})
						return
					}
					b.SetReadDeadline(start.Add(d))
				}
				set(test.first)
				time.AfterFunc(10*ms, func() { set(test.then) })
				time.AfterFunc(200*ms, func() { a.Write([]byte("x")) })
				b.Read(make([]byte, 1))
				if got := time.Since(start); got != test.want {
					t.Errorf("Read returned after %v, want %v", got, test.want)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

func TestDeadlineOfManyReaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, b := pair(t, 1, Link{}, Link{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := b.Read(make([]byte, 1))
				wantOpError(t, err, "read", os.ErrDeadlineExceeded)
			})
		}
		synctest.Wait()
		b.SetReadDeadline(time.Now().Add(time.Minute))
		wg.Wait()
	})
}

// TestDeadlineRaces moves deadlines from several goroutines in real time.
func TestDeadlineRaces(t *testing.T) {
	a, b := Pair(1, Link{}, Link{})
	defer a.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				b.SetReadDeadline(time.Now().Add(time.Duration(i%7-2) * 10 * time.Microsecond))
				b.Read(make([]byte, 1))
			}
		})
	}
	wg.Wait()
	b.SetReadDeadline(time.Time{})
	a.Write([]byte("x"))
	if k, err := b.Read(make([]byte, 1)); k != 1 || err != nil {
		t.Errorf("Read = %d, %v", k, err)
	}
	b.Close()
}
