package porous

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
)

// heard writes a message that the other side must read.
func heard(t *testing.T, from, to *Conn, msg string) {
	t.Helper()
	_, err := from.Write([]byte(msg))
	require.NoError(t, err)
	to.SetReadDeadline(time.Now().Add(20 * time.Second))
	require.Equal(t, msg, readString(t, to))
}

// meet dials n connections and accepts them. Server i is that of client i.
func meet(t *testing.T, l *Listener, n int) (clients, servers []*Conn) {
	t.Helper()
	byAddr := make(map[string]*Conn)
	for range n {
		c, err := new(Dialer).Dial(t.Context(), "udp", l.Addr().String())
		require.NoError(t, err)
		s, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		t.Cleanup(func() { abort(c, s) })
		clients, byAddr[s.RemoteAddr().String()] = append(clients, c), s
	}
	for _, c := range clients {
		servers = append(servers, byAddr[c.LocalAddr().String()])
	}
	return clients, servers
}

// TestSharedPort: several sockets on one port are one Listener, and each peer
// stays on its socket, whatever becomes of the others and of the Listener.
func TestSharedPort(t *testing.T) {
	l, err := (&ListenConfig{Sockets: 4, MaxConns: 24}).Listen(t.Context(), "udp", loopback.Addr())
	require.NoError(t, err)
	defer l.Close()
	clients, servers := meet(t, l, 24)
	used := 0
	for _, m := range l.side.Muxes() {
		if m.Peers() > 0 {
			used++
		}
	}
	require.Greater(t, used, 1, "all peers are on one socket")
	ctx, cancel := contextFor(t, 20*time.Second)
	defer cancel()
	one := make(chan error, 1)
	go func() {
		_, err := new(Dialer).Dial(ctx, "udp", l.Addr().String())
		one <- err
	}()
	for l.Stats().Refused == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	require.Error(t, <-one, "MaxConns is that of all sockets")
	require.EqualValues(t, 24, l.Stats().Accepted)
	require.NotZero(t, l.Stats().Refused)
	_, err = l.Dial(t.Context(), "127.0.0.1:9")
	require.ErrorAs(t, err, new(*ConfigError))

	done := make(chan error, 1)
	ctx, cancel = contextFor(t, time.Minute)
	defer cancel()
	go func() { done <- l.Shutdown(ctx) }()
	for len(clients) > 0 { // one socket after the other loses its last peer
		for i := range clients {
			heard(t, clients[i], servers[i], fmt.Sprint("client ", i, " of ", len(clients)))
			heard(t, servers[i], clients[i], fmt.Sprint("server ", i, " of ", len(clients)))
		}
		require.NoError(t, servers[0].Close())
		require.NoError(t, clients[0].Close())
		clients, servers = clients[1:], servers[1:]
	}
	require.NoError(t, <-done)
	again, err := loopback.Again(func() (*Listener, error) { return Listen("udp", l.Addr().String()) })
	require.NoError(t, err, "the port is free")
	again.Close()
}
