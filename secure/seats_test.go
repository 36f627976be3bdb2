package secure

import (
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
)

// player gives all clients of a server the same number.
func player(*http.Request) (*Grant, error) { return &Grant{ClientID: 7}, nil }

// fetch returns a token of a server that the client has not used.
func fetch(t *testing.T, l *Listener) (address, welcome) {
	a, err := parseURL(l.URL("127.0.0.1"))
	require.NoError(t, err)
	tok, err := new(Dialer).token(t.Context(), a)
	require.NoError(t, err)
	return a, tok
}

// closedBy reads until the end of a session, and requires the reason of the server.
func closedBy(t *testing.T, c net.Conn, reason string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err := io.Copy(io.Discard, c)
	var ce *CloseError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, reason, ce.Reason)
}

func TestNewestLoginWins(t *testing.T) {
	l := newServer(t, &ListenConfig{Authorize: player})
	first, s1 := newSession(t, l)
	second, s2 := newSession(t, l)
	closedBy(t, first, anotherLogin)
	_, err := s1.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	for range 2 { // the end of the first session does not touch the second
		second.Write([]byte("still here"))
		_, err = s2.Read(make([]byte, 100))
		require.NoError(t, err)
	}
	n := 0
	for c := range l.Conns() {
		require.Same(t, s2, c)
		n++
	}
	require.Equal(t, 1, n)
}

// A token that was fetched before another login does not take the seat after it.
func TestOlderLoginComesLate(t *testing.T) {
	l := newServer(t, &ListenConfig{Authorize: player})
	a, old := fetch(t, l)
	newer, server := newSession(t, l)
	go l.AcceptConn(t.Context()) // refuses the old one
	c, err := new(Dialer).join(t.Context(), a, old)
	require.NoError(t, err)
	closedBy(t, c, anotherLogin)
	newer.Write([]byte("x"))
	_, err = server.Read(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// A client does not come back after a kick by a token that it holds, however it was kicked.
func TestKickVoidsTokens(t *testing.T) {
	for name, kick := range map[string]func(*testing.T, *Conn){
		"Close":            func(_ *testing.T, c *Conn) { c.Close() },
		"CloseWithReason":  func(_ *testing.T, c *Conn) { c.CloseWithReason("cheating") },
		"by a layer above": func(t *testing.T, c *Conn) { datagram.Below(c).Close() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newServer(t, &ListenConfig{Authorize: player})
			client, server := newSession(t, l)
			a, spare := fetch(t, l)
			kick(t, server)
			go l.AcceptConn(t.Context())
			c, err := new(Dialer).join(t.Context(), a, spare)
			require.NoError(t, err)
			closedBy(t, c, "the session was closed by the server")
			_, err = client.Read(make([]byte, 100))
			require.Error(t, err)
			require.NoError(t, l.Close())
		})
	}

	// A login after the kick is Authorize's affair.
	l := newServer(t, &ListenConfig{Authorize: player})
	_, server := newSession(t, l)
	server.Close()
	newSession(t, l)
	require.Len(t, l.seats.void, 1)
}

// A client whose session ended by itself comes back with a token of before that.
func TestTokenOutlivesOwnEnd(t *testing.T) {
	l := newServer(t, &ListenConfig{Authorize: player})
	client, server := newSession(t, l)
	a, spare := fetch(t, l)
	require.NoError(t, client.Close())
	_, err := server.Read(make([]byte, 100))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, server.Close())
	require.Empty(t, l.seats.void)
	c, err := new(Dialer).join(t.Context(), a, spare)
	require.NoError(t, err)
	defer c.Close()
	_, err = l.AcceptConn(t.Context())
	require.NoError(t, err)
}

// The token of a client without a number was its only one.
func TestKickOfAnonymousClient(t *testing.T) {
	l := newServer(t, nil)
	_, server := newSession(t, l)
	require.NoError(t, server.Close())
	require.Empty(t, l.seats.void)
	require.Empty(t, l.seats.clients)
}

func TestVoidIsForgotten(t *testing.T) {
	var s seats
	s.init()
	for id := range uint64(100) {
		c := &Conn{clientID: id, serial: s.serial.Add(1)}
		_, refusal := s.take(c)
		require.Empty(t, refusal)
		s.leave(c, true)
	}
	require.Len(t, s.void, 100)
	_, refusal := s.take(&Conn{clientID: 3, serial: 4})
	require.NotEmpty(t, refusal)
	s.forgetVoidLocked(time.Now().Add(tokenLifetime + 2*time.Second))
	require.Empty(t, s.void)
	require.Empty(t, s.voids)
}

// The runtime holds a stopped timer until it would have fired, unless a quarter of all are
// stopped. It does not hold the session by that.
func TestExpiryForgets(t *testing.T) {
	for range 20 {
		defer time.AfterFunc(time.Hour, func() {}).Stop()
	}
	p := func() weak.Pointer[Conn] {
		c := new(Conn)
		c.expireAt(time.Now().Add(time.Hour))
		c.over()
		return weak.Make(c)
	}()
	runtime.GC()
	require.Nil(t, p.Value())
}

func TestSessionExpires(t *testing.T) {
	life := 200 * time.Millisecond
	l := newServer(t, &ListenConfig{Authorize: func(*http.Request) (*Grant, error) {
		return &Grant{Expires: time.Now().Add(life)}, nil
	}})
	client, _ := newSession(t, l)
	closedBy(t, client, "the session has expired")
	life = -time.Second
	_, err := Dial(t.Context(), l.URL("127.0.0.1"))
	var refused *RefusedError
	require.True(t, errors.As(err, &refused))
	require.Equal(t, "the login has expired", refused.Reason)
}
