package porous

import (
	"net"

	"volley/internal/datagram"
	"volley/internal/netconn"
)

// NewConn puts the protocol on inner, a connection that preserves message
// boundaries: a session of package netcode, a connected UDP or Unix datagram
// socket, a DTLS connection. Both sides call NewConn; there is no client and no
// server. It takes inner over: Close closes it, at once or later (see [Conn.Close]),
// and nobody else may use it.
//
// NewConn does not wait for the handshake: messages that are sent meanwhile are queued.
// [Conn.Flush] waits for it. If inner carries less than 1472 bytes, frames are small
// (see Config.SmallFrames). With a cfg that does not fit, or an inner that is a stream
// or nil, the error is a *[ConfigError]. After an error, inner is still the caller's.
func NewConn(inner net.Conn, cfg *Config) (*Conn, error) {
	c := &Conn{inner: inner}
	if err := c.wrap(cfg, func() {}); err != nil {
		return nil, err
	}
	return c, nil
}

// wrap starts c on c.inner. Gone is called when it has ended.
func (c *Conn) wrap(cfg *Config, gone func()) error {
	if reason := netconn.Unfit(c.inner); reason != "" {
		return configError("inner", "%s", reason)
	}
	most, shown := datagram.MaxUDP, false
	if below := datagram.Below(c.inner); below != nil {
		most, shown = below.MaxDatagram(), true // with what is below
	}
	set, err := newSettings(cfg, most)
	if err != nil {
		return err
	}
	dc, err := newSingle(c.inner, cfg, set)
	if err != nil {
		return err
	}
	c.onGone = func() {
		if !shown {
			wrappedConns.Ended(c)
		}
		gone()
	}
	if err := c.start(dc, set, randomIDs()); err != nil {
		return err
	}
	if !shown {
		wrappedConns.Add(c)
	}
	return nil
}
