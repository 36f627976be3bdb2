package volley

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"volley/internal/datagram"
	"volley/internal/listen"
)

// ErrConnExists is the error of [Listener.Dial] for an address with which the
// application has a connection already.
var ErrConnExists = errors.New("volley: there is a connection with this address already")

// Dial connects to a UDP address from the socket on which l accepts. No answer
// is waited for, and the peer is greeted, as by the function [Dial]; the context
// bounds the resolution of a name. So two programs behind firewalls or address
// translators, which let in only what answers, can connect when each dials the
// other (hole punching): they meet in one connection, whichever packet comes
// first. A greeting that is lost, or stopped since the other side has not dialed
// yet, is made up for by the next message or keepalive. If the peer has come
// before and waits for Accept, Dial returns that connection. On a machine of several
// addresses, a Listener on all of them dials from the one that the system chooses.
//
// The connection has l's Config, counts for its limits, which do not refuse it,
// and lives on after Close, as accepted ones do. Errors are those of the
// resolver, a *net.AddrError for port 0 or an IPv6 address where l has a socket of
// IPv4, [ErrConnExists], net.ErrClosed after Close, and a *[ConfigError] if the
// Listener has several Sockets. A Listener of [NewListener] cannot dial.
func (l *Listener) Dial(ctx context.Context, address string) (*Conn, error) {
	if l.over != nil {
		return nil, l.unsupported("dial")
	}
	addr, err := listen.Resolve(ctx, l.Addr(), address)
	addr = plain(addr)
	if err == nil {
		err = checkAddr(addr)
	}
	if err == nil {
		var c *Conn
		if c, err = l.dial(addr); err == nil {
			c.markAccepted()
			return c, nil
		}
	}
	local := l.Addr()
	return nil, &net.OpError{Op: "dial", Net: local.Network(), Source: local, Err: err}
}

func (l *Listener) dial(addr netip.AddrPort) (*Conn, error) {
	muxes := l.side.Muxes()
	if len(muxes) > 1 {
		return nil, &ConfigError{Field: "ListenConfig.Sockets", Reason: "a Listener of several sockets cannot dial, because an answer may arrive at any of them"}
	}
	dc, err := muxes[0].Dial(addr)
	if errors.Is(err, datagram.ErrPeerExists) {
		if c, err := l.take(addr); err != nil || c != nil {
			return c, err
		}
		dc, err = muxes[0].Dial(addr) // in the place of one that was closed
	}
	if err != nil {
		return nil, err
	}
	c := new(Conn)
	l.side.Add()
	if err := c.start(dc, l.set); err != nil {
		l.forget(c)
		dc.Close()
		return nil, err
	}
	l.greet(c)
	return c, nil
}

// greet greets the peer of a connection that the application asks for.
func (l *Listener) greet(c *Conn) {
	if l.set.keepAlive > 0 {
		c.greet()
	}
}

// uncover reports whether a connection was hidden, which it is no more.
func (c *Conn) uncover() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hidden || c.out.Err() != nil {
		return false
	}
	c.hidden = false
	c.scheduleLocked(time.Now(), c.now()) // keepalives are due from now on
	return true
}

// take returns a connection that waits for Accept; nil: an old one has left room for a new one.
func (l *Listener) take(addr netip.AddrPort) (*Conn, error) {
	first, others := l.side.Muxes()[0].HandlersOf(addr)
	for _, h := range append([]datagram.Handler{first}, others...) {
		h, ok := h.(*handler)
		if !ok {
			continue
		}
		c := (*Conn)(h)
		if c.uncover() {
			l.greet(c)
			return c, nil
		}
		if l.side.Take(c) {
			return c, nil
		}
	}
	for _, h := range append(others, first) {
		if parted(h) {
			return nil, nil
		}
	}
	return nil, ErrConnExists
}
