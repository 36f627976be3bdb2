package stacktest

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"volley"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
)

// meet dials n connections and accepts them. Server i is that of client i.
func meet(t *testing.T, l *volley.Listener, n int) (clients, servers []*volley.Conn) {
	t.Helper()
	byAddr := make(map[string]*volley.Conn)
	for range n {
		c, err := volley.Dial("udp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		s, err := l.AcceptConn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		clients, byAddr[s.RemoteAddr().String()] = append(clients, c), s
	}
	for _, c := range clients {
		servers = append(servers, byAddr[c.LocalAddr().String()])
	}
	return clients, servers
}

// TestSharedPortKeepsPeers checks that the peers of all sockets stay heard,
// whichever connections end, when the Listener closes, and until the last one.
func TestSharedPortKeepsPeers(t *testing.T) {
	l, err := (&volley.ListenConfig{Sockets: 4}).Listen(context.Background(), "udp", loopback.Addr())
	if err != nil {
		t.Fatal(err)
	}
	l.SetDeadline(time.Now().Add(20 * time.Second))
	defer l.Close()
	clients, servers := meet(t, l, 24)
	check := func(when string) {
		t.Helper()
		for i := range clients {
			heard(t, clients[i], servers[i], fmt.Sprint("client ", i, " ", when))
			heard(t, servers[i], clients[i], fmt.Sprint("server ", i, " ", when))
		}
	}
	check("at first")
	if err := l.Close(); err != nil {
		t.Fatalf("Close = %v, want nil", err)
	}
	check("after Close of the Listener")
	for len(clients) > 1 { // one socket after the other loses its last peer
		clients[0].Close()
		servers[0].Close()
		clients, servers = clients[1:], servers[1:]
		check("after Close of another connection")
	}
	servers[0].Close()
	again, err := loopback.Again(func() (*volley.Listener, error) { return volley.Listen("udp", l.Addr().String()) })
	if err != nil {
		t.Fatalf("Listen once all have closed = %v, want nil", err)
	}
	again.Close()
}

// TestSharedPortWhileDialing checks that peers who send while the sockets are
// being bound, one after the other, become one connection each.
func TestSharedPortWhileDialing(t *testing.T) {
	const peers, sockets = 60, 8
	var clients []*volley.Conn
	speak := func() {
		for _, c := range clients {
			c.Write([]byte("early"))
		}
	}
	bound := 0 // sockets so far
	// Without keepalives nothing comes but what is written, however slow the machine.
	d := volley.Dialer{Config: &volley.Config{KeepAlive: time.Minute, IdleTimeout: 10 * time.Minute}}
	lc := volley.ListenConfig{Sockets: sockets, Control: func(_, address string, _ syscall.RawConn) error {
		if bound == 1 {
			for range peers {
				c, err := d.Dial(context.Background(), "udp", address)
				if err != nil {
					return err
				}
				t.Cleanup(func() { c.Close() })
				clients = append(clients, c)
			}
		}
		speak()
		bound++
		return nil
	}}
	l, err := lc.Listen(context.Background(), "udp", loopback.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// With each packet a hello may go out, since none has been answered.
	const early = 2 * peers * (sockets + 1)
	if n := l.Stats().Unknown; n == 0 || n > early {
		t.Errorf("Unknown = %d, want those of the %d datagrams that came too early", n, early)
	}
	l.SetDeadline(time.Now().Add(30 * time.Second))
	for range 10 {
		speak()
	}
	var got atomic.Int64
	done := make(chan struct{})
	for range peers {
		s, err := l.AcceptConn(context.Background())
		if err != nil {
			t.Fatalf("Accept = %v, want %d connections", err, peers)
		}
		defer s.Close()
		go func() {
			b := make([]byte, 100)
			for range 10 {
				if _, err := s.Read(b); err != nil {
					return
				}
			}
			if got.Add(1) == peers {
				close(done)
			}
		}()
	}
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Errorf("%d of %d connections have all messages", got.Load(), peers)
	}
	if n := l.Stats().Accepted; n != peers {
		t.Errorf("Accepted = %d, want %d", n, peers)
	}
}

// TestShutdownSockets: after Shutdown the address is free, of one socket and of
// several.
func TestShutdownSockets(t *testing.T) {
	for _, sockets := range []int{1, 4} {
		l, err := (&volley.ListenConfig{Sockets: sockets}).Listen(t.Context(), "udp", loopback.Addr())
		require.NoError(t, err)
		clients, servers := meet(t, l, 12)
		done := make(chan error, 1)
		go func() { done <- l.Shutdown(t.Context()) }()
		for i := range servers {
			heard(t, clients[i], servers[i], "while shutting down")
			servers[i].Close()
		}
		require.NoError(t, <-done)
		again, err := volley.Listen("udp", l.Addr().String())
		require.NoError(t, err)
		again.Close()
	}
}
