package volley

import (
	"net"
	"strings"

	"volley/internal/datagram"
)

// NewConn puts message framing on inner, a connection that preserves message
// boundaries: a connected UDP or Unix datagram socket, a session of package
// netcode, a DTLS connection. It takes inner over: Close closes it, and nobody
// else may use it. Where inner is not volley's own, what is written passes
// through a short queue, so that inner's Write may block without harm; its
// error, if not a passing one, is that of a later Write. With a cfg that does
// not fit, or an inner that is a stream or nil, every call returns the
// *[ConfigError].
//
// No greeting is sent. Over another protocol that has keepalives of its own,
// set Config.KeepAlive and IdleTimeout to negative values; over package
// netcode that is the default.
func NewConn(inner net.Conn, cfg *Config) *Conn {
	c := &Conn{inner: inner}
	dc, set, err := stack(inner, cfg)
	if err := c.start(dc, set, err); err != nil && c.out.Err() == nil {
		c.out.End(err)
		c.last = &Stats{}
		c.user.In.Fail(err)
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
		set, err := newSettings(sessionConfig(cfg), dc.MaxDatagram(), nil)
		return dc, set, err
	}
	set, err := newSettings(cfg, datagram.MaxUDP, nil)
	if network := streamNetwork(inner); err == nil && network != "" {
		err = &ConfigError{Field: "inner", Reason: "a " + network + " connection does not preserve message boundaries"}
	}
	if err != nil {
		return datagram.NewForeign(inner, 0, 0), nil, err
	}
	dc, err := transport(inner, cfg, set)
	if err != nil {
		return datagram.NewForeign(inner, 0, 0), nil, err
	}
	return dc, set, nil
}

// streamNetwork returns the network of a connection that is certainly a stream.
func streamNetwork(inner net.Conn) string {
	addr := inner.LocalAddr()
	if addr == nil {
		return ""
	}
	if n := addr.Network(); n == "unix" || strings.HasPrefix(n, "tcp") {
		return n
	}
	return ""
}

// sessionConfig turns keepalive and idle timeout off by default, for a
// transport that has both.
func sessionConfig(cfg *Config) *Config {
	var s Config
	if cfg != nil {
		s = *cfg
	}
	if s.KeepAlive == 0 {
		s.KeepAlive = -1
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = -1
	}
	return &s
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

// Accept waits for the next connection, a *Conn. After it the configuration
// has been checked against the transport of that connection; if it does not
// fit, the connection is closed and the *ConfigError returned.
func (l *stackedListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := NewConn(inner, l.cfg)
	c.mu.Lock()
	err = c.out.Err()
	c.mu.Unlock()
	if ce, ok := err.(*ConfigError); ok {
		c.Close()
		return nil, ce
	}
	return c, nil
}
