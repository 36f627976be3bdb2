package stacktest

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/porous"
	"volley/simnet"
)

// A served session has no goroutine, nor has a connection of volley or porous on one, nor one
// of porous over UDP. Each client is gone without a word, so that only the server's side is
// counted.
func TestServedHasNoGoroutines(t *testing.T) {
	clients := testenv.Raced(300, 50)
	link := simnet.Link{Latency: 10 * time.Millisecond}
	sessionsServed := func(messages bool) startServed {
		return func(t *testing.T, h counting) (*simnet.Network, func() net.Conn, func() []net.Conn, func()) {
			s := newSessions(t, link)
			if !messages {
				srv := serverOf(t, s.inner, netcodeHandler, nil)
				go srv.run(h.handler(), h.polled)
				return s.net, func() net.Conn { return s.dial(t) }, srv.conns, func() { s.inner.Close() }
			}
			srv := serverOf(t, newListener(s.inner, nil), volleyHandler, nil)
			go srv.run(h.handler(), h.polled)
			return s.net, func() net.Conn { return newConn(s.dial(t), nil) }, srv.conns, func() { srv.close() }
		}
	}
	porousServed := func(sessions bool) startServed {
		return func(t *testing.T, h counting) (*simnet.Network, func() net.Conn, func() []net.Conn, func()) {
			s := newSessions(t, link)
			l, err := porous.NewListener(s.inner, nil)
			require.NoError(t, err)
			dial := func() net.Conn {
				c, err := porous.NewConn(s.dial(t), nil)
				require.NoError(t, err)
				return c
			}
			if !sessions {
				l, dial = porousOn(t, s.net)
			}
			srv := serverOf(t, l, porousHandler, dial)
			go srv.run(h.handler(), h.polled)
			return s.net, dial, srv.conns, func() { srv.close(); s.inner.Close() }
		}
	}
	for name, start := range map[string]startServed{
		"netcode":             sessionsServed(false),
		"volley over netcode": sessionsServed(true),
		"porous":              porousServed(false),
		"porous over netcode": porousServed(true),
	} {
		for _, polled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/polled=%v", name, polled), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := counting{polled: polled, heard: new(atomic.Int32)}
					n, dial, conns, closeListener := start(t, h)
					defer n.Close()
					n.SetDefault(link)
					before := testenv.Goroutines()
					var dialed []net.Conn
					for range clients {
						c := dial()
						tell(t, c, "hello")
						hears(t, c, "hello")
						dialed = append(dialed, c)
					}
					n.SetDefault(simnet.Link{Blackout: true})
					for _, c := range dialed {
						abort(c)
					}
					time.Sleep(time.Second)
					synctest.Wait()
					require.EqualValues(t, clients, h.heard.Load())
					require.LessOrEqual(t, testenv.Goroutines(), before+3)
					require.Len(t, conns(), clients)
					for _, c := range conns() {
						abort(c)
					}
					closeListener()
					time.Sleep(time.Minute)
				})
			})
		}
	}
}

// A startServed serves a new listener, and returns how to dial, its connections and Close.
type startServed func(t *testing.T, h counting) (n *simnet.Network, dial func() net.Conn, conns func() []net.Conn, end func())

// A counting handler answers.
type counting struct {
	polled bool
	heard  *atomic.Int32
}

func (h counting) handler() serveHandler {
	return serveHandler{message: func(c valued, msg []byte) {
		h.heard.Add(1)
		c.Write(msg)
	}}
}

// porousOn returns a listener on n, and how to dial it.
func porousOn(t *testing.T, n *simnet.Network) (*porous.Listener, func() net.Conn) {
	pc, err := n.Listen("10.0.0.9:7")
	require.NoError(t, err)
	l, err := new(porous.ListenConfig).ListenOn(pc)
	require.NoError(t, err)
	return l, func() net.Conn {
		pc, err := n.Listen("10.0.1.1:0")
		require.NoError(t, err)
		c, err := new(porous.Dialer).DialOn(t.Context(), pc, l.Addr())
		require.NoError(t, err)
		return c
	}
}

// porousHandler is for the first channel.
func porousHandler(h serveHandler) porous.Handler {
	return porous.Handler{
		Open:    func(c *porous.Conn) { h.open(c) },
		Message: func(c *porous.Conn, _ int, msg []byte) { h.message(c, msg) },
		Closed:  func(c *porous.Conn, err error) { h.closed(c, err) },
	}
}

// abort closes a connection at once: the Close of porous waits for what was sent.
func abort(c net.Conn) {
	if a, ok := c.(interface{ Abort() error }); ok {
		a.Abort()
		return
	}
	c.Close()
}
