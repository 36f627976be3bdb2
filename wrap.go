package volley

import (
	"net"

	"volley/internal/datagram"
	"volley/internal/netconn"
)

// NewConn puts message framing on inner, a connection that preserves message
// boundaries: a connected UDP or Unix datagram socket, a session of package
// netcode, a DTLS connection. It takes inner over: Close closes it, and nobody
// else may use it. Where inner is not volley's own, what is written passes
// through a short queue, so that inner's Write may block without harm; its
// error, if not a passing one, is that of a later Write. With a cfg that does
// not fit, or an inner that is nil or a stream, as far as that shows (TCP, a Unix
// stream, net.Pipe, TLS over anything), calls that read, write or set deadlines
// return the *[ConfigError]; Close closes inner and returns nil.
//
// No greeting is sent. Over another protocol that has keepalives of its own,
// set Config.KeepAlive and IdleTimeout to negative values; over package
// netcode that is the default.
func NewConn(inner net.Conn, cfg *Config) *Conn {
	c := &Conn{rare: &rare{inner: inner}}
	dc, set, err := stack(inner, cfg)
	wrapped := err == nil && datagram.Below(inner) == nil // and not shown through a session
	if wrapped {
		set.onClose = wrappedConns.Ended
	}
	err = c.start(dc, set, err)
	switch {
	case err != nil && c.out.Err() == nil:
		c.out.End(err)
		c.rareLocked().last = &Stats{}
		c.user.In.Fail(err)
	case err == nil && wrapped:
		wrappedConns.Add(c)
	}
	return c
}

// stack finds the transport below a new connection.
func stack(inner net.Conn, cfg *Config) (datagram.Conn, *settings, error) {
	if reason := netconn.Unfit(inner); reason != "" {
		return netconn.Unused(inner), nil, &ConfigError{Field: "inner", Reason: reason}
	}
	if dc := datagram.Below(inner); dc != nil {
		set, err := sessionSettings(cfg, dc.MaxDatagram())
		return dc, set, err
	}
	set, err := newSettings(cfg, datagram.MaxUDP, nil)
	var dc datagram.Conn
	if err == nil {
		dc, err = transport(inner, cfg, set)
	}
	if err != nil {
		return netconn.Unused(inner), nil, err
	}
	return dc, set, nil
}

// sessionSettings is newSettings over a layer that knows the peer, and tells it of the
// end.
func sessionSettings(cfg *Config, maxDatagram int) (*settings, error) {
	set, err := newSettings(sessionConfig(cfg), maxDatagram, nil)
	if err == nil {
		set.session, set.greets = set.greets, false
	}
	return set, err
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
// the connections that inner accepts. It takes inner over. Accept returns a
// *Conn, or closes the connection, if the configuration does not fit its
// transport, and returns the *ConfigError, as it does where inner is nil.
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
