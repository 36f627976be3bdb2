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
	"volley/simnet"
)

// A served session has no goroutine, nor has a message connection on one. Each client is
// gone without a word, so that only the server's side is counted.
func TestServedHasNoGoroutines(t *testing.T) {
	const clients = 1000
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
	for name, start := range map[string]startServed{
		"netcode":             sessionsServed(false),
		"volley over netcode": sessionsServed(true),
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
						c.Close()
					}
					time.Sleep(time.Second)
					synctest.Wait()
					require.EqualValues(t, clients, h.heard.Load())
					require.LessOrEqual(t, testenv.Goroutines(), before+3)
					require.Len(t, conns(), clients)
					for _, c := range conns() {
						c.Close()
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
