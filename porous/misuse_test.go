package porous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/simnet"
)

// Arguments that are nil are an error of the call, or of those that follow, and not
// a panic.
func TestNilArguments(t *testing.T) {
	var lc ListenConfig
	var d Dialer
	var udp *net.UDPConn
	for name, call := range map[string]func() error{
		"ListenOn":           func() error { _, err := lc.ListenOn(nil); return err },
		"ListenOn, typed":    func() error { _, err := lc.ListenOn(udp); return err },
		"DialOn":             func() error { _, err := d.DialOn(t.Context(), nil, &net.UDPAddr{}); return err },
		"NewListener":        func() error { _, err := NewListener(nil, nil); return err },
		"NewListener, typed": func() error { _, err := NewListener((*Listener)(nil), nil); return err },
		"NewConn":            func() error { _, err := NewConn(nil, nil); return err },
		"NewConn, typed":     func() error { _, err := NewConn(udp, nil); return err },
	} {
		err := call()
		_, ok := errors.AsType[*ConfigError](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Contains(t, err.Error(), "it is nil", name)
	}
}

// Options that would open thousands of sockets, or with which nothing could ever
// arrive, are errors.
func TestListenConfigBounds(t *testing.T) {
	for _, lc := range []ListenConfig{{Sockets: 1025}, {MaxMemory: 1}, {MaxMemory: 64 << 10}} {
		_, err := lc.Listen(t.Context(), "udp4", loopback.Addr())
		require.ErrorAs(t, err, new(*ConfigError))
	}
	for _, lc := range []ListenConfig{{MaxMemory: -1}, {MaxMemory: 1 << 20}, {MaxMemory: 64 << 10, Config: &Config{MaxMessageSize: 1000}}} {
		l, err := lc.Listen(t.Context(), "udp4", loopback.Addr())
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

// With the least MaxMemory the largest messages arrive.
func TestLeastMaxMemory(t *testing.T) {
	for _, size := range []int{65536, 10_000, 1} {
		bubble(t, func(t *testing.T) {
			cfg := &Config{MaxMessageSize: size}
			set, err := newSettings(cfg, 65507)
			require.NoError(t, err)
			least := leastMemory(&set.core)
			_, err = (&ListenConfig{Config: cfg, MaxMemory: least - 1}).Listen(t.Context(), "udp4", loopback.Addr())
			require.ErrorContains(t, err, "MaxMemory")

			n := simnet.New(1)
			defer n.Close()
			n.SetDefault(simnet.Link{Latency: time.Millisecond})
			l := simListener(t, n, "10.0.0.1:7", &ListenConfig{Config: cfg, MaxMemory: least})
			defer l.Close()
			a := simDial(t, n, "10.0.0.2:1", "10.0.0.1:7", cfg)
			b, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			for range 3 {
				_, err := a.Write(make([]byte, size))
				require.NoError(t, err)
				b.SetReadDeadline(time.Now().Add(time.Minute))
				m, err := b.ReadMessage(context.Background(), nil)
				require.NoError(t, err)
				require.Len(t, m, size)
			}
			abort(a, b)
		})
	}
}

// From a socket of IPv4 an IPv6 address cannot be dialed, and the error comes at
// once.
func TestDialOfAnotherFamily(t *testing.T) {
	l, err := Listen("udp4", loopback.Addr())
	require.NoError(t, err)
	defer l.Close()
	_, err = l.Dial(t.Context(), "[::1]:9")
	require.ErrorAs(t, err, new(*net.AddrError))
	require.Zero(t, l.Stats().Conns)
}

// The error of a Mode that there is not tells it.
func TestModeError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, y := simnet.Pair(1, simnet.Link{}, simnet.Link{})
		a, b := wrapped(x, nil), wrapped(y, nil)
		defer abort(a, b)
		for _, mode := range []Mode{-1, 0, 4, 42} {
			_, err := a.WriteMessage(t.Context(), nil, mode)
			ce, ok := errors.AsType[*ConfigError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, fmt.Sprintf("porous: invalid mode: there is no Mode %d", int(mode)), ce.Error())
		}
	})
}
