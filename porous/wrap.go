package porous

import (
	"net"
	"strings"

	"volley/internal/datagram"
)

// NewConn puts the protocol on inner, a connection that preserves message
// boundaries: a session of package netcode, a connected UDP or Unix datagram
// socket, a DTLS connection. It takes inner over: Close closes it, and nobody
// else may use it. Both sides call NewConn; there is no client and no server.
// It does not wait for the handshake: messages that are sent meanwhile are
// queued, see [Conn.Connected]. Where datagrams of 1472 bytes do not fit, frames
// are small ones (see Config.SmallFrames). With a cfg that does not fit, or an
// inner that is a stream or nil, every call returns the *[ConfigError].
func NewConn(inner net.Conn, cfg *Config) *Conn {
	c := &Conn{inner: inner}
	dc, set, err := stack(inner, cfg)
	if err == nil {
		err = c.start(dc, set, randomID(), false)
	}
	if err != nil {
		c.fail(dc, err)
	}
	return c
}

// stack finds the transport below a new connection.
func stack(inner net.Conn, cfg *Config) (datagram.Conn, *settings, error) {
	if inner == nil {
		standIn, far := net.Pipe() // something to close
		far.Close()
		return datagram.NewForeign(standIn, 0, 0), nil, &ConfigError{Field: "inner", Reason: "it is nil"}
	}
	if dc := datagram.Below(inner); dc != nil {
		set, err := newSettings(cfg, dc.MaxDatagram())
		return dc, set, err
	}
	set, err := newSettings(cfg, datagram.MaxUDP)
	if addr := inner.LocalAddr(); err == nil && addr != nil {
		if n := addr.Network(); n == "unix" || strings.HasPrefix(n, "tcp") {
			err = &ConfigError{Field: "inner", Reason: "a " + n + " connection does not preserve message boundaries"}
		}
	}
	var dc datagram.Conn
	if err == nil {
		dc, err = newSingle(inner, cfg, set)
	}
	if err != nil {
		return datagram.NewForeign(inner, 0, 0), nil, err
	}
	return dc, set, nil
}

// NewListener returns a net.Listener whose Accept puts [NewConn] with cfg on
// the connections that inner accepts. It takes inner over.
func NewListener(inner net.Listener, cfg *Config) net.Listener {
	return &stackedListener{inner, cfg}
}

type stackedListener struct {
	net.Listener
	cfg *Config
}

// Accept waits for the next connection, a *Conn, whose handshake may still be
// under way. A configuration that does not fit the transport of that connection
// closes it, and is returned as the *ConfigError.
func (l *stackedListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := NewConn(inner, l.cfg)
	c.mu.Lock()
	err = c.err
	c.mu.Unlock()
	if ce, ok := err.(*ConfigError); ok {
		c.Close()
		return nil, ce
	}
	return c, nil
}
