package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
)

// patience is how long a test waits for what should come at once.
const patience = 30 * time.Second

// pair returns the two ends of a connection over loopback, with deadlines. They
// are closed with the test.
func pair(t *testing.T, cfg *volley.Config) (client, server *volley.Conn) {
	t.Helper()
	lc := volley.ListenConfig{Config: cfg}
	l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	d := volley.Dialer{Config: cfg}
	c, err := d.Dial(t.Context(), "udp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, l.SetDeadline(time.Now().Add(patience)))
	server, err = l.AcceptConn(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	require.NoError(t, server.SetDeadline(time.Now().Add(patience)))
	return c, server
}

// message returns size bytes that tell whether any of them is changed or lost.
func message(size int) []byte {
	b := make([]byte, size)
	x := uint32(size)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// done waits for the result of what runs beside the test.
func done(t *testing.T, result <-chan error) {
	t.Helper()
	select {
	case err := <-result:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the other side does not end")
	}
}
