package porous

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"volley/simnet"
)

// badLink loses, doubles and reorders.
var badLink = simnet.Link{Latency: 300 * time.Microsecond, Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, ReorderBy: time.Millisecond}

// pairs are ways to get two connections that are joined to each other.
var pairs = map[string]func(testing.TB, *Config) (a, b *Conn){
	"Pipe": func(_ testing.TB, cfg *Config) (a, b *Conn) { return Pipe(cfg) },
	"UDP":  udpPair,
	"Bad": func(tb testing.TB, cfg *Config) (a, b *Conn) {
		x, y := simnet.Pair(1, badLink, badLink)
		return wrapped(x, cfg), wrapped(y, cfg)
	},
	"NetcodePipe": func(_ testing.TB, cfg *Config) (a, b *Conn) {
		x, y := SealedPipe()
		return wrapped(x, cfg), wrapped(y, cfg)
	},
	"NetcodeBad": func(tb testing.TB, cfg *Config) (a, b *Conn) {
		x, y, _ := Sessions(tb, 1, badLink)
		return wrapped(x, cfg), wrapped(y, cfg)
	},
}

// udpPair returns two connections over loopback, dialed and accepted.
func udpPair(tb testing.TB, cfg *Config) (client, server *Conn) {
	l, err := (&ListenConfig{Config: cfg}).Listen(context.Background(), "udp", "127.0.0.1:0")
	require.NoError(tb, err)
	defer l.Close()
	client, err = (&Dialer{Config: cfg}).Dial(tb.Context(), "udp", l.Addr().String())
	require.NoError(tb, err)
	server, err = acceptWithin(l, 30*time.Second)
	require.NoError(tb, err)
	return client, server
}

func TestNettestConn(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				a, b := pair(t, &Config{SendBuffer: 256 << 10, ReceiveBuffer: 256 << 10})
				return a, b, func() { a.Abort(); b.Abort() }, nil
			})
		})
	}
}

// On a channel the whole suite runs. Its first two parts need io.EOF when the
// other side closes, which on a channel only the end of the connection brings.
func TestNettestChannel(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			part := 0
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				a, b := pair(t, &Config{Channels: 3, SendBuffer: 256 << 10, ReceiveBuffer: 256 << 10})
				stop = func() { a.Abort(); b.Abort() }
				if part++; part <= 2 {
					return lastChannel{a.Channel(2)}, lastChannel{b.Channel(2)}, stop, nil
				}
				return a.Channel(2), b.Channel(2), stop, nil
			})
		})
	}
}

// A lastChannel ends the connection with itself.
type lastChannel struct{ *Channel }

func (ch lastChannel) Close() error { return ch.c.Close() }
