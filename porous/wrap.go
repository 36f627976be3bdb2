package porous

import (
	"net"

	"volley/internal/datagram"
	"volley/internal/netconn"
)

// NewConn puts the protocol on inner, a connection that preserves message
// boundaries: a session of package netcode, a connected UDP or Unix datagram
// socket, a DTLS connection. It takes inner over: Close closes it, at once or
// later (see [Conn.Close]), and nobody else may use it. Both sides call NewConn; there is no client and no server.
// It does not wait for the handshake: messages that are sent meanwhile are
// queued, see [Conn.Connected]. Where datagrams of 1472 bytes do not fit, frames
// are small ones (see Config.SmallFrames). With a cfg that does not fit, or an
// inner that is a stream or nil, calls that read, write or set deadlines return
// the *[ConfigError]; Close closes inner and returns nil.
func NewConn(inner net.Conn, cfg *Config) *Conn {
	c := &Conn{inner: inner}
	dc, set, err := stack(inner, cfg)
	if err == nil {
		if datagram.Below(inner) == nil {
			c.onGone = func() { wrappedConns.Ended(c) }
		}
		err = c.start(dc, set, randomIDs())
	}
	switch {
	case err != nil:
		c.fail(dc, err)
	case datagram.Below(inner) == nil:
		wrappedConns.Add(c)
	}
	return c
}

// stack finds the transport below a new connection.
func stack(inner net.Conn, cfg *Config) (datagram.Conn, *settings, error) {
	if reason := netconn.Unfit(inner); reason != "" {
		return netconn.Unused(inner), nil, &ConfigError{Field: "inner", Reason: reason}
	}
	most := datagram.MaxUDP
	if below := datagram.Below(inner); below != nil {
		most = below.MaxDatagram()
	}
	set, err := newSettings(cfg, most)
	var dc datagram.Conn
	if err == nil {
		dc, err = newSingle(inner, cfg, set)
	}
	if err != nil {
		return netconn.Unused(inner), nil, err
	}
	return dc, set, nil
}

// NewListener returns a net.Listener whose Accept puts [NewConn] with cfg on
// the connections that inner accepts. It takes inner over. Accept returns a
// *Conn, whose handshake may still be under way, or closes the connection, if
// the configuration does not fit its transport, and returns the *ConfigError, as
// it does where inner is nil.
func NewListener(inner net.Listener, cfg *Config) net.Listener {
	if netconn.IsNil(inner) {
		return netconn.NewBrokenListener(&ConfigError{Field: "inner", Reason: "it is nil"})
	}
	return netconn.NewListener(inner, func(nc net.Conn) (net.Conn, error) {
		c := NewConn(nc, cfg)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err, ok := c.out.Err().(*ConfigError); ok {
			return c, err
		}
		return c, nil
	})
}
