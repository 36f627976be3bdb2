package webgate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"
	"github.com/stretchr/testify/require"

	"volley"
)

const patience = 30 * time.Second

// devCert is shared, because a key takes its time.
var devCert = sync.OnceValue(func() tls.Certificate {
	cert, _, err := DevCertificate()
	if err != nil {
		panic(err)
	}
	return cert
})

// listen returns a Gate on a free port, with a certificate.
func listen(t testing.TB, cfg Config) *Gate {
	t.Helper()
	cfg.Certificate = devCert()
	g, err := Listen("127.0.0.1:0", &cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		g.Close()
		g.await(t, func(s Stats) bool { return s.Sessions == 0 })
		g.own.close()
		g.own.wg.Wait()
	})
	return g
}

// await waits until the figures are as they should be.
func (g *Gate) await(t testing.TB, ok func(Stats) bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(g.Stats()); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "%+v", g.Stats())
	}
}

// serveEcho accepts volley connections of a Gate and echoes what comes.
func serveEcho(t testing.TB, g *Gate) *volley.Listener {
	ln, err := volley.NewListener(g, nil)
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.AcceptConn(context.Background())
			if err != nil {
				return
			}
			wg.Go(func() { echo(c) })
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		ln.Shutdown(ctx)
		wg.Wait()
	})
	return ln
}

func echo(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 17000)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		c.Write(buf[:n])
	}
}

var clientTLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}

// session opens a WebTransport session.
func session(t testing.TB, g *Gate, path, origin string) (*webtransport.Session, *http.Response, error) {
	t.Helper()
	tr := &webtransport.Transport{
		TLSClientConfig: clientTLS,
		QUICConfig:      &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true},
	}
	t.Cleanup(func() { tr.Close() })
	header := http.Header{}
	if origin != "" {
		header.Set("Origin", origin)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, s, err := tr.Dial(ctx, "https://"+g.Addr().String()+path, header)
	return s, resp, err
}

// client is the client's side of a session, as a net.Conn.
func client(t testing.TB, l link) net.Conn {
	g := &Gate{}
	g.sessions = 1
	return newConn(g, l)
}

func dialTransport(t testing.TB, g *Gate, path string) net.Conn {
	t.Helper()
	s, _, err := session(t, g, path, "")
	require.NoError(t, err)
	return client(t, &transportLink{s})
}

func socket(t testing.TB, g *Gate, path, origin string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(tr.CloseIdleConnections)
	header := http.Header{}
	if origin != "" {
		header.Set("Origin", origin)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return websocket.Dial(ctx, "https://"+g.Addr().String()+path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}, HTTPHeader: header})
}

func dialSocket(t testing.TB, g *Gate, path string) net.Conn {
	t.Helper()
	ws, _, err := socket(t, g, path, "")
	require.NoError(t, err)
	return client(t, newSocketLink(ws, &http.Request{}))
}

// dials are the two ways to a Gate.
var dials = map[string]func(testing.TB, *Gate, string) net.Conn{overWebTransport: dialTransport, overWebSocket: dialSocket}

// exchange has a message of a size echoed, sends it again if it is lost, and returns
// how often it was sent.
func exchange(t testing.TB, c *volley.Conn, size int) (tries int) {
	t.Helper()
	m := bytes.Repeat([]byte{byte(size), byte(size >> 8), 7}, size/3+1)[:size]
	for tries = 1; tries < 20; tries++ {
		_, err := c.Write(m)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		got, err := c.ReadMessage(ctx, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		require.NoError(t, err)
		if bytes.Equal(got, m) {
			return tries
		}
	}
	require.Fail(t, "no echo")
	return 0
}

func TestEcho(t *testing.T) {
	for name, dial := range dials {
		t.Run(name, func(t *testing.T) {
			g := listen(t, Config{})
			serveEcho(t, g)
			c, err := volley.NewConn(dial(t, g, "/join"), nil)
			require.NoError(t, err)
			defer c.Close()
			for _, size := range []int{1, 1023, 1024, 1025, 1199, 1200, 1201, 2048, 2049, 16383, 16384} {
				exchange(t, c, size)
			}
			require.Equal(t, name, c.RemoteAddr().Network())
			require.Zero(t, g.Stats().Dropped)
		})
	}
}

// One server has a hundred sessions at a time, each of which is served, and forgets them.
func TestSessions(t *testing.T) {
	const sessions = 100
	g := listen(t, Config{MaxSessions: sessions})
	serveEcho(t, g)
	var wg sync.WaitGroup
	conns := make(chan *volley.Conn, sessions)
	dialing := make(chan struct{}, 8) // QUIC turns some away that come with too many others
	for i := range sessions {
		wg.Go(func() {
			dial := dialTransport
			if i%4 == 0 {
				dial = dialSocket
			}
			dialing <- struct{}{}
			inner := dial(t, g, "/join")
			<-dialing
			c, err := volley.NewConn(inner, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 5 {
				exchange(t, c, 100+1000*n)
			}
			conns <- c
		})
	}
	wg.Wait()
	require.Len(t, conns, sessions)
	require.Equal(t, sessions, g.Stats().Sessions)
	require.EqualValues(t, sessions, g.Stats().Opened)
	_, resp, err := session(t, g, "/join", "")
	require.Error(t, err)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	close(conns)
	for c := range conns {
		c.Close()
	}
	g.await(t, func(s Stats) bool { return s.Sessions == 0 })
}

// Only pages of the list get in, only by the path, and only those that Authorize takes.
func TestAdmission(t *testing.T) {
	const page = "https://play.example"
	asked := 0
	var mu sync.Mutex
	g := listen(t, Config{Path: "/game", Origins: []string{page}, Authorize: func(r *http.Request) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		if ticket := r.FormValue("ticket"); ticket != "" {
			return ticket, nil
		}
		return nil, errors.New("no ticket")
	}})
	for _, test := range []struct {
		path, origin string
		status       int // 0: let in
		asks         int
	}{
		{"/game?ticket=ann", page, 0, 1},
		{"/game?ticket=ann", "", 0, 1},
		{"/game", page, http.StatusForbidden, 1},
		{"/game?ticket=ann", "https://evil.example", http.StatusForbidden, 0},
		{"/game?ticket=ann", page + ":444", http.StatusForbidden, 0},
		{"/game?ticket=ann", "http://play.example", http.StatusForbidden, 0},
		{"/game?ticket=ann", "null", http.StatusForbidden, 0},
		{"/join?ticket=ann", page, http.StatusNotFound, 0},
		{"/", page, http.StatusNotFound, 0},
	} {
		for name := range dials {
			t.Run(fmt.Sprint(name, test.path, test.origin), func(t *testing.T) {
				mu.Lock()
				asked = 0
				mu.Unlock()
				g.await(t, func(s Stats) bool { return s.Sessions == 0 })
				before := g.Stats()
				var resp *http.Response
				var err error
				var l link
				if name == overWebSocket {
					var ws *websocket.Conn
					if ws, resp, err = socket(t, g, test.path, test.origin); err == nil {
						l = newSocketLink(ws, &http.Request{})
					}
				} else {
					var s *webtransport.Session
					if s, resp, err = session(t, g, test.path, test.origin); err == nil {
						l = &transportLink{s}
					}
				}
				mu.Lock()
				require.Equal(t, test.asks, asked, "%v", err)
				mu.Unlock()
				if test.status != 0 {
					require.Error(t, err)
					require.Equal(t, test.status, resp.StatusCode)
					require.Zero(t, g.Stats().Sessions)
					require.Equal(t, before.Refused+1, g.Stats().Refused)
					return
				}
				require.NoError(t, err)
				c := client(t, l)
				s, err := g.Accept()
				require.NoError(t, err)
				require.Equal(t, "ann", s.(*Conn).Identity())
				require.Equal(t, name, s.RemoteAddr().Network())
				c.Close()
				_, err = s.Read(make([]byte, 10))
				require.ErrorIs(t, err, io.EOF)
				s.Close()
			})
		}
	}
}

// A closed Gate lets nobody in, and leaves the sessions alone that were accepted.
func TestClose(t *testing.T) {
	g := listen(t, Config{})
	a, b := dialTransport(t, g, "/join"), dialTransport(t, g, "/join")
	defer a.Close()
	defer b.Close()
	s, err := g.Accept()
	require.NoError(t, err)
	g.await(t, func(s Stats) bool { return s.Opened == 2 })
	require.NoError(t, g.Close())
	_, err = g.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, status := g.admit(httptest.NewRequest(http.MethodGet, "/join", nil))
	require.Equal(t, http.StatusServiceUnavailable, status)
	_, err = s.Write([]byte("hello"))
	require.NoError(t, err)
	buf := make([]byte, 10)
	// Whichever of them was accepted hears it; the other one has ended.
	n, errA := a.Read(buf)
	m, errB := b.Read(buf)
	require.Equal(t, 5, n+m)
	require.True(t, errors.Is(errA, io.EOF) != errors.Is(errB, io.EOF), "%v, %v", errA, errB)
	s.Close()
	g.await(t, func(s Stats) bool { return s.Sessions == 0 })
}

// The places of connections are free again when these have ended.
func TestPlaces(t *testing.T) {
	for name, dial := range dials {
		t.Run(name, func(t *testing.T) {
			g := listen(t, Config{MaxSessions: 1})
			for range 5 {
				c := dial(t, g, "/join")
				s, err := g.Accept()
				require.NoError(t, err)
				c.Close()
				s.Close()
				g.await(t, func(s Stats) bool { return s.Sessions == 0 && len(g.own.conns) == 0 })
			}
		})
	}
}
