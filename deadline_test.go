package volley

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// What Accept says after Close must end loops that go on after a timeout.
func TestAcceptClosedPastDeadline(t *testing.T) {
	l, err := Listen("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.SetDeadline(time.Unix(1, 0))
	l.Close()
	_, err = l.Accept()
	wantErr(t, "Accept", err, net.ErrClosed)
}

// A program that sets a deadline before each Read reads what came before the
// end, too.
func TestReadDeadlineAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil)
		a.Write([]byte("last words"))
		a.Close()
		synctest.Wait()
		if err := b.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Errorf("SetReadDeadline before the last message: %v", err)
		}
		wantMessage(t, b, "last words")
		if err := b.SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Errorf("SetDeadline at the end: %v", err)
		}
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read: %v, want io.EOF", err)
		}
		_, err := b.Write([]byte("x"))
		wantErr(t, "Write", err, io.ErrClosedPipe)
		b.Close()
		wantErr(t, "SetDeadline", b.SetDeadline(time.Time{}), net.ErrClosed)
	})
}

// A deadline that passes while WriteBatch waits for another sender.
func TestWriteBatchDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := slowly(t)
		if n, err := c.WriteBatch(nil); n != 0 || err != nil {
			t.Errorf("WriteBatch(nil) = %d, %v, want 0, nil", n, err)
		}
		go c.Write([]byte("slow"))
		<-s.sending
		c.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := c.WriteBatch([][]byte{{1}, {2}})
		wantTimeout(t, "WriteBatch", err)
		if n != 0 {
			t.Errorf("WriteBatch = %d messages, want 0", n)
		}
		close(s.gate)
		synctest.Wait()
		c.SetWriteDeadline(time.Time{})
		n, err = c.WriteBatch([][]byte{{1}, nil, make([]byte, 20_000), {2}})
		var tooLarge *MessageTooLargeError
		if n != 2 || !errors.As(err, &tooLarge) {
			t.Errorf("WriteBatch = %d, %v, want 2 and a *MessageTooLargeError", n, err)
		}
		c.Close()
	})
}

// A time without a monotonic reading is a deadline like any other.
func TestWallClockDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil)
		begin := time.Now()
		a.SetReadDeadline(begin.Add(time.Second).Round(0))
		_, err := a.Read(make([]byte, 1))
		wantTimeout(t, "Read", err)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("Read returned after %v, want 1s", d)
		}
		for _, far := range []time.Time{time.Unix(1<<60, 0), time.Unix(1<<40, 0)} {
			a.SetReadDeadline(far)
			go func() { b.Write([]byte("x")) }()
			if _, err := a.Read(make([]byte, 1)); err != nil {
				t.Errorf("Read with the deadline %v: %v", far, err)
			}
		}
		for _, past := range []time.Time{time.Unix(-1<<60, 0), time.Unix(0, 0), time.Now()} {
			a.SetReadDeadline(past)
			_, err := a.Read(make([]byte, 1))
			wantTimeout(t, "Read", err)
		}
		a.Close()
		b.Close()
	})
}
