package porous

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/netconn"
)

// A Dialer has options for dialing. The zero value dials as [Dial] does.
type Dialer struct {
	// Config is for the connections; nil: the defaults.
	Config *Config
	// NetDialer makes the socket: local address, Control, resolver and so on.
	NetDialer net.Dialer
}

// Dial connects to a UDP address and returns once the peer has answered. The
// network is "udp", "udp4" or "udp6"; the address is as for net.Dial. The
// context bounds the attempt, and means nothing to the connection afterwards. A
// nil cfg means the defaults. Errors are those of net.Dialer, a *[ConfigError],
// the context's, [ErrRefused] and [ErrHandshakeTimeout]. An error of a peer that
// was silent also matches the last error of the socket, if there was one, such as
// syscall.ECONNREFUSED of a machine that says that nobody listens; the attempt goes
// on after that, since anybody may have sent it.
func Dial(ctx context.Context, network, address string, cfg *Config) (*Conn, error) {
	d := Dialer{Config: cfg}
	return d.Dial(ctx, network, address)
}

// Dial connects as the function [Dial] does, with the options of d.
func (d *Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	if err := listen.CheckNetwork("dial", network); err != nil {
		return nil, err
	}
	set, err := newSettings(d.Config, datagram.MaxUDP)
	if err != nil {
		return nil, err
	}
	inner, err := d.NetDialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	dc, err := newSingle(inner, d.Config, set)
	if err != nil {
		inner.Close()
		return nil, err
	}
	c := &Conn{inner: inner}
	c.onGone = func() { dialedConns.Ended(c) }
	if err := c.start(dc, set, randomIDs()); err != nil {
		dc.Close()
		return nil, err
	}
	dialedConns.Add(c)
	return c.connect(ctx)
}

// connect waits for the handshake, or closes c.
func (c *Conn) connect(ctx context.Context) (*Conn, error) {
	err := c.Connected(ctx)
	if err == nil {
		return c, nil
	}
	c.Abort()
	return nil, err
}

// Connected waits until the handshake is done. That is of use after [NewConn];
// Dial and Accept return connections for which it is. Its errors are the
// context's, and why the attempt has failed.
func (c *Conn) Connected(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.connected {
		if err := c.writeErrorLocked(); err != nil {
			return c.opError("dial", err)
		}
		if c.awaitUnlocking(ctx.Done(), nil) == wokenCancel && !c.connected {
			return c.opError("dial", netconn.Silence(c.dc, ctx.Err()))
		}
	}
	return nil
}

// newSingle makes a connection of the transport of a connection to one peer.
func newSingle(inner net.Conn, cfg *Config, set *settings) (datagram.Conn, error) {
	return datagram.Over(inner, datagram.OverConfig{
		Socket:      socketConfig(cfg),
		MaxDatagram: datagram.MaxUDP,
		MaxForeign:  set.core.MTU,
		MaxMessage:  set.core.MTU,
	})
}

// randomIDs returns the id of a request.
func randomIDs() ids {
	var b [4]byte
	rand.Read(b[:])
	id := binary.BigEndian.Uint32(b[:])
	return ids{own: id, other: id}
}
