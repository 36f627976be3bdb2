package porous

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"iter"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/netconn"
	"volley/internal/registry"
	"volley/internal/serve"
	"volley/internal/wire"
	"volley/porous/internal/core"
)

// A ListenConfig has options for listening. The zero value listens as [Listen]
// does. Negative limits are off.
type ListenConfig struct {
	// Config is for the connections; nil: the defaults.
	Config *Config
	// MaxConns limits the connections at one time, including those whose handshake is
	// under way. Further peers are not answered. A peer takes no memory before it has
	// proved its address. Default 131,072.
	MaxConns int
	// Backlog limits the connections that wait for Accept. Default 4096.
	Backlog int
	// MaxMemory limits the memory, in bytes, in which all connections together hold
	// received messages: those that wait for Read, for other messages, or for their
	// fragments. Frames that would exceed it are refused, and come again.
	//
	// The last quarter is for messages that wait for no other one, of connections that hold
	// little: of n connections, each may hold max(16 KiB, MaxMemory / 4 / n) bytes of it.
	// While only that quarter is left, a connection ends if for 10 s
	//
	//   - its unfinished messages have taken more than MaxMemory / 2 / n bytes,
	//   - and it has finished fewer bytes than it holds.
	//
	// So connections end where MaxMemory is too small for one of the largest messages of
	// each, and all send such at once.
	//
	// Default 256 MiB. Three quarters of it must hold the largest message, which takes
	// as much as the least Config.ReceiveBuffer, rounded up to 4 KiB.
	MaxMemory int64
	// Filter, if not nil, says whether a new peer at the given address is
	// welcome. It is called on the goroutine that reads the socket, which may
	// be one in Read of the only connection, and must be quick. With several
	// Sockets there may be several calls at once.
	Filter func(netip.AddrPort) bool
	// Control is called with the socket before it is bound, as in net.ListenConfig.
	Control func(network, address string, c syscall.RawConn) error
	// Sockets is how many sockets share the port, each with a reader of its own, for
	// machines of many cores (SO_REUSEPORT). Default 1, at most 1024. On systems other
	// than Linux more than one is an error that wraps errors.ErrUnsupported.
	//
	// A peer keeps its socket, and the sockets close together. Datagrams that arrive
	// before all are bound are discarded. Nobody else may bind to the port. [Listener.Dial] is an
	// error, because the system chooses the socket at which an answer arrives.
	Sockets int
}

const (
	defaultMaxConns  = 1 << 17
	defaultBacklog   = 4096
	defaultMaxMemory = 256 << 20
	maxTombstones    = 4096
)

// A Listener accepts connections on a UDP address, and may dial from it.
type Listener struct {
	user    listen.Side[*Conn]  // over or side
	over    *listen.Over[*Conn] // of NewListener; nil: the rest counts
	overSet *Config

	set      *settings
	maxConns int
	filter   func(netip.AddrPort) bool
	limits   limits
	side     listen.Listener[*Conn]
	serving  serve.Server[*Conn]
	born     time.Time
	ended    registry.Ended
	sources  sources

	accepted, filtered, refused, challenged atomic.Uint64

	mu     sync.Mutex
	cookie *core.Cookie
	closed bool
	// pending are the connections of peers that came by themselves and were
	// not accepted yet, and whether Accept can find them.
	pending map[netip.AddrPort]pending
}

var _ net.Listener = (*Listener)(nil)

// Listen listens on a UDP address with the default Config. See [ListenConfig.Listen].
func Listen(network, address string) (*Listener, error) {
	var lc ListenConfig
	return lc.Listen(context.Background(), network, address)
}

// NewListener returns a Listener that puts [NewConn] with cfg on the connections which
// inner accepts. It takes inner over. The handshake of a connection may still be under
// way when Accept returns it. If cfg does not fit a connection, Accept closes that, and
// returns the *[ConfigError]. Such a Listener cannot dial.
func NewListener(inner net.Listener, cfg *Config) (*Listener, error) {
	if netconn.IsNil(inner) {
		return nil, configError("inner", "it is nil")
	}
	if _, err := newSettings(cfg, datagram.MaxUDP); err != nil {
		return nil, err
	}
	l := &Listener{overSet: cfg}
	l.over = listen.NewOver(inner, l.wrap, (*Conn).Abort)
	l.user = l.over
	l.serving.Init(l.user, toServed, 0)
	return l, nil
}

// Listen listens on a UDP address. The network is "udp", "udp4" or "udp6"; the
// address is as for net.ListenPacket. The context bounds the resolution of the
// address. Errors are those of net.ListenConfig and *[ConfigError].
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	return lc.listen(listen.At(ctx, network, address))
}

func (lc *ListenConfig) listen(open listen.Opener) (*Listener, error) {
	l, err := lc.newListener()
	if err != nil {
		return nil, err
	}
	port, err := open(listen.Options{Sockets: lc.Sockets, Control: lc.Control, Socket: socketConfig(lc.Config)})
	if err != nil {
		return nil, err
	}
	l.serve(port)
	return l, nil
}

// ListenOn listens on a socket that exists, a UDP socket or any other net.PacketConn.
// The Listener takes it over: it closes it, and nobody else may read from it. After an
// error, a *[ConfigError] or one of the system, the socket is still the caller's.
func (lc *ListenConfig) ListenOn(pc net.PacketConn) (*Listener, error) {
	if reason := netconn.Unfit(pc); reason != "" {
		return nil, configError("pc", "%s", reason)
	}
	return lc.listen(listen.On(pc))
}

func (lc *ListenConfig) newListener() (*Listener, error) {
	secret := make([]byte, 32)
	rand.Read(secret)
	l := &Listener{
		maxConns: listen.Limit(lc.MaxConns, defaultMaxConns),
		filter:   lc.Filter,
		born:     time.Now(),
		sources:  sources{seed: maphash.MakeSeed()},
		cookie:   core.NewCookie(secret),
		pending:  make(map[netip.AddrPort]pending),
	}
	l.limits.budget.Init(listen.Limit(lc.MaxMemory, defaultMaxMemory))
	l.user = &l.side
	l.side.Init(min(listen.Limit(lc.Backlog, defaultBacklog), l.maxConns, 1<<20), (*Conn).markAccepted, (*Conn).Abort)
	var err error
	if l.set, err = newSettings(lc.Config, datagram.MaxUDP); err != nil {
		return nil, err
	}
	if lc.Sockets < 0 || lc.Sockets > listen.MaxSockets {
		return nil, configError("ListenConfig.Sockets", "%d is not from 1 to %d", lc.Sockets, listen.MaxSockets)
	}
	if least := leastMemory(&l.set.core); lc.MaxMemory > 0 && lc.MaxMemory < least {
		return nil, configError("ListenConfig.MaxMemory", "%d does not hold one message, which takes %d", lc.MaxMemory, least)
	}
	l.serving.Init(l.user, toServed, 0)
	l.limits.conns = l.side.Conns
	l.set.limits, l.set.core.Reserve = &l.limits, l.limits.reserve
	return l, nil
}

func (l *Listener) serve(port *listen.Port) {
	l.side.Serve(port, datagram.MuxConfig{
		Acceptor:      (*acceptor)(l),
		MaxDatagram:   datagram.MaxUDP,
		Tombstone:     l.set.core.Linger,
		MaxTombstones: maxTombstones,
	}, listen.Hooks{
		Stop: l.stop,
		End:  func(h datagram.Handler) { (*Conn)(h.(*handler)).Abort() },
	})
	listeners.Add(l)
}

// Accept waits for a connection of a new peer, a *[Conn] whose handshake is
// done. After Close its error matches net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) { return netconn.Any(l.AcceptConn(context.Background())) }

// AcceptConn is Accept with a context, and returns a *Conn.
func (l *Listener) AcceptConn(ctx context.Context) (*Conn, error) {
	c, err := l.user.AcceptConn(ctx)
	if err == nil {
		l.forget(c)
	}
	return c, err
}

// wrap makes the connection on an inner one, which it closes if it cannot.
func (l *Listener) wrap(inner net.Conn) (*Conn, error) {
	c := &Conn{inner: inner}
	if !l.over.Add(c) {
		inner.Close()
		return nil, &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed}
	}
	if err := c.wrap(l.overSet, func() { l.over.Gone(c) }); err != nil {
		l.over.Gone(c)
		inner.Close()
		return nil, err
	}
	l.accepted.Add(1)
	return c, nil
}

// markAccepted has Conns return the connection.
func (c *Conn) markAccepted() {
	c.mu.Lock()
	c.accepted = true
	c.mu.Unlock()
}

// Conns returns an iterator over the connections that Accept and Dial have returned and
// that have not ended, in no order. It may be used at any time and by several goroutines
// at once. The body of the loop may do anything, because no lock is held meanwhile.
//
// Each connection that is open during the whole loop comes once. One that is accepted
// during the loop may come or not. After Close of the Listener, those come that live on.
func (l *Listener) Conns() iter.Seq[*Conn] {
	if l.over != nil {
		return l.over.Each()
	}
	return l.side.Each(acceptedConn)
}

// acceptedConn returns the connection of a Handler if it is one for Conns.
func acceptedConn(h datagram.Handler) (*Conn, bool) {
	c := (*Conn)(h.(*handler))
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, c.accepted && c.out.Err() == nil
}

// A pending is a connection that was not accepted yet.
type pending struct {
	c      *Conn
	queued bool // for Accept
}

func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[c.addr].c == c {
		delete(l.pending, c.addr)
	}
}

// Addr returns the address listened on, with the real port.
func (l *Listener) Addr() net.Addr { return l.user.Addr() }

// Close ends Accept, and closes the connections that nobody has accepted. Those that
// were accepted or dialed live on; the sockets close with the last of them. Close may
// be called more than once and returns the first call's result.
func (l *Listener) Close() error { return l.user.Close() }

// Shutdown ends the Listener as Close does, and waits for its connections.
//
//   - At once Accept ends, new peers are no longer answered, and connections
//     that nobody has accepted are closed: their peers read io.EOF.
//   - Connections that were accepted or dialed live on until either side closes
//     them, their IdleTimeout ends them, or the socket breaks. When all have ended
//     and the sockets are closed, Shutdown returns nil, or the error of Close.
//   - If ctx ends before, Shutdown ends the connections that are left, as
//     [Conn.Abort] does: their peers are told, and what was not acknowledged is
//     lost. The error matches ctx's.
//
// It may be called after Close, more than once, and by several goroutines. The
// connections are not told; the application does that, for instance by [Conn.Shutdown].
func (l *Listener) Shutdown(ctx context.Context) error { return l.user.Shutdown(ctx) }

// stop ends the connections whose handshake is under way. The queue ends those that wait.
func (l *Listener) stop() {
	l.mu.Lock()
	l.closed = true
	var young []*Conn
	for _, p := range l.pending {
		if !p.queued {
			young = append(young, p.c)
		}
	}
	l.mu.Unlock()
	for _, c := range young {
		c.Abort()
	}
}

// ListenerStats tells what a Listener has done. Fields may be added.
type ListenerStats struct {
	Conns  int   // connections at present, those that are being made among them
	Memory int64 // bytes held of ListenConfig.MaxMemory
	// Challenged counts requests that were answered without keeping anything,
	// and Accepted established connections. Refused counts new peers turned
	// away by MaxConns or Backlog, and Filtered those by Filter. Unknown counts
	// datagrams that belonged to no connection and made none.
	Challenged, Accepted, Refused, Filtered, Unknown uint64
}

// Stats returns the present figures.
func (l *Listener) Stats() ListenerStats {
	s := ListenerStats{
		Conns:      l.user.Conns(),
		Memory:     l.limits.budget.Used(),
		Challenged: l.challenged.Load(),
		Accepted:   l.accepted.Load(),
		Refused:    l.refused.Load(),
		Filtered:   l.filtered.Load(),
	}
	for _, d := range l.side.Stats() {
		s.Unknown += d.Unknown
	}
	return s
}

// An acceptor is a Listener as its socket sees it.
type acceptor Listener

var _ datagram.Acceptor = (*acceptor)(nil)

// HandleUnknown answers a request with one of ours whose id is a cookie, and keeps nothing.
// A peer that acknowledges the cookie gets a connection. After the end of one, requests to
// end are acknowledged (S4, D3), and a peer that goes on is told.
func (a *acceptor) HandleUnknown(_ time.Time, from netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) datagram.Admit {
	l := (*Listener)(a)
	for _, b := range bufs {
		if late {
			if answerLate(b, out) {
				return nil
			}
			continue
		}
		if request, ok := core.ParseConnect(b); ok {
			if l.sources.allow(time.Since(l.born), from.Addr()) && l.welcome(from) && l.compatible(request) {
				l.challenge(from, out)
			}
			return nil
		}
		id, ok := core.ParseConnectAck(b)
		if !ok {
			continue
		}
		if ids, ok := l.proves(from, id); ok && l.welcome(from) {
			return func(_ time.Time, dc datagram.Conn) { l.admit(dc, from, ids) }
		}
	}
	return nil
}

// answerLate answers a frame of a peer whose connection has ended, and reports whether it
// did: it acknowledges a request to end, and sends one to a peer that still goes on.
func answerLate(b []byte, out *wire.Batch) bool {
	if core.ParseBare(b, core.TypeDisconnect) {
		core.AppendDisconnectAck(out.Extend(core.DisconnectAckSize)[:0])
		return true
	}
	_, pings := core.ParsePing(b, core.TypePing)
	_, _, _, sends := core.ParseData(b)
	if pings || sends {
		core.AppendDisconnect(out.Extend(core.DisconnectSize)[:0])
	}
	return pings || sends
}

func (l *Listener) welcome(from netip.AddrPort) bool {
	if l.filter != nil && !l.filter(from) {
		l.filtered.Add(1)
		return false
	}
	if l.side.Conns() >= l.maxConns || l.side.Full() {
		l.refused.Add(1)
		return false
	}
	return true
}

// compatible reports whether a request is one that we would accept.
func (l *Listener) compatible(c core.Connect) bool {
	return c.Version == l.set.core.Version && c.Channels == l.set.core.Channels
}

// challenge appends a request whose id is a cookie.
func (l *Listener) challenge(from netip.AddrPort, out *wire.Batch) {
	l.challenged.Add(1)
	core.AppendConnect(out.Extend(core.ConnectSize)[:0], core.Connect{
		Version:   l.set.core.Version,
		Channels:  l.set.core.Channels,
		Bandwidth: l.set.core.ReceiveBandwidth,
		ID:        l.cookieID(from),
	})
}

// cookieID returns the id of our requests to an address.
func (l *Listener) cookieID(to netip.AddrPort) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cookie.ID(time.Since(l.born), address(to))
}

// dialIDs returns a dialed connection's ids: the present cookie and the one before.
func (l *Listener) dialIDs(to netip.AddrPort) ids {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, addr := time.Since(l.born), address(to)
	id := l.cookie.ID(now, addr)
	return ids{own: id, other: l.cookie.Other(now, addr, id)}
}

// proves reports whether an acknowledged id proves an address, and returns the ids to use.
func (l *Listener) proves(from netip.AddrPort, id uint32) (ids, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.born)
	if !l.cookie.Check(now, address(from), id) {
		return ids{}, false
	}
	return ids{own: id, other: l.cookie.Other(now, address(from), id), accepted: true}, true
}

func address(ap netip.AddrPort) (a core.Address) {
	ip := ap.Addr().As16()
	copy(a[:], ip[:])
	a[16], a[17] = byte(ap.Port()>>8), byte(ap.Port())
	return a
}

// admit makes the connection of a proved peer. Accept returns it after the handshake.
func (l *Listener) admit(dc datagram.Conn, from netip.AddrPort, id ids) {
	c := l.newConn(from)
	c.onConnect = func() {
		if !l.queueConn(c) {
			c.Abort()
		}
	}
	l.mu.Lock() // until it can be used, for others find it then
	l.pending[from] = pending{c: c}
	err := c.start(dc, l.set, id)
	closed := l.closed
	l.mu.Unlock()
	if err != nil || closed {
		c.Abort()
	}
}

// newConn returns a Conn that is counted.
func (l *Listener) newConn(addr netip.AddrPort) *Conn {
	l.side.Add()
	c := &Conn{addr: addr}
	c.onGone = func() {
		if c.onConnect != nil {
			l.forget(c) // before Gone, for Push may close what has ended
		}
		l.ended.Add((*handler)(c), (*listenerView)(l).ID())
		l.side.Gone(c, true)
	}
	return c
}

// queueConn gives a connection to Accept, unless Dial has taken it.
func (l *Listener) queueConn(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pending[c.addr]
	if p.c != c {
		return true
	}
	if !l.side.Push(c) {
		return false
	}
	l.accepted.Add(1)
	l.pending[c.addr] = pending{c: c, queued: true}
	return true
}
