package stacktest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/porous"
	"volley/riptide"
	"volley/secure"
)

func secureListen(t *testing.T) *secure.Listener {
	l, err := secure.Listen("udp4", "127.0.0.1:0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func secureDial(t *testing.T, l *secure.Listener) *secure.Conn {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := secure.Dial(ctx, l.URL("127.0.0.1"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// volley stacks on a session by calls: messages of all sizes pass, with the socket's offload,
// and the reason of the session's end reaches the reader.
func TestVolleyOverSecure(t *testing.T) {
	inner := secureListen(t)
	l := newListener(inner, nil)
	defer l.Close()
	session := secureDial(t, inner)
	client := newConn(session, nil)
	server, err := l.AcceptConn(t.Context())
	require.NoError(t, err)
	defer server.Close()
	require.NotZero(t, server.NetConn().(*secure.Conn).ClientID())

	for _, size := range []int{1, 1000, 1190, 1191, 1199, 1200, 5000, client.MaxMessageSize()} {
		msg := bytes.Repeat([]byte{byte(size)}, size)
		_, err := client.WriteBatch(nil, [][]byte{msg, msg})
		require.NoError(t, err)
		for range 2 {
			got, err := server.ReadMessage(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, msg, got)
		}
	}
	require.NotZero(t, l.Stats().Memory, "what sessions hold is counted")
	require.NoError(t, volley.WriteAll([]byte("to all"), slices.Values([]*volley.Conn{server})))
	got, err := client.ReadMessage(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "to all", string(got))

	udp, err := volley.Dial("udp4", inner.Addr().String())
	require.NoError(t, err)
	defer udp.Close()
	want, have := udp.Stats().Transport, client.Stats().Transport
	require.Equal(t, want.SegmentedSend, have.SegmentedSend)
	require.Equal(t, want.SegmentedReceive, have.SegmentedReceive)
	require.NotZero(t, have.SendCalls)

	require.NoError(t, server.NetConn().(*secure.Conn).CloseWithReason("the round is over"))
	_, err = client.ReadMessage(t.Context(), nil)
	var ce *secure.CloseError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, "the round is over", ce.Reason)
}

func TestPorousOverSecure(t *testing.T) {
	inner := secureListen(t)
	l, err := porous.NewListener(inner, nil)
	require.NoError(t, err)
	defer l.Close()
	client, err := porous.NewConn(secureDial(t, inner), nil)
	require.NoError(t, err)
	defer client.Close()
	msg := bytes.Repeat([]byte("porous"), 10000)
	_, err = client.Write(msg)
	require.NoError(t, err)
	server, err := l.AcceptConn(t.Context())
	require.NoError(t, err)
	defer server.Close()
	server.SetReadDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, len(msg))
	n, err := server.Read(buf)
	require.NoError(t, err)
	require.True(t, bytes.Equal(msg, buf[:n]))
}

func TestRiptideOverSecure(t *testing.T) {
	inner := secureListen(t)
	cfg := &riptide.Config{MaxPayload: 1190, IgnoreQuality: true}
	server := &riptide.Server{
		Config:    cfg,
		Unhandled: func(p *riptide.Peer, m *riptide.Message) error { return p.Send(m) },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(inner) }()
	echo := make(chan int, 1)
	c := &riptide.Client{Config: cfg, Unhandled: func(_ *riptide.Client, m *riptide.Message) error {
		echo <- len(riptide.ReadSlice[byte](m))
		return m.Err()
	}}
	require.NoError(t, c.ConnectOn(t.Context(), secureDial(t, inner)))
	m := cfg.NewMessage(riptide.Reliable, 1)
	riptide.AddSlice(m, make([]byte, 1100))
	require.NoError(t, c.Send(m))
	require.Equal(t, 1100, <-echo)
	require.NoError(t, server.Shutdown(t.Context()))
	<-c.Done()
	require.True(t, errors.Is(<-served, net.ErrClosed))
}

// What is above a secure listener is served on the goroutine that reads the socket.
func TestServeOverSecure(t *testing.T) {
	inner := secureListen(t)
	l := newListener(inner, nil)
	served := make(chan error, 1)
	go func() {
		served <- l.Serve(volley.Handler{Message: func(c *volley.Conn, msg []byte) { c.Write(msg) }})
	}()
	client := newConn(secureDial(t, inner), nil)
	for i := range 10 {
		client.Write([]byte{byte(i)})
		got, err := client.ReadMessage(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, got)
	}
	require.NoError(t, client.Close())
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-served, net.ErrClosed)
}
