package stacktest

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/simnet"
)

// udpPair returns two connections over loopback, dialed and accepted. They are
// closed with the test.
func udpPair(t *testing.T) (client, server *volley.Conn) {
	t.Helper()
	ln, err := new(volley.ListenConfig).Listen(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	c, err := new(volley.Dialer).Dial(context.Background(), "udp", ln.Addr().String())
	require.NoError(t, err)
	client = c
	for server == nil || server.RemoteAddr().String() != client.LocalAddr().String() {
		server = accept(t, ln)
		t.Cleanup(func() { server.Close() })
	}
	t.Cleanup(func() { client.Close() })
	return client, server
}

// netPipe returns two connections over a network in memory with the same link both
// ways.
func netPipe(seed uint64, link simnet.Link, cfg *volley.Config) (a, b *volley.Conn) {
	x, y := simnet.Pair(seed, link, link)
	return newConn(x, cfg), newConn(y, cfg)
}

// network returns a network in memory with a listener, and a function that dials
// the listener from an address.
func network(t *testing.T, lc *volley.ListenConfig) (*simnet.Network, *volley.Listener, func(from string, cfg *volley.Config) *volley.Conn) {
	t.Helper()
	n := simnet.New(1)
	n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
	pc, err := n.Listen("10.0.0.1:7777")
	require.NoError(t, err)
	l, err := lc.ListenOn(pc)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close(); n.Close() })
	return n, l, func(from string, cfg *volley.Config) *volley.Conn {
		pc, err := n.Listen(from)
		require.NoError(t, err)
		c, err := (&volley.Dialer{Config: cfg}).DialOn(context.Background(), pc, l.Addr())
		require.NoError(t, err)
		return c
	}
}

func accept(t *testing.T, l *volley.Listener) *volley.Conn {
	t.Helper()
	l.SetDeadline(time.Now().Add(30 * time.Second))
	c, err := l.AcceptConn(context.Background())
	require.NoError(t, err, "Accept")
	return c
}

func wantNoConn(t *testing.T, l *volley.Listener) {
	t.Helper()
	l.SetDeadline(time.Now().Add(time.Second))
	c, err := l.AcceptConn(context.Background())
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Accept = %v, %v, want no connection", c, err)
	}
}

// newConn is volley.NewConn without an error.
func newConn(inner net.Conn, cfg *volley.Config) *volley.Conn {
	c, err := volley.NewConn(inner, cfg)
	if err != nil {
		panic(err)
	}
	return c
}

// newListener is volley.NewListener without an error.
func newListener(inner net.Listener, cfg *volley.Config) *volley.Listener {
	l, err := volley.NewListener(inner, cfg)
	if err != nil {
		panic(err)
	}
	return l
}
