package volley

import (
	"net"
	"sync/atomic"

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
func NewConn(inner net.Conn, cfg *Config) (*Conn, error) { return (&wrapper{cfg: cfg}).wrap(inner) }

// A wrapper makes connections on others.
type wrapper struct {
	cfg  *Config
	of   *Listener                // nil: none
	last atomic.Pointer[settings] // over a session; the next one mostly needs the same
}

func (w *wrapper) wrap(inner net.Conn) (*Conn, error) {
	if reason := netconn.Unfit(inner); reason != "" {
		return nil, &ConfigError{Field: "inner", Reason: reason}
	}
	var set *settings
	var err error
	dc := datagram.Below(inner)
	shown := dc != nil // through a session
	if shown {
		set, err = w.sessionSettings(dc.MaxDatagram())
	} else if set, err = newSettings(w.cfg, datagram.MaxUDP, w.share()); err == nil {
		set.onClose, set.budget = w.ended, w.budget()
		dc, err = transport(inner, w.cfg, set)
	}
	if err != nil {
		return nil, err
	}
	c := &Conn{attached: &attached{inner: inner}}
	if err := c.start(dc, set); err != nil {
		return nil, err
	}
	if !shown {
		wrappedConns.Add(c)
	}
	return c, nil
}

// ended is called at the end of a connection that is over no session.
func (w *wrapper) ended(c *Conn) {
	wrappedConns.Ended(c)
	if w.of != nil {
		w.of.over.Gone(c)
	}
}

// budget returns what the connections share; nil: nothing.
func (w *wrapper) budget() *listen.Budget {
	if w.of == nil {
		return nil
	}
	return &w.of.budget
}

// share returns how one more connection asks for memory; nil: it does not.
func (w *wrapper) share() func(delta int, acked bool) bool {
	if w.of == nil {
		return nil
	}
	s := listen.NewShare(w.budget(), w.of.over.Conns)
	return func(delta int, _ bool) bool { return s.Reserve(delta) }
}

// sessionSettings is newSettings over a layer that knows the peer, and tells it of the end.
func (w *wrapper) sessionSettings(maxDatagram int) (*settings, error) {
	if set := w.last.Load(); set != nil && set.below == maxDatagram {
		return set, nil
	}
	var reserve func(delta int, acked bool) bool
	if b := w.budget(); b != nil { // sessions have shown who they are, and have no shares
		reserve = func(delta int, _ bool) bool { return b.ReserveKnown(delta) }
	}
	set, err := newSettings(sessionConfig(w.cfg), maxDatagram, reserve)
	if err == nil {
		set.session, set.greets = set.greets, false
		set.below, set.budget = maxDatagram, w.budget()
		if w.of != nil {
			set.onClose = w.of.over.Gone
		}
		w.last.Store(set)
	}
	return set, err
}

// sessionConfig turns keepalive and idle timeout off, for a transport that has both.
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
	set, err := newSettings(cfg, datagram.MaxUDP, nil)
	if err != nil {
		return nil, err
	}
	l := new(Listener)
	l.over = listen.NewOver(inner, l.wrap, (*Conn).Close)
	l.user = l.over
	l.wrapper.cfg, l.wrapper.of = cfg, l
	l.budget.Init(defaultMaxMemory)
	l.serving.Init(l.user, toServed, set.tickLag())
	return l, nil
}

// wrap makes the connection on an inner one, which it closes if it cannot.
func (l *Listener) wrap(inner net.Conn) (*Conn, error) {
	c, err := l.wrapper.wrap(inner)
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
