package secure

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newServer(t *testing.T, cfg *ListenConfig) *Listener {
	t.Helper()
	l, err := Listen("udp", "127.0.0.1:0", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func newSession(t *testing.T, l *Listener) (client, server *Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client, err := Dial(ctx, l.URL("127.0.0.1"))
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	server, err = l.AcceptConn(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	return client, server
}

func TestSession(t *testing.T) {
	l := newServer(t, nil)
	client, server := newSession(t, l)
	client.Write([]byte("up"))
	buf := make([]byte, 2000)
	n, err := server.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "up", string(buf[:n]))
	server.Write([]byte("down"))
	n, err = client.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "down", string(buf[:n]))
	require.Equal(t, 1199, client.MaxMessageSize())
	require.NotZero(t, server.ClientID())

	require.NoError(t, server.CloseWithReason("kicked"))
	_, err = client.Read(buf)
	var ce *CloseError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, "kicked", ce.Reason)
	require.False(t, errors.Is(err, io.EOF))
}

func TestRefused(t *testing.T) {
	l := newServer(t, &ListenConfig{Authorize: func(r *http.Request) (*Grant, error) {
		if r.Header.Get("Authorization") == "Bearer me" {
			return &Grant{ClientID: 7, Identity: []byte("player 7")}, nil
		}
		return nil, errors.New("no such player")
	}})
	_, err := Dial(t.Context(), l.URL("127.0.0.1"))
	var re *RefusedError
	require.ErrorAs(t, err, &re)
	require.Equal(t, "no such player", re.Reason)

	d := Dialer{Header: http.Header{"Authorization": {"Bearer me"}}}
	for range 3 {
		c, err := d.Dial(t.Context(), l.URL("127.0.0.1"))
		require.NoError(t, err)
		s, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(7), s.ClientID())
		require.Equal(t, "player 7", string(s.Identity()))
		defer c.Close()
	}
}
