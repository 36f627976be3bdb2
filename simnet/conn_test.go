package simnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// wantOpError checks that err is a *net.OpError for op that unwraps to target.
func wantOpError(t *testing.T, err error, op string, target error) {
	t.Helper()
	oe, ok := err.(*net.OpError)
	if !ok || oe.Op != op || oe.Net != "udp" || !errors.Is(err, target) {
		t.Errorf("error = %#v (%v), want *net.OpError of %s with %v", err, err, op, target)
	}
	if ok && oe.Timeout() != (target == os.ErrDeadlineExceeded) {
		t.Errorf("Timeout() = %v of %v", oe.Timeout(), err)
	}
}

func TestAddresses(t *testing.T) {
	n := New(1)
	defer n.Close()
	for _, test := range []struct{ listen, want string }{
		{"10.0.0.1:7777", "10.0.0.1:7777"},
		{":7777", "127.0.0.1:7777"},
		{"0.0.0.0:7778", "127.0.0.1:7778"},
		{"localhost:7779", "127.0.0.1:7779"},
		{"[::ffff:10.0.0.1]:7778", "10.0.0.1:7778"},
		{"[fd00::1]:7777", "[fd00::1]:7777"},
		{":0", "127.0.0.1:49152"},
		{"10.0.0.1:0", "10.0.0.1:49153"},
	} {
		c := listen(t, n, test.listen)
		if got := c.LocalAddr().String(); got != test.want {
			t.Errorf("Listen(%q).LocalAddr() = %v, want %v", test.listen, got, test.want)
		}
		if c.LocalAddr().Network() != "udp" || c.RemoteAddr() != nil {
			t.Errorf("%v: network %s, remote %v", c.LocalAddr(), c.LocalAddr().Network(), c.RemoteAddr())
		}
	}
	_, err := n.Listen("10.0.0.1:7777")
	wantOpError(t, err, "listen", syscall.EADDRINUSE)
	for _, addr := range []string{"", "10.0.0.1", "example.com:1", "10.0.0.1:99999", "10.0.0.1:x"} {
		if _, err := n.Listen(addr); err == nil {
			t.Errorf("Listen(%q) succeeded", addr)
		}
	}
	for _, addr := range []string{"", "10.0.0.1:0", "10.0.0.1"} {
		if _, err := n.Dial("", addr); err == nil {
			t.Errorf("Dial(%q) succeeded", addr)
		}
	}
	n.Close()
	_, err = n.Listen(":0")
	wantOpError(t, err, "listen", net.ErrClosed)
	_, err = n.Dial("", ":1")
	wantOpError(t, err, "dial", net.ErrClosed)
}

func TestPortsWrapAround(t *testing.T) {
	n := New(1)
	defer n.Close()
	n.nextPort = 65535
	for _, want := range []int{65535, 49152, 49153} {
		if got := listen(t, n, ":0").local.Port; got != want {
			t.Errorf("port = %d, want %d", got, want)
		}
	}
}

func TestPortsRunOut(t *testing.T) {
	n := New(1)
	defer n.Close()
	for range 1<<16 - firstPort {
		if _, err := n.Listen(":0"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := n.Listen(":0")
	wantOpError(t, err, "listen", syscall.EADDRINUSE)
}

// TestPacketConn exchanges datagrams through each pair of methods.
func TestPacketConn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		defer n.Close()
		server := listen(t, n, "10.0.0.1:7777")
		client, err := n.Dial("10.0.0.2:5555", "10.0.0.1:7777")
		if err != nil {
			t.Fatal(err)
		}
		if l, r := client.LocalAddr().String(), client.RemoteAddr().String(); l != "10.0.0.2:5555" || r != "10.0.0.1:7777" {
			t.Errorf("addresses %s, %s", l, r)
		}
		buf := make([]byte, 10)
		if k, err := client.Write([]byte("ping")); k != 4 || err != nil {
			t.Fatalf("Write = %d, %v", k, err)
		}
		k, from, err := server.ReadFrom(buf)
		if err != nil || string(buf[:k]) != "ping" || from.String() != "10.0.0.2:5555" {
			t.Fatalf("ReadFrom = %q, %v, %v", buf[:k], from, err)
		}
		if _, ok := from.(*net.UDPAddr); !ok {
			t.Errorf("ReadFrom returned a %T, want *net.UDPAddr", from)
		}
		if k, err := server.WriteTo([]byte("pong"), from); k != 4 || err != nil {
			t.Fatalf("WriteTo = %d, %v", k, err)
		}
		if k, err = client.Read(buf); err != nil || string(buf[:k]) != "pong" {
			t.Fatalf("Read = %q, %v", buf[:k], err)
		}
		mapped := netip.MustParseAddrPort("[::ffff:10.0.0.2]:5555")
		if _, err := server.WriteToUDPAddrPort([]byte("again"), mapped); err != nil {
			t.Fatal(err)
		}
		k, source, err := client.ReadFromUDPAddrPort(buf)
		if err != nil || string(buf[:k]) != "again" || source != addrPort("10.0.0.1:7777") {
			t.Fatalf("ReadFromUDPAddrPort = %q, %v, %v", buf[:k], source, err)
		}
	})
}

func TestEmptyAndTruncated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{}, Link{})
		a.Write(nil)
		a.Write([]byte("truncated"))
		a.Write([]byte("rest"))
		if k, err := b.Read(nil); k != 0 || err != nil {
			t.Errorf("Read(nil) = %d, %v", k, err)
		}
		buf := make([]byte, 5)
		for _, want := range []string{"", "trunc", "rest"} {
			if k, err := b.Read(buf); string(buf[:k]) != want || err != nil {
				t.Errorf("Read = %q, %v, want %q", buf[:k], err, want)
			}
		}
	})
}

func TestDatagramSizes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{}, Link{})
		k, err := a.Write(make([]byte, maxDatagram+1))
		wantOpError(t, err, "write", syscall.EMSGSIZE)
		if k != 0 || a.Network().Stats().Sent != 0 {
			t.Errorf("Write = %d; something was sent of a datagram too large", k)
		}
		buf := make([]byte, maxDatagram)
		for size := 0; size <= maxDatagram; size = 2*size + 1 {
			msg := bytes.Repeat([]byte{byte(size)}, size)
			a.Write(msg)
			if k, err := b.Read(buf); err != nil || !bytes.Equal(buf[:k], msg) {
				t.Errorf("Read = %d bytes, %v, want %d", k, err, size)
			}
		}
		if k, err := a.Write(buf); k != maxDatagram || err != nil {
			t.Errorf("Write of %d bytes = %d, %v", maxDatagram, k, err)
		}
	})
}

func TestWriteErrors(t *testing.T) {
	n := New(1)
	defer n.Close()
	c := listen(t, n, ":1")
	d, err := n.Dial("", ":1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Write([]byte("x"))
	wantOpError(t, err, "write", syscall.EDESTADDRREQ)
	_, err = c.WriteTo([]byte("x"), &net.IPAddr{})
	wantOpError(t, err, "write", syscall.EINVAL)
	_, err = c.WriteTo([]byte("x"), nil)
	wantOpError(t, err, "write", syscall.EINVAL)
	_, err = c.WriteTo([]byte("x"), (*net.UDPAddr)(nil))
	wantOpError(t, err, "write", errMissingAddress)
	_, err = d.WriteTo([]byte("x"), c.LocalAddr())
	wantOpError(t, err, "write", net.ErrWriteToConnected)
}

// TestBuffersAreNotRetained checks that the caller may change its buffer as
// soon as Write returns.
func TestBuffersAreNotRetained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: ms, Duplicate: 1}, Link{})
		msg := []byte("hello")
		a.Write(msg)
		clear(msg)
		for range 2 {
			if k, err := b.Read(msg); string(msg[:k]) != "hello" || err != nil {
				t.Errorf("Read = %q, %v", msg[:k], err)
			}
			clear(msg)
		}
	})
}

func TestUnreachable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		defer n.Close()
		n.SetDefault(Link{Latency: 10 * ms})
		server, other := listen(t, n, "10.0.0.1:1"), listen(t, n, "10.0.0.3:1")
		client, _ := n.Dial("10.0.0.2:1", "10.0.0.1:1")
		other.WriteTo([]byte("x"), client.LocalAddr()) // connected elsewhere
		other.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(10, 9, 9, 9), Port: 1})
		client.Write([]byte("x"))
		server.Close() // while the datagram is under way
		time.Sleep(20 * ms)
		if s := n.Stats(); s.Unreachable != 3 || s.Delivered != 0 {
			t.Errorf("stats = %+v, want 3 unreachable", s)
		}
	})
}

func TestReceiveBuffer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := Pair(1, Link{}, Link{})
		defer a.Close()
		defer b.Close()
		send := func(count int) {
			for i := range count {
				a.Write(numbered(i, 972))
			}
		}
		send(300)
		if s := a.Network().Stats(); s.Delivered != readBuffer/1000 || s.ReceiverDrops != 300-s.Delivered {
			t.Errorf("stats = %+v, want %d delivered", s, readBuffer/1000)
		}
		buf := make([]byte, 1000)
		for i := range readBuffer / 1000 {
			if k, err := b.Read(buf); err != nil || !bytes.Equal(buf[:k], numbered(i, 972)) {
				t.Fatalf("Read %d = %d bytes, %v", i, k, err)
			}
		}
		b.SetReadBuffer(10_000)
		send(300)
		if got := a.Network().Stats().Delivered; got != readBuffer/1000+10 {
			t.Errorf("Delivered = %d, want 10 more", got)
		}
		// Empty datagrams take room, too.
		for range 10_000 {
			a.Write(nil)
		}
		if b.bytes > 10_000 {
			t.Errorf("%d bytes buffered, want at most 10,000", b.bytes)
		}
	})
}

func TestSetBuffers(t *testing.T) {
	a, b := Pair(1, Link{}, Link{})
	defer b.Close()
	if err := a.SetReadBuffer(1); err != nil {
		t.Error(err)
	}
	wantOpError(t, a.SetReadBuffer(0), "set", syscall.EINVAL)
	a.Close()
	wantOpError(t, a.SetReadBuffer(1), "set", net.ErrClosed)
}

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := Pair(1, Link{}, Link{})
		defer b.Close()
		b.Write([]byte("unread"))
		for range 2 {
			if err := a.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		_, err := a.Read(make([]byte, 10))
		wantOpError(t, err, "read", net.ErrClosed)
		_, _, err = a.ReadFrom(make([]byte, 10))
		wantOpError(t, err, "read", net.ErrClosed)
		_, err = a.Write([]byte("x"))
		wantOpError(t, err, "write", net.ErrClosed)
		wantOpError(t, a.SetDeadline(time.Time{}), "set", net.ErrClosed)
		wantOpError(t, a.SetReadDeadline(time.Time{}), "set", net.ErrClosed)
		wantOpError(t, a.SetWriteDeadline(time.Time{}), "set", net.ErrClosed)
		if a.LocalAddr() == nil || a.RemoteAddr() == nil {
			t.Error("no addresses after Close")
		}
		if a.queue.len() != 0 || a.bytes != 0 {
			t.Error("Close left datagrams in the receive buffer")
		}
	})
}

func TestAddressIsFreeAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		defer n.Close()
		old := listen(t, n, ":1")
		old.Close()
		c := listen(t, n, ":1")
		old.Close() // must not remove the new one
		src := listen(t, n, ":2")
		src.WriteTo([]byte("x"), c.LocalAddr())
		if k, _, err := c.ReadFrom(make([]byte, 1)); k != 1 || err != nil {
			t.Errorf("ReadFrom = %d, %v", k, err)
		}
	})
}

// TestSentBeforeCloseArrives checks that closing a socket doesn't call back
// what it has sent.
func TestSentBeforeCloseArrives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: 10 * ms}, Link{})
		a.Write([]byte("last words"))
		a.Close()
		buf := make([]byte, 20)
		if k, err := b.Read(buf); string(buf[:k]) != "last words" || err != nil {
			t.Errorf("Read = %q, %v", buf[:k], err)
		}
	})
}

func TestCloseUnblocksReaders(t *testing.T) {
	for name, stop := range map[string]func(*Conn){
		"conn":    func(c *Conn) { c.Close() },
		"network": func(c *Conn) { c.Network().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a, b := Pair(1, Link{}, Link{})
				defer b.Close()
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						_, err := a.Read(make([]byte, 1))
						wantOpError(t, err, "read", net.ErrClosed)
					})
				}
				synctest.Wait()
				stop(a)
				wg.Wait()
			})
		})
	}
}

func TestNetworkClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		n.SetDefault(Link{Latency: time.Hour})
		c := listen(t, n, ":1")
		c.WriteTo([]byte("x"), c.LocalAddr())
		n.Play([]Step{{At: time.Hour, Set: func(*Link) { t.Error("called after Close") }}})
		for range 2 {
			if err := n.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		_, err := c.WriteTo([]byte("x"), c.LocalAddr())
		wantOpError(t, err, "write", net.ErrClosed)
		n.Play([]Step{{Set: func(*Link) { t.Error("called after Close") }}})
		time.Sleep(2 * time.Hour)
		if s := n.Stats(); s.Sent != 1 || s.Delivered != 0 {
			t.Errorf("stats = %+v", s)
		}
	})
}

func TestReadersShareTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: ms}, Link{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if k, err := b.Read(make([]byte, 4)); k != 4 || err != nil {
					t.Errorf("Read = %d, %v", k, err)
				}
			})
		}
		synctest.Wait()
		for i := range 10 {
			a.Write(numbered(i, 4))
		}
		wg.Wait()
	})
}

func TestConcurrentUse(t *testing.T) {
	n := New(1)
	defer n.Close()
	n.SetDefault(Link{Latency: 100 * time.Microsecond, Jitter: 50 * time.Microsecond, Duplicate: 0.1, Reorder: 0.1})
	nat, err := n.AddNAT(addr("10.0.2.1"), prefix("10.0.1.0/24"), time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	dst := listen(t, n, "10.0.0.1:1")
	var readers, writers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			buf := make([]byte, 100)
			for {
				if _, _, err := dst.ReadFrom(buf); err != nil {
					return
				}
			}
		})
	}
	for i := range 4 {
		src := listen(t, n, fmt.Sprintf("10.0.1.%d:1", i))
		writers.Go(func() {
			for k := range 500 {
				src.WriteTo(numbered(k, 50), dst.LocalAddr())
				src.SetDeadline(time.Now().Add(time.Hour))
				n.Stats()
				if k%100 == 0 {
					n.SetDefault(Link{Latency: time.Duration(k) * time.Microsecond})
					nat.Rebind()
					n.SetDown(src.ends[0].addr.Addr(), k%200 == 0)
				}
			}
			src.Close()
		})
	}
	writers.Wait()
	dst.Close()
	readers.Wait()
}

// TestRealTime copies data both ways through real time, as a user's program
// would.
func TestRealTime(t *testing.T) {
	a, b := Pair(1, Link{Latency: 2 * ms}, Link{Latency: 2 * ms})
	defer a.Close()
	go func() {
		defer b.Close()
		buf := make([]byte, 100)
		for {
			k, err := b.Read(buf)
			if err != nil || k == 0 {
				return
			}
			b.Write(buf[:k])
		}
	}()
	buf := make([]byte, 100)
	for i := range 50 {
		start := time.Now()
		a.Write(numbered(i, 10))
		k, err := io.ReadAtLeast(a, buf, 10)
		if err != nil || !bytes.Equal(buf[:k], numbered(i, 10)) {
			t.Fatalf("Read = %x, %v", buf[:k], err)
		}
		if d := time.Since(start); d < 4*ms {
			t.Errorf("round trip took %v, less than the latency", d)
		}
	}
	a.Write(nil) // ends the echo
}
