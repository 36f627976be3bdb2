package porous

import (
	"cmp"
	"context"
	"crypto/rand"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"volley/internal/backlog"
	"volley/internal/datagram"
	"volley/internal/socket"
	"volley/internal/wire"
	"volley/porous/internal/core"
)

// A ListenConfig has options for listening. The zero value listens as [Listen]
// does. Negative limits are off.
type ListenConfig struct {
	// Config is for the connections; nil: the defaults.
	Config *Config
	// MaxConns limits the connections at one time, those whose handshake is
	// under way among them. Peers beyond it are not answered. A peer takes no
	// memory before it has proved its address. Default 131,072.
	MaxConns int
	// Backlog limits the connections that wait for Accept. Default 4096.
	Backlog int
	// MaxMemory limits what all connections together hold of what they have
	// received, in bytes. Frames that would exceed it are refused, and come
	// again. Default 256 MiB.
	MaxMemory int64
	// Filter, if not nil, is asked whether a new peer at the given address is
	// welcome. It is called on the goroutine that reads the socket, and must
	// be quick.
	Filter func(netip.AddrPort) bool
	// Control is called with the socket before it is bound, as in
	// net.ListenConfig.
	Control func(network, address string, c syscall.RawConn) error
}

const (
	defaultMaxConns  = 1 << 17
	defaultBacklog   = 4096
	defaultMaxMemory = 256 << 20
	maxTombstones    = 4096
)

// A Listener accepts connections on a UDP address.
type Listener struct {
	set      *settings
	maxConns int
	filter   func(netip.AddrPort) bool
	memory   budget
	mux      *datagram.Mux
	queue    *backlog.Queue[waiting]
	close    sync.Once
	closeErr error
	born     time.Time

	conns                                   atomic.Int64
	accepted, filtered, refused, challenged atomic.Uint64

	mu     sync.Mutex
	cookie *core.Cookie
	// pending are the connections of peers that came by themselves and were
	// not accepted yet, and whether Accept can find them.
	pending map[netip.AddrPort]pending
}

var _ net.Listener = (*Listener)(nil)

// Listen listens on a UDP address. The network is "udp", "udp4" or "udp6"; the
// address is as for net.ListenPacket. A nil cfg means the defaults. Errors are
// those of net.ListenConfig and *[ConfigError].
func Listen(network, address string, cfg *Config) (*Listener, error) {
	lc := ListenConfig{Config: cfg}
	return lc.Listen(context.Background(), network, address)
}

// Listen listens on a UDP address. The context bounds the resolution of the
// address. Errors are those of net.ListenConfig and *[ConfigError].
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	if !isUDP(network) {
		return nil, &net.OpError{Op: "listen", Net: network, Err: net.UnknownNetworkError(network)}
	}
	nlc := net.ListenConfig{Control: lc.Control}
	if _, err := lc.newListener(); err != nil {
		return nil, err
	}
	pc, err := nlc.ListenPacket(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l, err := lc.ListenPacket(pc)
	if err != nil {
		pc.Close()
		return nil, err
	}
	return l, nil
}

// ListenPacket listens on a socket that exists, a UDP socket or any other
// net.PacketConn. The Listener takes it over: it closes it, and nobody else may
// read from it. After an error, a *[ConfigError] or one of the system, the
// socket is still the caller's.
func (lc *ListenConfig) ListenPacket(pc net.PacketConn) (*Listener, error) {
	l, err := lc.newListener()
	if err != nil {
		return nil, err
	}
	sock, err := socket.New(pc, socketConfig(lc.Config))
	if err != nil {
		return nil, err
	}
	l.mux = datagram.NewMux(sock, datagram.MuxConfig{
		Acceptor:      (*acceptor)(l),
		MaxDatagram:   datagram.MaxUDP,
		Tombstone:     l.set.core.Linger,
		MaxTombstones: maxTombstones,
		OnClose:       l.broken,
	})
	l.mux.Start()
	return l, nil
}

func (lc *ListenConfig) newListener() (*Listener, error) {
	secret := make([]byte, 32)
	rand.Read(secret)
	l := &Listener{
		maxConns: limit(lc.MaxConns, defaultMaxConns),
		filter:   lc.Filter,
		born:     time.Now(),
		cookie:   core.NewCookie(secret),
		pending:  make(map[netip.AddrPort]pending),
	}
	l.memory.limit = limit(lc.MaxMemory, defaultMaxMemory)
	l.queue = backlog.New[waiting](min(limit(lc.Backlog, defaultBacklog), l.maxConns, 1<<20))
	var err error
	if l.set, err = newSettings(lc.Config, datagram.MaxUDP); err != nil {
		return nil, err
	}
	l.set.core.Reserve = l.memory.reserve
	return l, nil
}

// limit applies the rule of ListenConfig: zero is the default, negative is no
// limit.
func limit[T int | int64](n, def T) T {
	if n < 0 {
		return math.MaxInt
	}
	return cmp.Or(n, def)
}

// Accept waits for a connection of a new peer, a *[Conn] whose handshake is
// done. Its error matches net.ErrClosed after Close, and os.ErrDeadlineExceeded
// past the deadline.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept with a *Conn.
func (l *Listener) AcceptConn() (*Conn, error) {
	w, err := l.queue.Accept()
	if err != nil {
		return nil, l.opError("accept", err)
	}
	l.forget(w.Conn)
	return w.Conn, nil
}

// A pending is a connection that was not accepted yet.
type pending struct {
	c      *Conn
	queued bool // for Accept
}

// forget takes a connection out of the pending ones.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[c.addr].c == c {
		delete(l.pending, c.addr)
	}
}

// A waiting connection is one that nobody has accepted.
type waiting struct{ *Conn }

// Close ends it at once: nobody has sent anything.
func (w waiting) Close() error { return w.Abort() }

// SetDeadline sets the deadline of Accept; the zero time is none. After Close
// the error matches net.ErrClosed.
func (l *Listener) SetDeadline(t time.Time) error {
	if err := l.queue.SetDeadline(t); err != nil {
		return l.opError("set", err)
	}
	return nil
}

// Addr returns the address listened on, with the real port.
func (l *Listener) Addr() net.Addr { return l.mux.Addr() }

// Close ends Accept, and closes connections that nobody has accepted. Those
// that were accepted live on; the socket closes with the last of them. Close
// may be called more than once and returns the first call's result.
func (l *Listener) Close() error {
	l.close.Do(func() {
		l.queue.Close(nil)
		if err := l.mux.Close(); err != nil {
			l.closeErr = l.opError("close", err)
		}
	})
	return l.closeErr
}

// broken learns that the socket has gone. If it broke, so does the Listener.
func (l *Listener) broken(cause error) {
	if cause != nil {
		l.queue.Close(cause)
		l.Close()
	}
}

func (l *Listener) opError(op string, err error) error {
	addr := l.Addr()
	return &net.OpError{Op: op, Net: addr.Network(), Addr: addr, Err: err}
}

// ListenerStats tells what a Listener has done. Fields may be added.
type ListenerStats struct {
	Conns  int   // connections at present, those that are being made among them
	Memory int64 // bytes held of ListenConfig.MaxMemory
	// Challenged counts requests that were answered without keeping anything,
	// Accepted connections that were established, Refused new peers turned
	// away by MaxConns or Backlog, Filtered those by Filter, Unknown all
	// datagrams that belonged to no connection and made none.
	Challenged, Accepted, Refused, Filtered, Unknown uint64
}

// Stats returns the present figures.
func (l *Listener) Stats() ListenerStats {
	return ListenerStats{
		Conns:      int(l.conns.Load()),
		Memory:     l.memory.used.Load(),
		Challenged: l.challenged.Load(),
		Accepted:   l.accepted.Load(),
		Refused:    l.refused.Load(),
		Filtered:   l.filtered.Load(),
		Unknown:    l.mux.Stats().Unknown,
	}
}

// An acceptor is a Listener as its socket sees it.
type acceptor Listener

var _ datagram.Acceptor = (*acceptor)(nil)

// HandleUnknown answers a request of an unknown address with one of our own
// whose id is a cookie, and keeps nothing. Who acknowledges that gets a
// connection. An address whose connection has ended not long ago only has its
// requests to end acknowledged (S4, D3).
func (a *acceptor) HandleUnknown(_ time.Time, from netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) datagram.Admit {
	l := (*Listener)(a)
	for _, b := range bufs {
		if late {
			if core.ParseBare(b, core.TypeDisconnect) {
				core.AppendDisconnectAck(out.Extend(core.DisconnectAckSize)[:0])
				return nil
			}
			continue
		}
		if request, ok := core.ParseConnect(b); ok {
			if l.welcome(from) && l.compatible(request) {
				l.challenge(from, out)
			}
			return nil
		}
		id, ok := core.ParseConnectAck(b)
		if ok && l.proves(from, id) && l.welcome(from) {
			return func(_ time.Time, dc datagram.Conn) { l.admit(dc, from, id) }
		}
	}
	return nil
}

// welcome reports whether there may be a connection with an address.
func (l *Listener) welcome(from netip.AddrPort) bool {
	if l.filter != nil && !l.filter(from) {
		l.filtered.Add(1)
		return false
	}
	if l.conns.Load() >= int64(l.maxConns) || l.queue.Full() {
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

// proves reports whether who acknowledges an id receives at its address.
func (l *Listener) proves(from netip.AddrPort, id uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cookie.Check(time.Since(l.born), address(from), id)
}

func address(ap netip.AddrPort) (a core.Address) {
	ip := ap.Addr().As16()
	copy(a[:], ip[:])
	a[16], a[17] = byte(ap.Port()>>8), byte(ap.Port())
	return a
}

// admit makes the connection of a peer that has proved its address. Accept
// returns it once the handshake is done.
func (l *Listener) admit(dc datagram.Conn, from netip.AddrPort, id uint32) {
	c := l.newConn(from)
	c.onConnect = func() {
		if !l.queueConn(c) {
			c.Abort()
		}
	}
	l.mu.Lock()
	l.pending[from] = pending{c: c}
	l.mu.Unlock()
	if c.start(dc, l.set, id, true) != nil {
		c.release()
	}
}

// newConn returns a Conn that is counted.
func (l *Listener) newConn(addr netip.AddrPort) *Conn {
	l.conns.Add(1)
	c := &Conn{addr: addr}
	c.onGone = func() {
		l.conns.Add(-1)
		if c.onConnect != nil {
			l.forget(c) // before Ended, for Push may close what has ended
		}
		l.queue.Ended(waiting{c})
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
	if !l.queue.Push(waiting{c}) {
		return false
	}
	l.accepted.Add(1)
	l.pending[c.addr] = pending{c: c, queued: true}
	return true
}

// A budget limits what all connections of a Listener hold together, in bytes.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) reserve(delta int) bool {
	n := b.used.Add(int64(delta))
	if delta > 0 && n > b.limit {
		b.used.Add(-int64(delta))
		return false
	}
	return true
}
