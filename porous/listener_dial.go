package porous

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"volley/internal/datagram"
	"volley/internal/listen"
)

// ErrConnExists is the error of [Listener.Dial] for an address with which there
// is a connection already.
var ErrConnExists = errors.New("porous: there is a connection with this address already")

// Dial connects to a UDP address from the socket on which l accepts, and returns when
// the peer has answered. The context bounds the attempt; requests are repeated each
// 500 ms.
//
// Two programs behind firewalls or address translators, which let in only answers, can
// connect in this way if each dials the other at about the same time (hole punching).
// They meet in one connection, whichever request comes first.
//
// Errors are the context's, [ErrRefused], [ErrHandshakeTimeout],
// [ErrConnExists], those of the resolver, net.ErrClosed after Close, and a
// *[ConfigError] if the Listener has several Sockets.
func (l *Listener) Dial(ctx context.Context, address string) (*Conn, error) {
	if l.over != nil {
		return nil, &net.OpError{Op: "dial", Net: l.Addr().Network(), Source: l.Addr(), Err: errors.ErrUnsupported}
	}
	if len(l.side.Muxes()) > 1 {
		return nil, configError("ListenConfig.Sockets", "a Listener of several sockets cannot dial")
	}
	addr, err := listen.Resolve(ctx, l.Addr(), address)
	if err == nil {
		var c *Conn
		if c, err = l.dial(addr); err == nil {
			return c.connect(ctx)
		}
	}
	local := l.Addr()
	return nil, &net.OpError{Op: "dial", Net: local.Network(), Source: local, Err: err}
}

// dial begins to connect, or takes a connection over that the peer has begun.
func (l *Listener) dial(addr netip.AddrPort) (*Conn, error) {
	dc, err := l.side.Muxes()[0].Dial(addr)
	if errors.Is(err, datagram.ErrPeerExists) {
		return l.take(addr)
	}
	if err != nil {
		return nil, err
	}
	c := l.newConn(addr)
	if err := c.start(dc, l.set, l.dialIDs(addr)); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// take returns a connection that nobody has accepted yet.
func (l *Listener) take(addr netip.AddrPort) (*Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.pending[addr]
	if !ok || p.queued && !l.side.Take(p.c) {
		return nil, ErrConnExists
	}
	delete(l.pending, addr)
	return p.c, nil
}
