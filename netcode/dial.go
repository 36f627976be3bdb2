package netcode

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/netconn"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A Dialer has options for clients. The zero value dials as [Dial] does.
type Dialer struct {
	// Config is for the sessions; nil: the defaults.
	Config *Config
	// NetDialer makes the sockets: local address, Control and so on.
	NetDialer net.Dialer
}

// Dial opens the session that a connect token permits. It tries the servers
// of the token in turn until one accepts, and gives up with the last of them,
// when the token's lifetime is over, or with the context, which means nothing
// to the session afterwards. A server whose machine says for a second that
// nobody listens, and which has not answered, is given up then and not after
// the timeout. The error is [ErrTokenUsed], a *[HandshakeError], or a
// *[TokenError] for a nil or zero Token. Once a request may have been sent, the
// token is used. It is not after the error of a context that had ended before.
//
// Whether a token has expired is for the servers to say: this machine's clock
// only measures how long Dial tries.
func Dial(ctx context.Context, t *Token) (*Conn, error) {
	var d Dialer
	return d.Dial(ctx, t)
}

// DialShared is for deployments without a backend, where clients know the
// servers' private key: it issues a token for the server at a UDP address,
// with the default lifetime and timeout, and dials. Anybody who has the key
// can pretend to be any client, so use it among your own machines, and in
// tests. An error of the resolver is returned as it is.
func DialShared(ctx context.Context, address string, privateKey Key, protocolID, clientID uint64) (*Conn, error) {
	udp, err := resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	is := Issuer{PrivateKey: privateKey, ProtocolID: protocolID, Servers: udp}
	t, err := is.Issue(clientID, nil)
	if err != nil {
		return nil, err
	}
	return Dial(ctx, t)
}

// resolve returns the addresses behind host:port, as many as a token holds.
func resolve(ctx context.Context, address string) (addrs []netip.AddrPort, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for _, ip := range ips[:min(len(ips), MaxServers)] {
		ap := netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(port))
		if !slices.Contains(addrs, ap) {
			addrs = append(addrs, ap)
		}
	}
	return addrs, nil
}

// Dial opens the session that a connect token permits, with a socket for each
// server it tries. See the function [Dial]. A Config out of range is a
// *[ConfigError], and the token is not used.
func (d *Dialer) Dial(ctx context.Context, t *Token) (*Conn, error) {
	set, err := newSettings(d.Config)
	if err != nil {
		return nil, err
	}
	return dial(ctx, t, set, func(ctx context.Context, server netip.AddrPort) (datagram.Conn, error) {
		c, err := d.NetDialer.DialContext(ctx, "udp", server.String())
		if err != nil {
			return nil, err
		}
		if _, ok := c.(*net.UDPConn); !ok {
			c.Close()
			return nil, fmt.Errorf("netcode: a socket of type %T", c)
		}
		dc, err := datagram.Over(c, datagram.OverConfig{Socket: set.socket, MaxDatagram: maxPacketSize})
		if err != nil {
			c.Close()
			return nil, err
		}
		return dc, nil
	})
}

// DialPacket is Dial on a socket that exists, a UDP socket or any other
// net.PacketConn whose addresses are *net.UDPAddr. It takes pc over, also when
// it fails: the Conn closes it, and nobody else may read from it. A socket that
// is not connected is not told that nobody listens at an address, so that here a
// server which is down takes the whole timeout of the token.
func (d *Dialer) DialPacket(ctx context.Context, pc net.PacketConn, t *Token) (*Conn, error) {
	if netconn.IsNil(pc) {
		return nil, configError("pc", "it is nil")
	}
	set, err := newSettings(d.Config)
	if err != nil {
		pc.Close()
		return nil, err
	}
	sock, err := socket.New(pc, set.socket)
	if err != nil {
		pc.Close()
		return nil, err
	}
	mux := datagram.NewMux(sock, datagram.MuxConfig{MaxDatagram: maxPacketSize})
	mux.Start()
	defer mux.Close() // the socket goes with the Conn, or now
	var former *datagram.Peer
	return dial(ctx, t, set, func(_ context.Context, server netip.AddrPort) (datagram.Conn, error) {
		if former != nil {
			former.Close() // perhaps of the same address
		}
		var err error
		if former, err = mux.Dial(server); err != nil {
			return nil, err
		}
		return former, nil
	})
}

// An opener returns a connection to a server.
type opener func(ctx context.Context, server netip.AddrPort) (datagram.Conn, error)

// A dialing is a handshake under way, and what the layer below knows of the
// session afterwards.
type dialing struct {
	set  *settings
	done chan struct{} // closed: connected, or failed for good
	next chan struct{} // a token: the core wants the next server
	conn atomic.Pointer[Conn]
	// expired is how long ago the token expired by this machine's clock.
	expired time.Duration

	// mu guards the core until the session begins.
	mu     sync.Mutex
	core   *client
	dc     datagram.Conn // opened last
	server int           // that it leads to
	seen   uint64        // refusals that the core has been told of
}

// dial runs a handshake.
func dial(ctx context.Context, t *Token, set *settings, open opener) (*Conn, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &HandshakeError{Server: t.server(0), State: StateDisconnected, Err: err}
	}
	if t.used.Swap(true) {
		return nil, ErrTokenUsed
	}
	now := time.Now()
	d := &dialing{
		set:  set,
		done: make(chan struct{}),
		next: make(chan struct{}, 1),
		core: newClient(clientConfig{interval: set.interval, window: set.window}),
	}
	if end := t.Expires(); !end.IsZero() && !now.Before(end) {
		d.expired = max(1, now.Sub(end))
	}
	d.core.connect(now, t)
	return d.run(ctx, open)
}

// run opens connections to one server after the other until the handshake has
// succeeded or failed.
func (d *dialing) run(ctx context.Context, open opener) (*Conn, error) {
	for {
		d.begin(ctx, open)
		select {
		case <-d.next:
			continue
		case <-ctx.Done():
			d.cancel()
		case <-d.done:
		}
		if c := d.conn.Load(); c != nil {
			dialedConns.Add(c)
			return c, nil
		}
		return nil, d.failure(ctx.Err())
	}
}

// begin opens the connection to the server in use and sends the first request.
func (d *dialing) begin(ctx context.Context, open opener) {
	d.mu.Lock()
	addr, server, former := d.core.addr, d.core.server, d.dc
	d.mu.Unlock()
	dc, err := open(ctx, addr)
	if former != nil {
		former.Close()
	}
	if err == nil {
		err = dc.Attach(&dialHandler{dialing: d, dc: dc})
	}
	if err != nil {
		d.abandon(err)
		return
	}
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	d.mu.Lock()
	d.dc, d.server, d.seen = dc, server, refusals(dc)
	next := d.advanceLocked(time.Now(), out)
	d.mu.Unlock()
	dc.WriteBatch(out)
	if !next.IsZero() {
		dc.Schedule(next)
	}
}

// refusals returns how often the network has said that nobody listens at the
// other end of dc.
func refusals(dc datagram.Conn) uint64 {
	if r := dc.Features().Refusals; r != nil {
		return r.Refused()
	}
	return 0
}

// advanceLocked lets the core do what is due. It returns when to be called
// again, the zero time for: not on this connection.
func (d *dialing) advanceLocked(now time.Time, out *wire.Batch) (next time.Time) {
	before, server := d.core.state, d.core.server
	if before <= StateDisconnected {
		return time.Time{}
	}
	if n := refusals(d.dc); n != d.seen {
		d.seen = n
		d.core.refuse(now)
		if d.core.server != server || d.core.state <= StateDisconnected {
			return d.noteLocked(server, time.Time{})
		}
	}
	next = d.core.advance(now, out)
	return d.noteLocked(server, next)
}

// noteLocked tells run if the core has turned to another server or has failed.
func (d *dialing) noteLocked(server int, next time.Time) time.Time {
	switch {
	case d.core.state <= StateDisconnected:
		d.finishLocked()
		return time.Time{}
	case d.core.server != server:
		select {
		case d.next <- struct{}{}:
		default:
		}
		return time.Time{}
	}
	return next
}

func (d *dialing) finishLocked() {
	select {
	case <-d.done:
	default:
		close(d.done)
	}
}

// abandon gives up the server in use because of an error of the network.
func (d *dialing) abandon(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.core.state <= StateDisconnected || d.conn.Load() != nil {
		return
	}
	server := d.core.server
	d.core.abandon(time.Now(), err)
	d.noteLocked(server, time.Time{})
}

// cancel ends the handshake, and tells the server, in case it has a session
// already.
func (d *dialing) cancel() {
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	d.mu.Lock()
	if d.conn.Load() != nil {
		d.mu.Unlock()
		return
	}
	if d.core.state > StateDisconnected {
		d.core.attempts = append(d.core.attempts, Attempt{
			Server:  d.core.addr,
			State:   d.core.state,
			Elapsed: time.Since(d.core.began),
		})
		d.core.disconnect(time.Now(), out)
	}
	dc := d.dc
	d.mu.Unlock()
	if dc != nil {
		dc.WriteBatch(out)
	}
}

// failure closes what is open and describes the end of the handshake.
func (d *dialing) failure(cause error) error {
	d.mu.Lock()
	dc, attempts := d.dc, d.core.attempts
	e := &HandshakeError{State: d.core.state, Elapsed: time.Since(d.core.start), Attempts: attempts, Err: cause, expired: d.expired}
	d.mu.Unlock()
	if dc != nil {
		dc.Close()
	}
	last := attempts[len(attempts)-1]
	e.Server = last.Server
	if e.State == StateDisconnected { // cancelled: say how far it got
		e.State = last.State
	} else {
		e.Err = last.Err
	}
	return e
}

// connectedLocked makes the Conn once the core is connected.
func (d *dialing) connectedLocked(dc datagram.Conn) *Conn {
	c := &Conn{slot: d.core.slot, slots: d.core.slots, alive: true}
	sess := d.core.session // the halves are the Conn's from here on
	c.init(dc, &sess, d.set, nil)
	c.onClose = func() { dialedConns.Ended(c) }
	d.core.token = nil
	d.conn.Store(c)
	d.finishLocked()
	return c
}

// A dialHandler stands on a connection to a server: it drives the handshake
// and then hands on to the Conn.
type dialHandler struct {
	*dialing
	dc datagram.Conn
}

var _ datagram.Handler = (*dialHandler)(nil)

// WaitRoom waits until the session takes a payload of n bytes. Before there is
// one nobody sends any.
func (h *dialHandler) WaitRoom(n int, cancel <-chan struct{}) error {
	if c := h.conn.Load(); c != nil {
		return (*handler)(c).WaitRoom(n, cancel)
	}
	return nil
}

func (h *dialHandler) HandleBatch(now time.Time, bufs [][]byte, out *wire.Batch) {
	c := h.conn.Load()
	if c == nil {
		if c, bufs = h.handshake(now, bufs, out); c == nil {
			return
		}
	}
	if c.dc == h.dc {
		(*handler)(c).HandleBatch(now, bufs, out)
	}
}

// handshake gives datagrams to the core. If that connects, it returns the Conn
// and the datagrams that are left for it.
func (h *dialHandler) handshake(now time.Time, bufs [][]byte, out *wire.Batch) (*Conn, [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.conn.Load(); c != nil || h.staleLocked() {
		return c, bufs
	}
	for i, b := range bufs {
		h.core.receive(now, h.core.addr, b)
		if h.core.state == StateConnected {
			c := h.connectedLocked(h.dc)
			h.dc.Schedule(now) // a first tick
			return c, bufs[i+1:]
		}
	}
	// A challenge is answered at once.
	if next := h.advanceLocked(now, out); !next.IsZero() {
		h.dc.Schedule(next)
	}
	return nil, nil
}

func (h *dialHandler) HandleTick(now time.Time, out *wire.Batch) (next time.Time) {
	if c := h.conn.Load(); c != nil {
		return h.tickConn(c, now, out)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn.Load() != nil {
		return now // once more, for the Conn
	}
	if h.staleLocked() {
		return time.Time{}
	}
	return h.advanceLocked(now, out)
}

// staleLocked reports whether the core has turned to another server than the
// one below.
func (h *dialHandler) staleLocked() bool {
	return h.dialing.dc != h.dc || h.server != h.core.server
}

func (h *dialHandler) tickConn(c *Conn, now time.Time, out *wire.Batch) time.Time {
	if c.dc != h.dc {
		return time.Time{}
	}
	return (*handler)(c).HandleTick(now, out)
}

func (h *dialHandler) HandleClose(err error) {
	if c := h.conn.Load(); c != nil {
		if c.dc == h.dc {
			(*handler)(c).HandleClose(err)
		}
		return
	}
	h.mu.Lock()
	stale := h.staleLocked()
	h.mu.Unlock()
	if !stale {
		h.abandon(err)
	}
}
