package netcode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
)

// TestSharedPort: several sockets on one port are one server, and each session
// stays on its socket, whatever becomes of the others.
func TestSharedPort(t *testing.T) {
	const clients = 24
	key := GenerateKey()
	lc := ListenConfig{PrivateKey: key, MaxClients: clients, Sockets: 4, Config: &Config{KeepAlive: time.Hour}}
	l, err := lc.Listen(t.Context(), "udp", loopback.Addr())
	require.NoError(t, err)
	defer l.Close()
	l.SetDeadline(time.Now().Add(20 * time.Second))
	server := netip.MustParseAddrPort(l.Addr().String())
	issuer := Issuer{PrivateKey: key, Servers: []netip.AddrPort{server}, Lifetime: 5 * time.Minute, Timeout: 5 * time.Minute}

	var near, far []*Conn
	var slots []int
	var used []byte // of the last
	for i := range clients {
		tok, err := issuer.Issue(uint64(i), nil)
		require.NoError(t, err)
		used, err = tok.MarshalBinary()
		require.NoError(t, err)
		c, err := new(Dialer).Dial(t.Context(), tok)
		require.NoError(t, err)
		defer c.Close()
		s, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		defer s.Close()
		require.EqualValues(t, i, s.ClientID())
		slot, _ := s.ClientIndex()
		near, far, slots = append(near, c), append(far, s), append(slots, slot)
	}
	slices.Sort(slots)
	for i, slot := range slots {
		require.Equal(t, i, slot, "the slots are those of one server")
	}
	muxes := 0
	for _, m := range l.side.Muxes() {
		if m.Peers() > 0 {
			muxes++
		}
	}
	require.Greater(t, muxes, 1, "all sessions are on one socket")

	// Whichever socket hears a client, it is the same server's that is full, and
	// that knows the token.
	for range 8 {
		tok, _ := issuer.Issue(99, nil)
		_, err := new(Dialer).Dial(t.Context(), tok)
		require.ErrorIs(t, err, ErrServerFull)
	}
	near[clients-1].Close()
	awaitEnd(t, far[clients-1])
	for try := 0; try < 8 || l.Stats().Drops[dropTokenUsed.String()] == 0; try++ {
		require.Less(t, try, 600)
		again, err := parseToken(used)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = new(Dialer).Dial(ctx, again)
		cancel()
		require.Error(t, err, "a token was used twice")
	}
	s := l.Stats()
	require.GreaterOrEqual(t, s.Denied, uint64(8))
	require.EqualValues(t, clients, s.Accepted)
	near, far = near[:clients-1], far[:clients-1]

	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { done <- l.Shutdown(ctx) }()
	for len(far) > 0 { // one socket after the other loses its last session
		for i := range far {
			heard(t, near[i], far[i], fmt.Sprint("client ", i))
			heard(t, far[i], near[i], fmt.Sprint("server ", i))
		}
		far[0].Close()
		near, far = near[1:], far[1:]
	}
	require.NoError(t, <-done)
	again, err := loopback.Again(func() (*Listener, error) { return Listen("udp", l.Addr().String(), key, 0) })
	require.NoError(t, err)
	again.Close()
}

// awaitEnd waits until the client has ended a session.
func awaitEnd(t *testing.T, c *Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := c.Read(make([]byte, 9))
	require.Error(t, err)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
}

// heard sends a payload until it arrives.
func heard(t *testing.T, from, to *Conn, payload string) {
	t.Helper()
	b := make([]byte, MaxMessageSize)
	for try := 0; ; try++ {
		_, err := from.Write([]byte(payload))
		require.NoError(t, err)
		to.SetReadDeadline(time.Now().Add(2 * time.Second))
		n, err := to.Read(b)
		if err == nil && string(b[:n]) == payload {
			return
		}
		require.Less(t, try, 10, "%q has not arrived: %v", payload, err)
	}
}
