package volley

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"volley/internal/backlog"
	"volley/internal/datagram"
	"volley/internal/socket"
	"volley/internal/wire"
	"volley/reliable"
)

// A ListenConfig has options for listening. The zero value listens as [Listen]
// does. Negative limits are off.
type ListenConfig struct {
	// Config is for the connections; nil: the defaults.
	Config *Config
	// MaxConns limits the connections at one time. Peers beyond it are not
	// answered. A connection takes about 1.6 KB beside what MaxMemory counts,
	// and on the plain wire a forged first datagram is enough to make one for
	// IdleTimeout. Default 131,072.
	MaxConns int
	// Backlog limits the connections that wait for Accept. Default 4096. One
	// that ends while it waits is dropped at once if it has nothing to read, and
	// otherwise when a new one needs its place.
	Backlog int
	// MaxMemory limits what all connections together hold for messages that
	// wait for Read, messages of which fragments are missing, and windows, in
	// bytes. What would exceed it is refused: messages then count as lost. The
	// last quarter is kept for peers that have acknowledged a packet of this
	// side. Default 256 MiB.
	MaxMemory int64
	// Filter, if not nil, is asked whether a new peer at the given address is
	// welcome. It is called on the goroutine that reads the socket, which may
	// be one in Read of the only connection, and must be quick. With several
	// Sockets it may be called by several at once.
	Filter func(netip.AddrPort) bool
	// AdmitMidStream also makes connections of peers that are in the middle
	// of one, as after a restart of this side. By default only a peer that
	// says it has heard nothing yet gets one, so that late datagrams of an
	// old connection do not.
	AdmitMidStream bool
	// Control is called with the socket before it is bound, as in
	// net.ListenConfig.
	Control func(network, address string, c syscall.RawConn) error
	// Sockets is how many sockets share the port, each with a reader of its
	// own, for machines of many cores (SO_REUSEPORT). Default 1. On systems
	// other than Linux more is an error that wraps errors.ErrUnsupported. A
	// peer keeps its socket: they all close together, and what arrives before
	// all are bound is discarded. Nobody else may bind to the port.
	Sockets int
}

const (
	defaultMaxConns  = 1 << 17
	defaultBacklog   = 4096
	defaultMaxMemory = 256 << 20
	maxTombstones    = 4096
)

// A Listener accepts message connections on a UDP address.
type Listener struct {
	set      *settings
	maxConns int
	filter   func(netip.AddrPort) bool
	midway   bool
	budget   budget

	muxes    []*datagram.Mux
	group    *datagram.MuxGroup // of several muxes
	early    uint64             // datagrams that came before all sockets were there
	queue    *backlog.Queue[*Conn]
	close    sync.Once
	closeErr error

	conns                       atomic.Int64
	accepted, filtered, refused atomic.Uint64
}

var _ net.Listener = (*Listener)(nil)

// Listen listens on a UDP address. The network is "udp", "udp4" or "udp6"; the
// address is as for net.ListenPacket. Errors are those of net.ListenConfig.
//
// On Linux, a Listener on all addresses, such as ":7777", answers each peer from
// the address that it has dialed. On Windows, macOS and the BSDs the system
// chooses the address of answers by its routes, and a peer that has dialed
// another one does not hear them: there, a machine of several addresses has a
// Listener on each.
func Listen(network, address string) (*Listener, error) {
	var lc ListenConfig
	return lc.Listen(context.Background(), network, address)
}

// Listen listens on a UDP address. The context bounds the resolution of the
// address. Errors are those of net.ListenConfig and *[ConfigError].
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	if !isUDP(network) {
		return nil, &net.OpError{Op: "listen", Net: network, Err: net.UnknownNetworkError(network)}
	}
	l, err := lc.newListener()
	if err != nil {
		return nil, err
	}
	pcs, err := lc.bind(ctx, network, address)
	if err == nil {
		err = l.addAll(pcs, lc.Config)
	}
	if err != nil {
		for _, pc := range pcs {
			pc.Close()
		}
		return nil, err
	}
	l.start()
	return l, nil
}

// bind returns lc.Sockets sockets on one address, also those there are after an
// error.
func (lc *ListenConfig) bind(ctx context.Context, network, address string) (pcs []net.PacketConn, err error) {
	n := max(1, lc.Sockets)
	nlc := net.ListenConfig{Control: lc.control(n)}
	for range n {
		pc, err := nlc.ListenPacket(ctx, network, address)
		if err != nil {
			return pcs, err
		}
		address = pc.LocalAddr().String() // of port 0, the one that was given
		pcs = append(pcs, pc)
	}
	return pcs, nil
}

// addAll adds sockets that share a port. All are bound by now, so that from here
// on every peer has its socket; what came before is discarded.
func (l *Listener) addAll(pcs []net.PacketConn, cfg *Config) error {
	if len(pcs) > 1 {
		l.group = datagram.NewMuxGroup()
		for _, pc := range pcs {
			n, err := socket.DiscardQueued(pc.(*net.UDPConn))
			if err != nil {
				return err
			}
			l.early += n
		}
	}
	for _, pc := range pcs {
		if err := l.add(pc, cfg); err != nil {
			return err
		}
	}
	return nil
}

// control returns what prepares one of n sockets.
func (lc *ListenConfig) control(n int) func(string, string, syscall.RawConn) error {
	if n == 1 {
		return lc.Control
	}
	return func(network, address string, c syscall.RawConn) error {
		if err := socket.ReusePortControl(network, address, c); err != nil || lc.Control == nil {
			return err
		}
		return lc.Control(network, address, c)
	}
}

// ListenPacket listens on a socket that exists, a UDP socket or any other
// net.PacketConn. The Listener takes it over: it closes it, and nobody else may
// read from it. After an error, a *[ConfigError] or one of the system, the socket
// is still the caller's. Where addresses are not of UDP, Filter sees stand-ins
// from the block 100::/64; RemoteAddr returns the real ones.
func (lc *ListenConfig) ListenPacket(pc net.PacketConn) (*Listener, error) {
	l, err := lc.newListener()
	if err != nil {
		return nil, err
	}
	if err := l.add(pc, lc.Config); err != nil {
		return nil, err
	}
	l.start()
	return l, nil
}

func (lc *ListenConfig) newListener() (*Listener, error) {
	l := &Listener{
		maxConns: limit(lc.MaxConns, defaultMaxConns),
		filter:   lc.Filter,
		midway:   lc.AdmitMidStream,
	}
	l.budget.limit = limit(lc.MaxMemory, defaultMaxMemory)
	l.queue = backlog.New[*Conn](min(limit(lc.Backlog, defaultBacklog), l.maxConns, 1<<20))
	var err error
	if l.set, err = newSettings(lc.Config, datagram.MaxUDP, l.budget.reserve); err != nil {
		return nil, err
	}
	l.set.onClose = l.forget
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

func (l *Listener) add(pc net.PacketConn, cfg *Config) error {
	sock := socket.NewPacket
	if udp, ok := pc.(*net.UDPConn); ok {
		s, err := socket.NewUDP(udp, socketConfig(cfg))
		if err != nil {
			return err
		}
		sock = func(net.PacketConn) socket.Socket { return s }
	}
	l.muxes = append(l.muxes, datagram.NewMux(sock(pc), datagram.MuxConfig{
		Acceptor:      (*acceptor)(l),
		MaxDatagram:   datagram.MaxUDP,
		Tombstone:     cmp.Or(l.set.idleTimeout, defaultIdleTimeout),
		MaxTombstones: maxTombstones,
		OnClose:       l.broken,
		Group:         l.group,
	}))
	return nil
}

func (l *Listener) start() {
	for _, m := range l.muxes {
		m.Start()
	}
}

// Accept waits for a connection of a new peer, a *[Conn]. Its error matches
// net.ErrClosed after Close, and os.ErrDeadlineExceeded past the deadline.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept with a *Conn.
func (l *Listener) AcceptConn() (*Conn, error) {
	c, err := l.queue.Accept()
	if err != nil {
		return nil, l.opError("accept", err)
	}
	return c, nil
}

// SetDeadline sets the deadline of Accept; the zero time is none. After Close
// the error matches net.ErrClosed.
func (l *Listener) SetDeadline(t time.Time) error {
	if err := l.queue.SetDeadline(t); err != nil {
		return l.opError("set", err)
	}
	return nil
}

// Addr returns the address listened on, with the real port.
func (l *Listener) Addr() net.Addr { return l.muxes[0].Addr() }

// Close ends Accept, and closes connections that nobody has accepted. Those
// that were accepted live on; the socket closes with the last of them. Close
// may be called more than once and returns the first call's result.
func (l *Listener) Close() error {
	l.close.Do(func() {
		l.queue.Close(nil)
		for _, m := range l.muxes {
			if err := m.Close(); err != nil && l.closeErr == nil {
				l.closeErr = l.opError("close", err)
			}
		}
	})
	return l.closeErr
}

// broken learns that a socket has gone. If it broke, so does the Listener.
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
	Conns  int   // connections at present
	Memory int64 // bytes held of ListenConfig.MaxMemory
	// Accepted counts connections made. Refused counts new peers turned away
	// by MaxConns or Backlog, Filtered those by Filter. Unknown counts all
	// datagrams that belonged to no connection and made none.
	Accepted, Refused, Filtered, Unknown uint64
	// Transport tells what happened at the sockets.
	Transport TransportStats
}

// Stats returns the present figures.
func (l *Listener) Stats() ListenerStats {
	s := ListenerStats{
		Conns:    int(l.conns.Load()),
		Memory:   l.budget.used.Load(),
		Accepted: l.accepted.Load(),
		Refused:  l.refused.Load(),
		Filtered: l.filtered.Load(),
		Unknown:  l.early,
	}
	for i, m := range l.muxes {
		d := m.Stats()
		s.Unknown += d.Unknown
		if t := transportStats(d); i == 0 {
			s.Transport = t
		} else {
			s.Transport.add(t)
		}
	}
	return s
}

// An acceptor is a Listener as its sockets see it.
type acceptor Listener

var _ datagram.Acceptor = (*acceptor)(nil)

// HandleUnknown admits a peer by its first datagram, or one that overtook it.
func (a *acceptor) HandleUnknown(_ time.Time, from netip.AddrPort, late bool, bufs [][]byte, _ *wire.Batch) datagram.Admit {
	if late || !a.midway && !slices.ContainsFunc(bufs, a.opens) {
		return nil
	}
	if a.filter != nil && !a.filter(from) {
		a.filtered.Add(1)
		return nil
	}
	if a.conns.Load() >= int64(a.maxConns) || a.queue.Full() {
		a.refused.Add(1)
		return nil
	}
	return a.admit
}

// opens reports whether a datagram can be the first of a connection.
func (a *acceptor) opens(datagram []byte) bool {
	return reliable.ParseOpening(&a.set.reliable, datagram)
}

// admit makes a connection and queues it for Accept.
func (a *acceptor) admit(_ time.Time, dc datagram.Conn) {
	l := (*Listener)(a)
	c := new(Conn)
	l.conns.Add(1)
	if c.start(dc, l.set, nil) != nil {
		l.forget(c)
		dc.Close()
		return
	}
	if !l.queue.Push(c) {
		c.Close()
		return
	}
	l.accepted.Add(1)
}

// forget counts a connection that has ended. One that waits for Accept with
// nothing to read is of no use to anybody.
func (l *Listener) forget(c *Conn) {
	l.conns.Add(-1)
	if c.in.Len() > 0 {
		l.queue.Ended(c)
	} else {
		l.queue.Remove(c)
	}
}

// A budget limits what all connections of a Listener hold together, in bytes.
// The last quarter is for peers that have acknowledged something of ours: who
// forges addresses hears nothing, and is to starve nobody who does.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) reserve(delta int, acked bool) bool {
	limit := b.limit
	if !acked {
		limit -= limit / 4
	}
	n := b.used.Add(int64(delta))
	if delta > 0 && n > limit {
		b.used.Add(-int64(delta))
		return false
	}
	return true
}
