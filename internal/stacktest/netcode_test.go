package stacktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"volley"
	"volley/internal/testenv"
	"volley/netcode"
	"volley/simnet"
)

const serverAddr = "10.0.0.1:7777"

// sessions is a server and clients of it on a simulated network.
type sessions struct {
	net    *simnet.Network
	issuer netcode.Issuer
	inner  *netcode.Listener
	nextID uint64
}

func newSessions(t *testing.T, link simnet.Link) *sessions {
	t.Helper()
	s := &sessions{net: simnet.New(1), issuer: netcode.Issuer{
		PrivateKey: netcode.GenerateKey(),
		Servers:    []netip.AddrPort{netip.MustParseAddrPort(serverAddr)},
	}}
	s.net.SetDefault(link)
	pc, err := s.net.Listen(serverAddr)
	if err != nil {
		t.Fatal(err)
	}
	lc := netcode.ListenConfig{PrivateKey: s.issuer.PrivateKey}
	if s.inner, err = lc.ListenOn(pc); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sessions) dial(t *testing.T) *netcode.Conn {
	t.Helper()
	s.nextID++
	token, err := s.issuer.Issue(s.nextID, nil)
	if err != nil {
		t.Fatal(err)
	}
	pc, err := s.net.Listen("10.0.1.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var d netcode.Dialer
	c, err := d.DialOn(t.Context(), pc, token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNettestOverSession: messages over a session over a lossless pipe pass as
// a net.Conn in full.
func TestNettestOverSession(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		x, y := netcode.Pipe(1, nil)
		a, b := newConn(x, nil), newConn(y, nil)
		return a, b, func() { a.Close(); b.Close() }, nil
	})
}

// TestNettestSession: so does the session alone.
func TestNettestSession(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		a, b := netcode.Pipe(1, nil)
		return a, b, func() { a.Close(); b.Close() }, nil
	})
}

// TestMessagesOverSession exchanges messages of all sizes over a rough link.
func TestMessagesOverSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{Latency: 10 * time.Millisecond, Loss: 0.01, Duplicate: 0.05})
		l := newListener(s.inner, nil)
		client := newConn(s.dial(t), nil)
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		server := c.(*volley.Conn)
		if id := server.NetConn().(*netcode.Conn).ClientID(); id != 1 {
			t.Errorf("client %d, want 1", id)
		}
		go func() { // echo
			for {
				b, err := server.ReadMessage(context.Background(), nil)
				if err != nil {
					return
				}
				server.Write(b)
			}
		}()
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 200 {
			msg := make([]byte, 1+rng.IntN(client.MaxMessageSize()))
			for j := range msg {
				msg[j] = byte(i + j)
			}
			if !echoed(t, client, msg) {
				t.Fatalf("message %d of %d bytes: no echo", i, len(msg))
			}
		}
		if st := client.Stats(); st.MessagesDelivered < 150 {
			t.Errorf("%d messages were acknowledged", st.MessagesDelivered)
		}
		client.Close()
		if _, err := server.Read(make([]byte, 9)); err != io.EOF && !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read after the peer's Close: %v", err)
		}
		server.Close()
		l.Close()
		s.net.Close()
	})
}

// echoed sends msg until its echo comes back.
func echoed(t *testing.T, c *volley.Conn, msg []byte) bool {
	t.Helper()
	for range 30 {
		if _, err := c.Write(msg); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		for {
			got, err := c.ReadMessage(context.Background(), nil)
			if err != nil {
				break
			}
			if bytes.Equal(got, msg) {
				return true
			}
		}
	}
	return false
}

// TestEOFOverSession: the end of a session is io.EOF to the layer above, after
// what came before it.
func TestEOFOverSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{})
		client := newConn(s.dial(t), nil)
		inner, _ := s.inner.Accept()
		client.Write([]byte("early")) // before the server has stacked
		synctest.Wait()
		server := newConn(inner, nil)
		client.Write([]byte("late"))
		synctest.Wait()
		client.Close()
		for _, want := range []string{"early", "late"} {
			if b, err := server.ReadMessage(context.Background(), nil); string(b) != want {
				t.Errorf("ReadMessage = %q, %v, want %q", b, err, want)
			}
		}
		if _, err := server.ReadMessage(context.Background(), nil); err != io.EOF {
			t.Errorf("ReadMessage after the end: %v, want EOF", err)
		}
		if _, err := server.Write([]byte("x")); err == nil {
			t.Error("Write after the end succeeds")
		}
		server.Close()
		s.inner.Close()
		s.net.Close()
	})
}

// TestStackedPastDeadline: what came before a layer was put on the session is
// handed over, also if the deadline of the session's own Read has passed.
func TestStackedPastDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{})
		client := newConn(s.dial(t), nil)
		inner, _ := s.inner.Accept()
		client.Write([]byte("early"))
		synctest.Wait()
		inner.SetReadDeadline(time.Now().Add(-time.Second))
		server := newConn(inner, nil)
		server.SetReadDeadline(time.Now().Add(time.Second))
		if b, err := server.ReadMessage(context.Background(), nil); string(b) != "early" {
			t.Errorf("ReadMessage = %q, %v, want what came early", b, err)
		}
		client.Close()
		server.Close()
		s.inner.Close()
		s.net.Close()
	})
}

// TestStackedTooLate: a session that has ended before a layer is put on it
// hands over what came before the end, and the end.
func TestStackedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{})
		client := newConn(s.dial(t), nil)
		inner, _ := s.inner.Accept()
		client.Write([]byte("last words"))
		client.Close()
		synctest.Wait()
		server := newConn(inner, nil)
		if b, err := server.ReadMessage(context.Background(), nil); string(b) != "last words" {
			t.Errorf("ReadMessage = %q, %v", b, err)
		}
		if _, err := server.ReadMessage(context.Background(), nil); err != io.EOF {
			t.Errorf("ReadMessage after the end: %v, want EOF", err)
		}
		server.Close()

		inner = s.dial(t)
		inner.Close()
		c, err := volley.NewConn(inner, nil)
		if err == nil {
			_, err = c.ReadMessage(context.Background(), nil)
		}
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("a connection on a closed session: %v", err)
		}
		s.inner.Close()
		s.net.Close()
	})
}

// TestIdleOverSession: an idle stack keeps the session alive, and sends
// nothing else.
func TestIdleOverSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{Latency: time.Millisecond})
		inner := s.dial(t)
		client := newConn(inner, nil)
		c, _ := s.inner.Accept()
		server := newConn(c, nil)
		time.Sleep(10 * time.Minute)
		if st := inner.Stats(); st.MessagesSent != 0 || st.PacketsSent < 590 || st.PacketsSent > 620 {
			t.Errorf("%d payloads and %d packets in ten minutes, want 0 and one a second", st.MessagesSent, st.PacketsSent)
		}
		client.Write([]byte("still there"))
		if b, err := server.ReadMessage(context.Background(), nil); string(b) != "still there" {
			t.Errorf("ReadMessage = %q, %v", b, err)
		}
		client.Close()
		server.Close()
		s.inner.Close()
		s.net.Close()
	})
}

// TestSessionTimeoutEndsMessages: silence ends both layers.
func TestSessionTimeoutEndsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{})
		client := newConn(s.dial(t), nil)
		c, _ := s.inner.Accept()
		server := newConn(c, nil)
		s.net.SetDefault(simnet.Link{Loss: 1})
		for _, c := range []*volley.Conn{client, server} {
			if _, err := c.Read(make([]byte, 9)); !errors.Is(err, netcode.ErrIdleTimeout) || errors.Is(err, net.ErrClosed) {
				t.Errorf("Read: %v, want netcode.ErrIdleTimeout", err)
			}
			c.Close()
		}
		s.inner.Close()
		s.net.Close()
	})
}

// TestFragmentsMustFit: a Config that does not fit a payload of 1200 bytes is
// refused, with the field and the limits.
func TestFragmentsMustFit(t *testing.T) {
	for _, test := range []struct {
		cfg  volley.Config
		want []string // nil: it fits
	}{
		{volley.Config{FragmentSize: 1186, FragmentAbove: 1191}, nil},
		{volley.Config{FragmentSize: 1187, FragmentAbove: 1191}, []string{"FragmentSize", "1187", "1186", "1191"}},
		{volley.Config{FragmentSize: 1024, FragmentAbove: 1192}, []string{"FragmentAbove", "1192", "1191"}},
		{volley.Config{FragmentSize: 1200}, []string{"FragmentSize", "1200", "1186", "1191"}},
	} {
		x, y := netcode.Pipe(1, nil)
		c, err := volley.NewConn(x, &test.cfg)
		var ce *volley.ConfigError
		if got := errors.As(err, &ce); got != (test.want != nil) {
			t.Errorf("%+v: %v", test.cfg, err)
		}
		for _, w := range test.want {
			if !strings.Contains(fmt.Sprint(err), w) {
				t.Errorf("%v does not say %s", err, w)
			}
		}
		if err == nil {
			c.Close()
		}
		y.Close()
	}
}

// TestReferenceStack: with ReferenceConfig nothing crosses a session but
// messages, one payload each up to the fragment size.
func TestReferenceStack(t *testing.T) {
	x, y := netcode.Pipe(1, nil)
	cfg := volley.ReferenceConfig()
	cfg.MaxMessageSize = 8192
	a, b := newConn(x, cfg), newConn(y, cfg)
	for _, n := range []int{256, 1024, 5000, 8192} {
		msg := bytes.Repeat([]byte{byte(n)}, n)
		a.Write(msg)
		if got, err := b.ReadMessage(context.Background(), nil); err != nil || !bytes.Equal(got, msg) {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
	}
	if s := x.Stats(); s.MessagesSent != 1+1+5+8 || s.MessagesReceived != 0 {
		t.Errorf("%d payloads sent and %d received, want 15 and 0", s.MessagesSent, s.MessagesReceived)
	}
	a.Close()
	b.Close()
}

// TestNoGoroutinePerSession: stacked sessions cost a server no goroutine.
func TestNoGoroutinePerSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{})
		var conns []*volley.Conn
		pair := func() {
			conns = append(conns, newConn(s.dial(t), nil))
			c, _ := s.inner.Accept()
			conns = append(conns, newConn(c, nil))
		}
		pair()
		synctest.Wait()
		before := testenv.Goroutines()
		for range 50 {
			pair()
		}
		synctest.Wait()
		if n := testenv.Goroutines() - before; n > 75 { // a reader for each client's socket, and who passes by
			t.Errorf("50 sessions took %d goroutines, want those of 50 clients", n)
		}
		for _, c := range conns {
			c.Close()
		}
		s.inner.Close()
		s.net.Close()
	})
}
