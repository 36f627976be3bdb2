package volley

import (
	"context"
	"net"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/netconn"
)

// NewConn puts message framing on inner, a connection that preserves message
// boundaries: a connected UDP or Unix datagram socket, a session of package
// netcode, a DTLS connection. It takes inner over: Close closes it, and nobody
// else may use it. If inner is not volley's own, what is written passes
// through a short queue, so that inner's Write may block without harm. An error
// of that Write is returned by a later Write, unless it is a passing one.
//
// The error is a *[ConfigError] if cfg does not fit, or if inner is nil or certainly a
// stream (TCP, a Unix stream, net.Pipe, TLS over anything). After an error inner is
// still the caller's.
//
// No greeting is sent. Over another protocol with keepalives of its own, set
// Config.KeepAlive and IdleTimeout to negative values. Over package netcode that is the
// default.
func NewConn(inner net.Conn, cfg *Config) (*Conn, error) { return wrap(inner, cfg, nil) }

// wrap is NewConn. At the end of the connection gone is called, if it is not nil.
func wrap(inner net.Conn, cfg *Config, gone func(*Conn)) (*Conn, error) {
	if reason := netconn.Unfit(inner); reason != "" {
		return nil, &ConfigError{Field: "inner", Reason: reason}
	}
	var set *settings
	var err error
	dc := datagram.Below(inner)
	shown := dc != nil // through a session
	if shown {
		set, err = sessionSettings(cfg, dc.MaxDatagram())
	} else if set, err = newSettings(cfg, datagram.MaxUDP, nil); err == nil {
		dc, err = transport(inner, cfg, set)
	}
	if err != nil {
		return nil, err
	}
	set.onClose = func(c *Conn) {
		if !shown {
			wrappedConns.Ended(c)
		}
		if gone != nil {
			gone(c)
		}
	}
	c := &Conn{rare: &rare{inner: inner}}
	if err := c.start(dc, set); err != nil {
		return nil, err
	}
	if !shown {
		wrappedConns.Add(c)
	}
	return c, nil
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

// NewListener returns a Listener that puts [NewConn] with cfg on the connections that
// inner accepts. It takes inner over. If cfg does not fit a connection, Accept closes
// that and returns the *[ConfigError]. Such a Listener cannot dial, and has no deadline.
func NewListener(inner net.Listener, cfg *Config) (*Listener, error) {
	if netconn.IsNil(inner) {
		return nil, configError("inner", "it is nil")
	}
	if _, err := newSettings(cfg, datagram.MaxUDP, nil); err != nil {
		return nil, err
	}
	return &Listener{over: listen.NewOver[*Conn](inner), overConfig: cfg}, nil
}

// acceptOver is AcceptConn over another listener.
func (l *Listener) acceptOver(ctx context.Context) (*Conn, error) {
	inner, err := l.over.Accept(ctx)
	if err != nil {
		return nil, err
	}
	c, err := wrap(inner, l.overConfig, l.over.Gone)
	if err != nil {
		inner.Close()
		return nil, err
	}
	if !l.over.Add(c) {
		c.Close()
		return nil, &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed}
	}
	c.mu.Lock()
	ended := c.out.Err() != nil
	c.mu.Unlock()
	if ended { // perhaps before Add
		l.over.Gone(c)
	}
	l.accepted.Add(1)
	return c, nil
}
