package netcode

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/simnet"
)

// Arguments that are nil are an error of the call, and not a panic.
func TestNilArguments(t *testing.T) {
	lc := ListenConfig{PrivateKey: testKey, ProtocolID: testProtocol}
	tok := simToken(t, 1)
	var d Dialer
	var udp *net.UDPConn
	for name, call := range map[string]func() error{
		"ListenPacket":        func() error { _, err := lc.ListenOn(nil); return err },
		"ListenPacket, typed": func() error { _, err := lc.ListenOn(udp); return err },
		"DialOn":              func() error { _, err := d.DialOn(t.Context(), nil, tok); return err },
		"DialOn, typed":       func() error { _, err := d.DialOn(t.Context(), udp, tok); return err },
	} {
		err := call()
		_, ok := errors.AsType[*ConfigError](err)
		require.True(t, ok, "%s: %v", name, err)
	}
	require.False(t, tok.used.Load(), "the token is not used")
}

// A Token that nothing was read into has no wire form.
func TestZeroTokenHasNoWireForm(t *testing.T) {
	for _, tok := range []*Token{nil, new(Token)} {
		for _, marshal := range []func() ([]byte, error){tok.MarshalBinary, tok.MarshalText} {
			b, err := marshal()
			require.ErrorAs(t, err, new(*TokenError))
			require.Nil(t, b)
		}
	}
}

// Options that would open thousands of sockets, or with which nothing could ever
// arrive, are errors.
func TestListenConfigBounds(t *testing.T) {
	for _, lc := range []ListenConfig{{Sockets: 1025}, {MaxMemory: 1}, {MaxMemory: 8<<10 - 1}} {
		lc.PrivateKey = testKey
		_, err := lc.Listen(t.Context(), "udp4", loopback.Addr())
		require.ErrorAs(t, err, new(*ConfigError))
	}
	lc := ListenConfig{PrivateKey: testKey, MaxMemory: -1}
	l, err := lc.Listen(t.Context(), "udp4", loopback.Addr())
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// With the least MaxMemory the largest payloads arrive.
func TestLeastMaxMemory(t *testing.T) {
	bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, func(lc *ListenConfig) { lc.MaxMemory = 8 << 10 })
		defer l.Close()
		client, server := simPair(t, n, l, 1)
		defer closeAll(client, server)
		for range 20 {
			_, err := client.Write(make([]byte, MaxMessageSize))
			require.NoError(t, err)
			server.SetReadDeadline(time.Now().Add(time.Minute))
			size, err := server.Read(make([]byte, MaxMessageSize))
			require.NoError(t, err)
			require.Equal(t, MaxMessageSize, size)
		}
	})
}
