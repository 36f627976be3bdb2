package world

import (
	"context"
	"net"
	"net/netip"
	"time"

	"volley"
	"volley/netcode"
)

// A netcodeLink is a session of package netcode.
type netcodeLink struct{ *netcode.Conn }

func (l netcodeLink) read(ctx context.Context, dst []byte) ([]byte, uint64, error) {
	msg, err := l.ReadMessage(ctx, dst)
	return msg, 0, err
}

func (l netcodeLink) write(b []byte) (uint64, error) {
	_, err := l.Write(b)
	return 0, err
}

func (l netcodeLink) fates(func(uint64, volley.Fate)) error { return net.ErrClosed }
func (l netcodeLink) close() error                          { return l.Close() }
func (l netcodeLink) max() int                              { return l.MaxMessageSize() }
func (l netcodeLink) pin() (pin, time.Duration)             { return pinTo(l.Conn), 0 }
func (l netcodeLink) look()                                 { l.Stats() }

// sealed are the promises about messages that nobody can forge.
var sealed = promises{once: true, exact: true}

// issuer issues the tokens of a world.
func (w *world) issuer(server netip.AddrPort) *netcode.Issuer {
	var key netcode.Key
	for i := range key {
		key[i] = byte(w.plan.seed >> (i % 8 * 8))
	}
	key[0] |= 1
	return &netcode.Issuer{PrivateKey: key, ProtocolID: w.plan.seed, Servers: []netip.AddrPort{server}}
}

// sessionWait is how long a client waits for a session, and riptideWait for a connection of
// package riptide.
const (
	sessionWait = 25 * time.Second
	riptideWait = 20 * time.Second
)

// session opens a session with a server, on a socket.
func (w *world) session(pc net.PacketConn, to netip.AddrPort) (*netcode.Conn, error) {
	token, err := w.issuer(to).Issue(w.clientID.Add(1), nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sessionWait)
	defer cancel()
	return new(netcode.Dialer).DialOn(ctx, pc, token)
}

func listenSessions(w *world, home int, pc net.PacketConn) (*netcode.Listener, error) {
	is := w.issuer(w.hosts[home].addr())
	lc := netcode.ListenConfig{PrivateKey: is.PrivateKey, ProtocolID: is.ProtocolID, MaxMemory: sessionLimit(w.plan.servers[home])}
	return lc.ListenOn(pc)
}

// A netcodeServer accepts sessions, or serves them.
type netcodeServer struct {
	*netcode.Listener
	w    *world
	home int
}

func listenNetcode(w *world, home int, pc net.PacketConn) (server, error) {
	l, err := listenSessions(w, home, pc)
	return &netcodeServer{l, w, home}, err
}

func (s *netcodeServer) end(c *netcode.Conn, served bool) *end {
	return newEnd(s.w.book, netcodeLink{c}, route{home: s.home, peer: s.w.hostOf(c.RemoteAddr()), promises: sealed, served: served})
}

func (s *netcodeServer) run(take func(*end)) {
	h := netcode.Handler{
		Open: func(c *netcode.Conn) {
			e := s.end(c, true)
			c.SetValue(e)
			take(e)
		},
		Message: func(c *netcode.Conn, msg []byte) { c.Value().(*end).take(msg, 0) },
		Closed:  func(c *netcode.Conn, err error) { c.Value().(*end).finished(err) },
	}
	s.w.handle(s.home, func() error {
		c, err := s.AcceptConn(context.Background())
		if err == nil {
			take(s.end(c, false))
		}
		return err
	}, func() error { return s.Serve(h) }, func() error { return s.Poll(h) })
}

func (s *netcodeServer) shutdown() error { return within(s.Shutdown) }
func (s *netcodeServer) close()          { s.Close() }

func (s *netcodeServer) check(over bool) { s.w.checkSessions(s.home, s.Listener)(over) }

// checkSessions returns a function that checks the sessions of a server.
func (w *world) checkSessions(home int, l *netcode.Listener) func(over bool) {
	return func(over bool) {
		st := l.Stats()
		w.checkMemory(home, over, st.Conns, st.Memory, sessionLimit(w.plan.servers[home]))
	}
}

func dialNetcode(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error) {
	c, err := w.session(pc, to)
	if err != nil {
		return nil, err
	}
	return newEnd(w.book, netcodeLink{c}, route{home: home, peer: peer, promises: sealed, dialed: true}), nil
}

// listenSealed has volley over sessions.
func listenSealed(w *world, home int, pc net.PacketConn) (server, error) {
	inner, err := listenSessions(w, home, pc)
	if err != nil {
		return nil, err
	}
	l, err := volley.NewListener(inner, w.volleyConfig(home).Config)
	return &volleyServer{Listener: l, w: w, home: home, below: w.checkSessions(home, inner)}, err
}

func dialSealed(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error) {
	inner, err := w.session(pc, to)
	if err != nil {
		return nil, err
	}
	c, err := volley.NewConn(w.within(inner, pc, home, peer), &volley.Config{ReadBuffer: clientBuffer(home), Capture: w.recorder})
	if err != nil {
		return nil, err
	}
	return w.volleyEnd(c, home, peer, false), nil
}

// within calls a Shutdown with a minute of time.
func within(shutdown func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return shutdown(ctx)
}

// checkMemory checks the memory of a server, and at the end that nothing is left.
func (w *world) checkMemory(home int, over bool, conns int, memory, limit int64) {
	if memory > limit || memory < 0 {
		w.book.fail("host %d: %d bytes of memory, the limit is %d", home, memory, limit)
	}
	if over && (conns != 0 || memory != 0) {
		w.book.fail("host %d: %d connections and %d bytes of memory are left", home, conns, memory)
	}
}

// A liar is a session whose writes change while its host lies.
type liar struct {
	net.Conn
	socket *socket
	size   int
}

// MaxMessageSize is the size of the largest message.
func (l *liar) MaxMessageSize() int { return l.size }

// Write implements net.Conn.
func (l *liar) Write(b []byte) (int, error) {
	said := l.socket.lie(b)
	_, err := l.Conn.Write(said[:min(len(said), l.size)])
	return len(b), err
}

// within returns what a protocol of a client stands on.
func (w *world) within(inner interface {
	net.Conn
	MaxMessageSize() int
}, pc net.PacketConn, home, peer int) net.Conn {
	if !w.plan.lies(home, peer) {
		return inner
	}
	return &liar{inner, pc.(*socket), inner.MaxMessageSize()}
}
