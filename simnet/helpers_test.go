package simnet

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs f in a synctest bubble.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// listen opens a socket that is closed when the test ends.
func listen(t *testing.T, n *Network, addr string) *Conn {
	t.Helper()
	c, err := n.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// pair returns two connected sockets with a large receive buffer, which are
// closed when the test ends.
func pair(t *testing.T, seed uint64, ab, ba Link) (a, b *Conn) {
	a, b = Pair(seed, ab, ba)
	for _, c := range []*Conn{a, b} {
		c.SetReadBuffer(1 << 30)
		t.Cleanup(func() { c.Close() })
	}
	return a, b
}

// numbered returns a datagram of size bytes, at least 4, that begins with its
// number.
func numbered(i, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint32(b, uint32(i))
	return b
}

// An arrival is a datagram that a test has received.
type arrival struct {
	number int
	at     time.Duration // since start
	data   []byte
}

// collect sends count numbered datagrams of the given size from a to b, one
// each interval, and returns all that arrives until a second after the last.
func collect(t *testing.T, a, b *Conn, count, size int, interval time.Duration) []arrival {
	t.Helper()
	start := time.Now()
	go func() {
		for i := range count {
			if i > 0 && interval > 0 {
				time.Sleep(interval)
			}
			if _, err := a.Write(numbered(i, size)); err != nil {
				t.Error(err)
			}
		}
	}()
	b.SetReadDeadline(start.Add(time.Duration(count)*interval + time.Second))
	var got []arrival
	buf := make([]byte, maxDatagram)
	for {
		n, err := b.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			b.SetReadDeadline(time.Time{})
			return got
		}
		if err != nil || n != size {
			t.Fatalf("Read = %d, %v, want %d bytes", n, err, size)
		}
		data := append([]byte(nil), buf[:n]...)
		got = append(got, arrival{int(binary.BigEndian.Uint32(data)), time.Since(start), data})
	}
}

// wantBetween fails the test unless low <= got <= high.
func wantBetween(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s = %.4f, want %.4f to %.4f", what, got, low, high)
	}
}

// checkSum checks that each datagram has one fate.
func checkSum(t *testing.T, s Stats) {
	t.Helper()
	dropped := s.Lost + s.QueueDrops + s.MTUDrops + s.BlackoutDrops + s.ReceiverDrops + s.Unreachable
	if in, out := s.Sent+s.Duplicated, s.Delivered+dropped; in != out {
		t.Errorf("%d datagrams sent and duplicated, but %d delivered and dropped: %+v", in, out, s)
	}
}
