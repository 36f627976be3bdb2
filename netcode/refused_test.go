package netcode

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/simnet"
)

// TestClientClockAhead: whether a token has expired is not for the client's
// clock to say. Here it is 40 s ahead of those of backend and server, with
// tokens that live for 30 s.
func TestClientClockAhead(t *testing.T) {
	bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		const ahead = 40 * time.Second
		l := simListen(t, n, nil)
		l.mu.Lock()
		l.core.wall = func(now time.Time) uint64 { return unixSeconds(now.Add(-ahead)) }
		l.core.requests.minExpires -= uint64(ahead / time.Second)
		l.mu.Unlock()
		tok, err := testIssuer().issue(time.Now().Add(-ahead), 1, nil, GenerateKey(), GenerateKey(), randomNonce())
		require.NoError(t, err)
		client, err := simDial(t, n, tok)
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		client.Write([]byte("x"))
		wantRead(t, server, "x")
		closeAll(client, server, l)
	})
}

// TestDialRefused: a server whose port refuses is given up after about a
// second, and not after the timeout, here an hour.
func TestDialRefused(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not every system tells")
	}
	key := GenerateKey()
	l, err := Listen("udp", "127.0.0.1:0", key, 0)
	require.NoError(t, err)
	defer l.Close()
	free, err := net.ListenPacket("udp", loopback.Addr())
	require.NoError(t, err)
	free.Close()
	good, closed := netip.MustParseAddrPort(l.Addr().String()), netip.MustParseAddrPort(free.LocalAddr().String())
	dial := func(servers ...netip.AddrPort) (*Conn, error) {
		is := Issuer{PrivateKey: key, Servers: servers, Timeout: time.Hour, Lifetime: 2 * time.Hour}
		tok, err := is.Issue(uint64(len(servers)), nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return new(Dialer).Dial(ctx, tok)
	}
	c, err := dial(closed, good)
	require.NoError(t, err)
	require.Equal(t, good.String(), c.RemoteAddr().String())
	c.Close()

	_, err = dial(closed)
	var he *HandshakeError
	require.True(t, errors.As(err, &he), "%v", err)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.False(t, he.Attempts[0].Challenged)
	require.False(t, he.Timeout())
	require.GreaterOrEqual(t, he.Elapsed, refusalPatience)
}

// TestRefusalsForged: messages that nobody listens, which anybody may send, stop
// no handshake with a server that answers within a second.
func TestRefusalsForged(t *testing.T) {
	s := newTestServer(nil)
	now := testStart
	c := newTestClient(now, issueAt(t, now, 1))
	_, answers := serverHandles(s, now, clientAddr(1), clientSends(c, now)[0])
	for range 9 {
		c.refuse(now)
		now = now.Add(100 * time.Millisecond)
		clientSends(c, now)
	}
	require.Equal(t, stateRequesting, c.state)
	c.receive(now, testServerAddr, answers[0])
	for range 20 {
		c.refuse(now)
		now = now.Add(100 * time.Millisecond)
	}
	require.Equal(t, stateResponding, c.state)
	_, answers = serverHandles(s, now, clientAddr(1), clientSends(c, now)[0])
	c.receive(now, testServerAddr, answers[0])
	c.refuse(now)
	require.Equal(t, stateConnected, c.state)
}

// TestRefusalsCountPerServer: each server has its second.
func TestRefusalsCountPerServer(t *testing.T) {
	now := testStart
	c := newTestClient(now, sharedToken(t, now, 1))
	for i := range 3 {
		require.Equal(t, i, c.server)
		for n := 0; c.server == i && c.state == stateRequesting; n++ {
			require.LessOrEqual(t, n, 101, "server %d is not given up", i)
			c.refuse(now)
			now = now.Add(10 * time.Millisecond)
		}
	}
	require.Equal(t, stateRequestTimedOut, c.state)
	require.Len(t, c.attempts, 3)
	for _, a := range c.attempts {
		require.InDelta(t, refusalPatience, a.elapsed, float64(10*time.Millisecond))
		require.ErrorIs(t, a.err, syscall.ECONNREFUSED)
	}
}
