package stacktest

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"volley"
	"volley/internal/deadline"
	"volley/internal/inbox"
	"volley/internal/loopback"
	"volley/netcode"
	"volley/porous"
)

// A servedView is a served connection as a net.Conn: what the handler is given waits for
// Read. All other methods are the connection's own.
type servedView struct {
	net.Conn
	in   inbox.Inbox
	read deadline.Deadline
}

func viewOf(c net.Conn) *servedView {
	v := &servedView{Conn: c}
	v.in.Init(16<<20, nil)
	return v
}

func (v *servedView) Read(b []byte) (int, error) { return v.in.ReadPart(b, &v.read) }

func (v *servedView) SetReadDeadline(t time.Time) error {
	v.read.Set(t)
	v.in.Interrupt()
	return nil
}

func (v *servedView) SetDeadline(t time.Time) error {
	v.SetReadDeadline(t)
	return v.SetWriteDeadline(t)
}

// A viewing is a handler that makes views.
type viewing struct{ opened chan *servedView }

func (s viewing) open(c valued, written net.Conn) {
	v := viewOf(written)
	c.SetValue(v)
	s.opened <- v
}

func (viewing) message(c valued, msg []byte) {
	in := &c.Value().(*servedView).in
	in.Lock()
	defer in.Unlock() // wakes a reader
	in.Push(msg)
}

func (viewing) closed(c valued, err error) { c.Value().(*servedView).in.End(err) }

func (s viewing) serveHandler() serveHandler {
	return serveHandler{open: func(c valued) { s.open(c, c) }, message: s.message, closed: s.closed}
}

// A runner runs a server with Handlers of type H, until it is closed.
type runner[H any] interface {
	Serve(H) error
	Poll(H) error
}

// serveOrPoll serves, or polls each millisecond.
func serveOrPoll[H any](l runner[H], h H, polled bool) {
	if !polled {
		l.Serve(h)
		return
	}
	for l.Poll(h) == nil {
		time.Sleep(time.Millisecond)
	}
}

// A servedPair serves a new listener by a viewing, and dials.
type servedPair func(t *testing.T, s viewing, polled bool) (client net.Conn, stop func())

func servedVolley(t *testing.T, s viewing, polled bool) (net.Conn, func()) {
	l, err := volley.Listen("udp", loopback.Addr())
	require.NoError(t, err)
	go serveOrPoll(l, volleyHandler(s.serveHandler()), polled)
	c, err := volley.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	return c, func() { l.Close() }
}

// servedSession returns a listener for sessions, and a session.
func servedSession(t *testing.T) (*netcode.Listener, func() *netcode.Conn) {
	lc := netcode.ListenConfig{PrivateKey: netcode.GenerateKey()}
	l, err := lc.Listen(t.Context(), "udp", loopback.Addr())
	require.NoError(t, err)
	return l, func() *netcode.Conn {
		issuer := netcode.Issuer{PrivateKey: lc.PrivateKey, Servers: []netip.AddrPort{l.Addr().(*net.UDPAddr).AddrPort()}}
		token, err := issuer.Issue(1, nil)
		require.NoError(t, err)
		c, err := netcode.Dial(token)
		require.NoError(t, err)
		return c
	}
}

func servedNetcode(t *testing.T, s viewing, polled bool) (net.Conn, func()) {
	l, dial := servedSession(t)
	go serveOrPoll(l, netcodeHandler(s.serveHandler()), polled)
	return dial(), func() { l.Close() }
}

func servedStack(t *testing.T, s viewing, polled bool) (net.Conn, func()) {
	inner, dial := servedSession(t)
	l := newListener(inner, nil)
	go serveOrPoll(l, volleyHandler(s.serveHandler()), polled)
	return newConn(dial(), nil), func() { l.Close() }
}

// servedPorous is of the first channel of a connection.
func servedPorous(t *testing.T, s viewing, polled bool) (net.Conn, func()) {
	l, err := porous.Listen("udp", loopback.Addr())
	require.NoError(t, err)
	go serveOrPoll(l, porousHandler(s.serveHandler()), polled)
	c, err := porous.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	return c, func() { l.Close() }
}

// nettestParts are those of nettest.TestConn, in order.
var nettestParts = []string{"BasicIO", "PingPong", "RacyRead", "RacyWrite", "ReadTimeout",
	"WriteTimeout", "PastTimeout", "PresentTimeout", "FutureTimeout",
	"CloseTimeout", "ConcurrentMethods"}

// A served connection is not read, and a net.Conn in all else, with Serve and with Poll. Three parts need every
// message to arrive: except over porous, they are given a pipe that is no connection at all.
func TestNettestServed(t *testing.T) {
	lossy := []string{"BasicIO", "PingPong", "FutureTimeout"}
	for _, test := range []struct {
		name string
		pair servedPair
		skip []string
	}{
		{"volley", servedVolley, lossy},
		{"netcode", servedNetcode, lossy},
		{"volley over netcode", servedStack, lossy},
		{"porous", servedPorous, nil},
	} {
		for _, how := range []struct {
			name           string
			polled, dialed bool // the dialed connection is the first of the pair
		}{{"served", false, false}, {"dialed", false, true}, {"polled", true, false}, {"dialed, polled", true, true}} {
			t.Run(test.name+"/"+how.name, func(t *testing.T) {
				next := 0
				nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
					part := nettestParts[next]
					next++
					if slices.Contains(test.skip, part) {
						a, b := net.Pipe()
						return a, b, func() { a.Close(); b.Close() }, nil
					}
					s := viewing{make(chan *servedView, 1)}
					client, closeListener := test.pair(t, s, how.polled)
					view := <-s.opened
					stop = func() {
						client.Close()
						view.Close()
						closeListener()
					}
					if how.dialed {
						return client, view, stop, nil
					}
					return view, client, stop, nil
				})
			})
		}
	}
}
