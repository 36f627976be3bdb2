package volley

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"volley/internal/datagram"
	"volley/internal/inbox"
	"volley/internal/listen"
	"volley/internal/netconn"
	"volley/internal/registry"
	"volley/internal/serve"
	"volley/internal/watch"
	"volley/internal/wire"
	"volley/reliable"
)

// A ListenConfig has options for listening. The zero value listens as [Listen]
// does. Negative limits are off.
type ListenConfig struct {
	// Config is for the connections; nil: the defaults.
	Config *Config
	// MaxConns limits the connections at one time. Peers beyond it are
	// refused: their calls return a *[RefusedError]. A connection takes about 1.5 KB beside what MaxMemory counts,
	// and on the plain wire a forged first datagram is enough to make one for
	// IdleTimeout. So without a proof that they are at their address, no more than a
	// sixteenth of MaxConns become connections at once, or 8,192 if that is more, and a
	// 64th in a second, or 2,048. Peers of this package prove it when asked. Those of the
	// reference cannot, and wait for their turn. Default 131,072.
	MaxConns int
	// Backlog limits the connections that wait for Accept. Default 4096. One
	// that ends while it waits is dropped at once if it has nothing to read, and
	// otherwise when a new one needs its place.
	Backlog int
	// MaxMemory limits what all connections together hold for messages that
	// wait for Read, messages of which fragments are missing, and windows, in
	// bytes. A message that would exceed it is refused, and counts as lost. The
	// last quarter is kept for peers that have shown to be at their address,
	// which those of the reference cannot. Messages wait for Read in pieces of 1, 8
	// or 64 KiB, and one in fragments takes its size once more until it is complete. Default 256 MiB;
	// at least 16 KiB, which one connection needs for messages of one datagram,
	// or more with a ReferenceConfig or Config.FragmentAbove above 8 KiB.
	MaxMemory int64
	// Filter, if not nil, is asked whether a new peer at the given address is
	// welcome, and whether a stranger at that address may be told that it is
	// unknown. It is told nothing if it is not. Filter is called on the goroutine that
	// reads the socket, which may be one in Read of the only connection, and must be
	// quick. With several Sockets it may be called by several at once.
	Filter func(netip.AddrPort) bool
	// AdmitMidStream also makes connections of peers that are in the middle
	// of one, as after a restart of this side. By default only a peer that
	// says it has heard nothing yet gets one, so that late datagrams of an
	// old connection do not. Those learn that they are unknown
	// ([ErrPeerRestarted]), and dial again.
	AdmitMidStream bool
	// Control is called with the socket before it is bound, as in net.ListenConfig.
	Control func(network, address string, c syscall.RawConn) error
	// RequireProtocol refuses peers that come without Config.ProtocolID, which must
	// not be 0 then. Peers of the reference are among them.
	RequireProtocol bool
	// Sockets is how many sockets share the port, each with a reader of its
	// own, for machines of many cores (SO_REUSEPORT). Default 1, at most 1024. On
	// systems other than Linux more than one is an error that wraps
	// errors.ErrUnsupported. A peer keeps its socket: they all close together, and what arrives before
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
	user    listen.Side[*Conn]  // over or side
	over    *listen.Over[*Conn] // of NewListener; nil: the rest counts
	wrapper wrapper             // the same

	set      *settings
	maxConns int
	filter   func(netip.AddrPort) bool
	midway   bool
	told     unknownPeers
	proofs   *proofs // nil: of no stranger
	budget   listen.Budget
	side     listen.Listener[*Conn]
	serving  serve.Server[*Conn]

	accepted, filtered atomic.Uint64
	crowded, waiting   atomic.Uint64 // refused by MaxConns, and by Backlog
	foreign            atomic.Uint64 // refused for another protocol
	watch              *watch.Watch  // nil without a Logger
	born               time.Time
	ended              registry.Ended
}

var _ net.Listener = (*Listener)(nil)

// Listen listens on a UDP address. The network is "udp", "udp4" or "udp6"; the
// address is as for net.ListenPacket. Errors are those of net.ListenConfig.
//
// On Linux, a Listener on all addresses, such as ":7777", answers each peer from
// the address that it has dialed. A peer that sends to two of them, from the same
// port, has two connections. On Windows, macOS and the BSDs the system chooses the
// address of answers by its routes, and a peer that has dialed another one does not
// hear them. Use a Listener on each address there.
func Listen(network, address string) (*Listener, error) {
	var lc ListenConfig
	return lc.Listen(context.Background(), network, address)
}

// Listen listens on a UDP address. The context bounds the resolution of the
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

// ListenOn listens on a UDP socket or any other net.PacketConn. The Listener takes it
// over: it closes it, and nobody else may read from it. After an error, a *[ConfigError] or one of the system, the socket
// is still the caller's. Where addresses are not of UDP, Filter sees stand-ins
// from the block 100::/64; RemoteAddr returns the real ones.
func (lc *ListenConfig) ListenOn(pc net.PacketConn) (*Listener, error) {
	if err := checkPacketConn(pc); err != nil {
		return nil, err
	}
	return lc.listen(listen.On(pc))
}

func (lc *ListenConfig) newListener() (*Listener, error) {
	l := &Listener{
		born:     time.Now(),
		maxConns: listen.Limit(lc.MaxConns, defaultMaxConns),
		filter:   lc.Filter,
		midway:   lc.AdmitMidStream,
	}
	l.budget.Init(listen.Limit(lc.MaxMemory, defaultMaxMemory))
	l.user = &l.side
	l.side.Init(min(listen.Limit(lc.Backlog, defaultBacklog), l.maxConns, 1<<20), (*Conn).markAccepted, (*Conn).Close)
	var err error
	if l.set, err = newSettings(lc.Config, datagram.MaxUDP, l.budget.Reserve); err != nil {
		return nil, err
	}
	if err := lc.check(l.set); err != nil {
		return nil, err
	}
	l.set.budget = &l.budget
	l.set.onClose, l.set.onCome = l.forget, l.come
	l.set.requires, l.set.departed = lc.RequireProtocol, new(departed)
	l.told.set, l.told.filter = l.set, lc.Filter
	if l.set.greets && lc.MaxConns >= 0 {
		l.proofs = newProofs(l.maxConns)
	}
	l.serving.Init(l.user, toServed, l.set.tickLag())
	return l, nil
}

// What the windows of a connection take until it is busy, and those of a fixed size.
const (
	connMemory      = 4 << 10
	fixedConnMemory = 8 << 10
)

// check looks for values out of range.
func (lc *ListenConfig) check(set *settings) error {
	if lc.Sockets > listen.MaxSockets {
		return &ConfigError{Field: "ListenConfig.Sockets", Reason: fmt.Sprintf("%d is more than %d", lc.Sockets, listen.MaxSockets)}
	}
	if lc.RequireProtocol && set.protocol == 0 {
		return &ConfigError{Field: "ListenConfig.RequireProtocol", Reason: "there is no Config.ProtocolID"}
	}
	whole := min(set.reliable.FragmentAbove, set.maxMessage)
	windows := connMemory
	if set.reliable.MaxWindow <= 0 {
		windows = fixedConnMemory
	}
	one := int64(inbox.ChunkSize(whole+inbox.NumberedOverhead) + windows)
	one += one / 3 // since a new peer does not get the last quarter
	if lc.MaxMemory > 0 && lc.MaxMemory < one {
		return &ConfigError{Field: "ListenConfig.MaxMemory", Reason: fmt.Sprintf("%d does not hold one connection with a message, which take %d", lc.MaxMemory, one)}
	}
	return nil
}

func (l *Listener) serve(port *listen.Port) {
	l.watch = l.newWatch()
	l.side.Serve(port, datagram.MuxConfig{
		Acceptor:      (*acceptor)(l),
		MaxDatagram:   datagram.MaxUDP,
		Tombstone:     cmp.Or(l.set.idleTimeout, defaultIdleTimeout),
		MaxTombstones: maxTombstones,
		Closing:       l.handleClosing,
	}, listen.Hooks{
		Farewell: maxFarewell,
		End:      func(h datagram.Handler) { (*Conn)(h.(*handler)).Close() },
		Broken:   l.logBroken,
		Over:     l.watch.Stop,
	})
	listeners.Add(l)
	watch.Buffers(l.set.logger, "volley", l.set.socketBuffer, l.side.Stats()[0])
	l.watch.Start()
}

// Accept waits for a connection of a new peer, a *[Conn]. Its error matches
// net.ErrClosed after Close, and os.ErrDeadlineExceeded past the deadline.
func (l *Listener) Accept() (net.Conn, error) { return netconn.Any(l.AcceptConn(context.Background())) }

// AcceptConn is Accept until ctx ends. Then the error is the cause of that.
func (l *Listener) AcceptConn(ctx context.Context) (*Conn, error) { return l.user.AcceptConn(ctx) }

// SetDeadline sets the deadline of Accept; the zero time is none. After Close
// the error matches net.ErrClosed.
func (l *Listener) SetDeadline(t time.Time) error {
	if l.over != nil {
		return l.unsupported("set")
	}
	return l.side.SetDeadline(t)
}

// unsupported returns the error of what cannot be done over another listener.
func (l *Listener) unsupported(op string) error {
	return &net.OpError{Op: op, Net: l.Addr().Network(), Source: l.Addr(), Err: errors.ErrUnsupported}
}

// Addr returns the address listened on, with the real port.
func (l *Listener) Addr() net.Addr { return l.user.Addr() }

// Close ends Accept, and closes connections that nobody has accepted. Those
// that were accepted live on. The socket closes with the last of them, once it has
// said goodbye. Meanwhile new peers are refused. Close may be called more than once and
// returns the first call's result.
func (l *Listener) Close() error {
	err := l.user.Close()
	l.closeHidden()
	return err
}

// Shutdown ends the Listener as Close does, and waits for its connections.
//
//   - At once Accept ends, new peers are refused ("closing"), and connections
//     that nobody has accepted are closed.
//   - Connections that were accepted live on, in both directions, until the
//     application closes them, their IdleTimeout ends them, or the socket
//     breaks. When all have ended and the sockets are closed, Shutdown returns
//     nil, also if ctx is over by then, or the error of Close.
//   - If ctx is over before, Shutdown closes the connections that are left, as
//     [Conn.Close] does. Written messages are given to the network, unread ones are
//     dropped, and pending calls return an error that matches net.ErrClosed. It waits until their goodbyes have been said, less than
//     two round trips and 1 s, so that the program may exit. Then it returns an error that matches ctx's, which is
//     context.Canceled or context.DeadlineExceeded.
//
// It may be called after Close, more than once, and by several goroutines. The
// connections are not told that they are waited for: that is the application's
// affair, before or meanwhile.
func (l *Listener) Shutdown(ctx context.Context) error {
	l.Close()
	return l.user.Shutdown(ctx)
}

// ListenerStats tells what a Listener has done. Fields may be added.
type ListenerStats struct {
	Conns  int   // connections at present
	Memory int64 // bytes held of ListenConfig.MaxMemory, or of what NewListener allows
	// Accepted counts connections made. Refused counts new peers turned away
	// by MaxConns, Backlog or ProtocolID, Filtered those by Filter. Unknown counts all
	// datagrams that belonged to no connection and made none.
	Accepted, Refused, Filtered, Unknown uint64
	// Notices counts datagrams that told peers that they are unknown, or refused, or that
	// asked new ones beside a flood whether they are at their address.
	Notices uint64
	// Transport tells what happened at the sockets.
	Transport TransportStats
}

// Stats returns the present figures.
func (l *Listener) Stats() ListenerStats {
	s := ListenerStats{
		Conns:    l.user.Conns(),
		Memory:   l.budget.Used(),
		Accepted: l.accepted.Load(),
		Refused:  l.crowded.Load() + l.waiting.Load() + l.foreign.Load(),
		Filtered: l.filtered.Load(),
		Notices:  l.told.sent.Load(),
	}
	for i, d := range l.side.Stats() {
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
func (a *acceptor) HandleUnknown(now time.Time, from netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) datagram.Admit {
	hello, greeted := a.set.hello(bufs)
	proved := false
	if a.proofs != nil && !greeted {
		hello, proved = a.proofs.answer(now, from, bufs)
	}
	opens := a.midway || slices.ContainsFunc(bufs, a.opens)
	if (greeted || proved) && a.set.departed.has(hello.token) {
		return nil
	}
	if !greeted && !proved && (late || a.set.requires || !opens) {
		a.told.tell(now, from, bufs, "", out)
		return nil
	}
	var reason string
	var count *atomic.Uint64
	switch {
	case a.filter != nil && !a.filter(from):
		count = &a.filtered
	case (greeted || proved) && a.set.foreign(hello):
		reason, count = refusedProtocol, &a.foreign
	case a.side.Conns() >= a.maxConns:
		reason, count = refusedFull, &a.crowded
	case a.side.Full():
		reason, count = refusedFull, &a.waiting
	case proved:
		return func(_ time.Time, dc datagram.Conn) { a.admitHidden(dc, &greeting{own: hello.echo}) }
	case a.proofs != nil && !a.proofs.openings.take(now):
		if greeted {
			a.ask(now, from, hello, out)
		}
		return nil
	case opens:
		return a.admit
	default:
		return func(_ time.Time, dc datagram.Conn) { a.admitHidden(dc, nil) }
	}
	if opens || proved { // else that has come before, or is to come
		count.Add(1)
	}
	if reason != "" {
		a.told.tell(now, from, bufs, reason, out)
	}
	return nil
}

func (l *Listener) handleClosing(now time.Time, from netip.AddrPort, bufs [][]byte, out *wire.Batch) {
	l.told.tell(now, from, bufs, refusedClosing, out)
}

func (a *acceptor) opens(datagram []byte) bool {
	seen, ok := reliable.Inspect(&a.set.reliable, datagram)
	return ok && seen.Opening
}

func (a *acceptor) admit(_ time.Time, dc datagram.Conn) {
	if c := (*Listener)(a).begin(dc, &Conn{}); c != nil {
		(*Listener)(a).come(c)
	}
}

// admitHidden admits a peer of which only a hello has come. That may be forged in the name of
// another Listener, for which our first packets would begin a connection, so that the two
// would hold each other for ever. So it is sent nothing but answers, and Accept does not return
// the connection, until a packet has come or the peer has shown to be at its address. That
// may be what it answers now, a question of ours that has begun the greeting.
func (a *acceptor) admitHidden(dc datagram.Conn, g *greeting) {
	l := (*Listener)(a)
	if c := l.begin(dc, &Conn{hidden: true, greeting: g}); c != nil && l.closed() {
		c.Close() // Close may have missed it
	}
}

// begin begins the connection c of a peer, and returns it; nil: it cannot.
func (l *Listener) begin(dc datagram.Conn, c *Conn) *Conn {
	l.side.Add()
	if c.startAfter(dc, l.set, glance(dc)) != nil {
		l.forget(c)
		dc.Close()
		return nil
	}
	return c
}

// come queues a connection for Accept.
func (l *Listener) come(c *Conn) {
	if !l.side.Push(c) {
		c.Close()
		return
	}
	l.accepted.Add(1)
}

func (l *Listener) closed() bool {
	select {
	case <-l.side.Done():
		return true
	default:
		return false
	}
}

// closeHidden closes the connections that Accept does not know.
func (l *Listener) closeHidden() {
	for c := range l.side.Each(hiddenConn) {
		c.Close()
	}
}

// hiddenConn returns the connection of a Handler if it is hidden.
func hiddenConn(h datagram.Handler) (*Conn, bool) {
	hc, ok := h.(*handler)
	if !ok {
		return nil, false
	}
	c := (*Conn)(hc)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, c.hidden
}

// glance returns the Stats of a new Conn, without a system call if possible.
func glance(dc datagram.Conn) datagram.Stats {
	if g := dc.Features().Glance; g != nil {
		return g.Glance()
	}
	return dc.Stats()
}

func (l *Listener) forget(c *Conn) {
	l.ended.Add((*handler)(c), (*listenerView)(l).ID())
	l.side.Gone(c, c.user.In.Len() > 0)
}

// Conns returns an iterator over the connections that Accept and Dial have
// returned and that have not ended, in no order. It may be used at any time and by
// several goroutines at once. The body of the loop may do anything, also accept,
// close connections and write for as long as it takes: no lock is held meanwhile.
//
// Each connection that is open during the whole loop comes once. One that ends
// before its turn does not come, though it may end right after; one that is
// accepted during the loop may come or not. After Close of the Listener, those
// come that live on.
func (l *Listener) Conns() iter.Seq[*Conn] {
	if l.over != nil {
		return l.over.Each()
	}
	return l.side.Each(acceptedConn)
}

// acceptedConn returns the connection of a Handler if it is one for Conns.
func acceptedConn(h datagram.Handler) (*Conn, bool) {
	hc, ok := h.(*handler)
	if !ok {
		return nil, false
	}
	c := (*Conn)(hc)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, c.accepted && c.out.Err() == nil
}

func (c *Conn) markAccepted() {
	c.mu.Lock()
	c.accepted = true
	c.mu.Unlock()
}
