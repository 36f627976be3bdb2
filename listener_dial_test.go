package volley

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is dialed as 0.0.0.0, or without a host, answers as 127.0.0.1, and belongs
// to the connection.
func TestListenerDialsUnspecified(t *testing.T) {
	for _, host := range []string{"0.0.0.0", ""} {
		a, err := Listen("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer a.Close()
		b, err := Listen("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer b.Close()
		c, err := a.Dial(t.Context(), fmt.Sprint(host, ":", b.Addr().(*net.UDPAddr).Port))
		require.NoError(t, err)
		defer c.Close()
		s, err := b.AcceptConn(context.Background())
		require.NoError(t, err)
		defer s.Close()
		s.Write([]byte("hello"))
		c.SetReadDeadline(time.Now().Add(30 * time.Second))
		m, err := c.ReadMessage(context.Background(), nil)
		require.NoError(t, err)
		require.Equal(t, "hello", string(m))
		require.Equal(t, 1, a.Stats().Conns)

		_, err = a.Dial(t.Context(), host+":0")
		_, ok := errors.AsType[*net.AddrError](err)
		require.True(t, ok, "%v", err)
	}
}

// A connection that a Listener has dialed counts as accepted: Conns yields it, and it
// lives on after Close.
func TestListenerDialCounts(t *testing.T) {
	a, err := Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer a.Close()
	b, err := Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer b.Close()
	c, err := a.Dial(t.Context(), b.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, set(c), listed(t, a))
	s, err := b.AcceptConn(context.Background())
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, a.Close())
	require.Equal(t, set(c), listed(t, a))
	require.NoError(t, c.Close())
	require.Empty(t, listed(t, a))
}
