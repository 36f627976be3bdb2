package volley

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"volley/internal/datagram"
	"volley/internal/leaktest"
	"volley/simnet"
)

// netPipe returns two connections over a network in memory.
func netPipe(seed uint64, ab, ba simnet.Link, cfg *Config) (a, b *Conn) {
	x, y := simnet.Pair(seed, ab, ba)
	return mustConn(x, cfg), mustConn(y, cfg)
}

// udpPair returns two connections over loopback, dialed and accepted. They are
// closed with the test.
func udpPair(tb testing.TB, cfg *Config) (client, server *Conn) {
	tb.Helper()
	lc := ListenConfig{Config: cfg}
	l, err := lc.Listen(tb.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	d := Dialer{Config: cfg}
	client, err = d.Dial(tb.Context(), "udp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	l.SetDeadline(time.Now().Add(30 * time.Second))
	for {
		server, err = l.AcceptConn(context.Background())
		if err != nil {
			client.Close()
			tb.Fatal(err)
		}
		if server.RemoteAddr().String() == client.LocalAddr().String() {
			break
		}
		server.Close() // a stranger, for whom this port may have been another program's
	}
	tb.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func wantErr(tb testing.TB, what string, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("%s: %v, want %v", what, err, want)
	}
}

// wantTimeout checks for the error that nettest and older code look for.
func wantTimeout(tb testing.TB, what string, err error) {
	tb.Helper()
	wantErr(tb, what, err, os.ErrDeadlineExceeded)
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
		tb.Errorf("%s: %v is no net.Error with Timeout", what, err)
	}
}

// mustConn is NewConn without an error.
func mustConn(inner net.Conn, cfg *Config) *Conn {
	c, err := NewConn(inner, cfg)
	if err != nil {
		panic(err)
	}
	return c
}

// TestMain fails if goroutines are left behind.
func TestMain(m *testing.M) { leaktest.Main(m) }

// pipeAddr is an address of no socket.
func pipeAddr(name string) net.Addr { return datagram.PipeAddr{Net: "pipe", Name: name} }
