package socket

import (
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"volley/internal/deadline"
	"volley/internal/loopback"
)

// A fullKernel takes as many messages as there is room for, one a call.
type fullKernel struct {
	faultyKernel
	room atomic.Int64
}

func newFullKernel(room int64) *fullKernel {
	k := new(fullKernel)
	k.room.Store(room)
	k.onSend = func([]mmsghdr) (int, syscall.Errno) {
		if k.room.Add(-1) < 0 {
			k.room.Add(1)
			return 0, syscall.EAGAIN
		}
		return 1, 0
	}
	return k
}

func (k *fullKernel) writable(uintptr) bool { return k.room.Load() > 0 }

func fullSocket(t *testing.T, k *fullKernel) (*linuxSocket, *net.UDPConn) {
	t.Helper()
	to, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback.Host().AsSlice()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	c, err := net.DialUDP("udp4", nil, to.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	s, err := newLinuxSocket(c, &Config{}, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, to
}

// A writer waits for room until its deadline, and is told what was not sent.
func TestWriteBatchBy(t *testing.T) {
	k := newFullKernel(2)
	k.noGSO = true // each datagram of a run is a message
	s, to := fullSocket(t, k)
	ps := []Packet{{Buf: []byte("one")}, {Buf: []byte("aabbc"), Segment: 2}, {Buf: []byte("last")}}
	var d deadline.Deadline
	d.Set(time.Now().Add(10 * time.Millisecond))
	n, err := s.WriteBatchBy(ps, &d)
	if n != 1 || err != ErrLate || string(ps[1].Buf) != "bbc" {
		t.Fatalf("WriteBatchBy = %d, %v, with %q left, want 1, ErrLate, bbc", n, err, ps[1].Buf)
	}
	k.room.Store(10)
	d.Set(time.Now().Add(time.Hour))
	if n, err = s.WriteBatchBy(ps[1:], &d); n != 2 || err != nil {
		t.Fatalf("WriteBatchBy with room = %d, %v, want 2", n, err)
	}
	var got []string
	buf := make([]byte, 100)
	for range 5 {
		to.SetReadDeadline(time.Now().Add(patience))
		n, err := to.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(buf[:n]))
	}
	if want := []string{"one", "aa", "bb", "c", "last"}; !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
}

// Close ends the waits of all writers, and no goroutine stays behind.
func TestCloseEndsWaitForRoom(t *testing.T) {
	s, _ := fullSocket(t, newFullKernel(0))
	done := make(chan error)
	for range 3 {
		go func() {
			var none deadline.Deadline
			_, err := s.WriteBatchBy([]Packet{{Buf: []byte("x")}}, &none)
			done <- err
		}()
	}
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		s.room.mu.Lock()
		waits = s.room.ready != nil
		s.room.mu.Unlock()
	}
	s.Close()
	for range 3 {
		if err := <-done; err == nil || IsTransient(err) {
			t.Errorf("WriteBatchBy beside Close: %v, want an error that ends the socket", err)
		}
	}
}

// The same for one datagram.
func TestWriteOneBy(t *testing.T) {
	k := newFullKernel(0)
	s, to := fullSocket(t, k)
	var d deadline.Deadline
	d.Set(time.Now().Add(10 * time.Millisecond))
	if err := s.WriteOneBy([]byte("late"), netip.AddrPort{}, netip.Addr{}, &d); err != ErrLate {
		t.Fatalf("WriteOneBy without room = %v, want ErrLate", err)
	}
	k.room.Store(2)
	d.Set(time.Now().Add(time.Hour))
	for _, d := range []*deadline.Deadline{&d, nil} {
		if err := s.WriteOneBy([]byte("one"), netip.AddrPort{}, netip.Addr{}, d); err != nil {
			t.Fatalf("WriteOneBy with room = %v", err)
		}
		to.SetReadDeadline(time.Now().Add(patience))
		buf := make([]byte, 100)
		if n, err := to.Read(buf); err != nil || string(buf[:n]) != "one" {
			t.Errorf("received %q, %v, want one", buf[:n], err)
		}
	}
}
