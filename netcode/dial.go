package netcode

import (
	"context"
	"errors"
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

// A Dialer has options for clients. The zero value is the default.
type Dialer struct {
	// Config is for the sessions; nil: the defaults.
	Config *Config
	// NetDialer makes the sockets: local address, Control and so on.
	NetDialer net.Dialer
}

// Dial opens the session that a connect token permits, as [Dialer.Dial] does.
func Dial(token *Token) (*Conn, error) {
	return new(Dialer).Dial(context.Background(), token)
}

// Dial opens the session that a connect token permits. It tries the servers of the
// token in turn until one accepts. It gives up after the last of them, when the
// token's lifetime is over, or when ctx ends. The session does not depend on ctx. A
// server whose machine says for a second that nobody listens is given up before the
// timeout.
//
// The error is [ErrTokenUsed], a *[HandshakeError], a *[TokenError] for a nil or
// zero Token, or a *[ConfigError]. The token is used as soon as a request may have
// been sent.
//
// Only the servers decide whether a token has expired: this machine's clock measures
// how long Dial tries.
func (d *Dialer) Dial(ctx context.Context, token *Token) (*Conn, error) {
	set, err := newSettings(d.Config)
	if err != nil {
		return nil, err
	}
	return dial(ctx, token, set, func(ctx context.Context, server netip.AddrPort) (datagram.Conn, error) {
		c, err := d.NetDialer.DialContext(ctx, "udp", server.String())
		if err != nil {
			return nil, err
		}
		dc, err := datagram.Over(c, datagram.OverConfig{Socket: set.socket, MaxDatagram: maxPacketSize})
		if err != nil {
			c.Close()
			return nil, err
		}
		return dc, nil
	})
}

// DialOn is Dial on a socket that exists, a UDP socket or any other net.PacketConn
// whose addresses are *net.UDPAddr. It takes pc over, even if it fails: the Conn
// closes pc, and nobody else may read from it. On a socket that is not connected,
// the system does not say that nobody listens, so that a server which is down takes
// the whole timeout of the token.
func (d *Dialer) DialOn(ctx context.Context, pc net.PacketConn, token *Token) (*Conn, error) {
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
	return dial(ctx, token, set, func(_ context.Context, server netip.AddrPort) (datagram.Conn, error) {
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

// DialWithKey is for deployments without a backend, where clients know the servers'
// private key. It issues a token for the server at a UDP address, with the default
// lifetime and timeout, and dials. A client with the key can claim any client id, so
// use it among your own machines, and in tests.
func (d *Dialer) DialWithKey(ctx context.Context, address string, privateKey Key, protocolID, clientID uint64) (*Conn, error) {
	udp, err := resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	is := Issuer{PrivateKey: privateKey, ProtocolID: protocolID, Servers: udp}
	token, err := is.Issue(clientID, nil)
	if err != nil {
		return nil, err
	}
	return d.Dial(ctx, token)
}

// resolve returns the addresses of host:port, as many as a token holds.
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
	for _, ip := range ips[:min(len(ips), maxServers)] {
		ap := netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(port))
		if !slices.Contains(addrs, ap) {
			addrs = append(addrs, ap)
		}
	}
	return addrs, nil
}

// An opener returns a connection to a server.
type opener func(ctx context.Context, server netip.AddrPort) (datagram.Conn, error)

// A dialing is a handshake, and afterwards leads the layer below to the session.
type dialing struct {
	set     *settings
	done    chan struct{} // closed: connected, or failed for good
	finish  func()        // closes done, once
	next    chan struct{} // a token: the core wants the next server
	conn    atomic.Pointer[Conn]
	expired time.Duration // since the token expired, by this machine's clock

	// mu guards the core until the session begins.
	mu     sync.Mutex
	core   *client
	dc     datagram.Conn // opened last
	server int           // of dc
	seen   uint64        // refusals that the core knows of
}

func dial(ctx context.Context, t *Token, set *settings, open opener) (*Conn, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &HandshakeError{Server: t.servers[0], Err: err}
	}
	if t.used.Swap(true) {
		return nil, ErrTokenUsed
	}
	now, done := time.Now(), make(chan struct{})
	d := &dialing{
		set:    set,
		done:   done,
		finish: sync.OnceFunc(func() { close(done) }),
		next:   make(chan struct{}, 1),
		core:   newClient(clientConfig{interval: set.interval, window: set.window}),
	}
	if end := t.end(); !end.IsZero() && !now.Before(end) {
		d.expired = max(1, now.Sub(end))
	}
	d.core.connect(now, t)
	if set.owner != nil {
		open = d.moving(open)
	}
	return d.run(ctx, open)
}

// moving returns an opener of connections that can move, and whose failures the owner learns.
func (d *dialing) moving(open opener) opener {
	return func(ctx context.Context, server netip.AddrPort) (datagram.Conn, error) {
		dc, err := open(ctx, server)
		if err != nil {
			return nil, err
		}
		m := datagram.NewMoving(dc)
		m.OnFailure(func() {
			if c := d.conn.Load(); c != nil {
				go d.set.owner.Broken(c, errUnreachable) // not here, among locks of whoever writes
			}
		})
		return m, nil
	}
}

var errUnreachable = errors.New("netcode: no way leads to the server")

// run tries one server after the other until the handshake has succeeded or failed.
func (d *dialing) run(ctx context.Context, open opener) (*Conn, error) {
	for {
		d.begin(ctx, open)
		select {
		case <-d.next:
			continue
		case <-ctx.Done():
			d.cancel(ctx.Err())
		case <-d.done:
		}
		if c := d.conn.Load(); c != nil {
			if !d.set.move {
				dialedConns.Add(c)
			}
			return c, nil
		}
		return nil, d.failure()
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

// refusals returns how often the network has said that nobody listens behind dc.
func refusals(dc datagram.Conn) uint64 {
	if r := dc.Features().Refusals; r != nil {
		return r.Refused()
	}
	return 0
}

// advanceLocked calls the core, and returns its next time, zero if that is not for dc.
func (d *dialing) advanceLocked(now time.Time, out *wire.Batch) (next time.Time) {
	before, server := d.core.state, d.core.server
	if before <= stateDisconnected {
		return time.Time{}
	}
	if n := refusals(d.dc); n != d.seen {
		d.seen = n
		d.core.refuse(now)
		if d.core.server != server || d.core.state <= stateDisconnected {
			return d.noteLocked(server, time.Time{})
		}
	}
	next = d.core.advance(now, out)
	return d.noteLocked(server, next)
}

// noteLocked tells run if the core has turned to another server or has failed.
func (d *dialing) noteLocked(server int, next time.Time) time.Time {
	switch {
	case d.core.state <= stateDisconnected:
		d.finish()
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

// abandon gives up the server in use because of an error of the network.
func (d *dialing) abandon(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.core.state <= stateDisconnected || d.conn.Load() != nil {
		return
	}
	server := d.core.server
	d.core.abandon(time.Now(), err)
	d.noteLocked(server, time.Time{})
}

// cancel ends the handshake, and tells the server, which may have a session already.
func (d *dialing) cancel(cause error) {
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	d.mu.Lock()
	if d.conn.Load() != nil {
		d.mu.Unlock()
		return
	}
	if d.core.state > stateDisconnected {
		now := time.Now()
		d.core.noteAttempt(now, d.core.state)
		d.core.attempts[len(d.core.attempts)-1].err = cause
		if d.set.move { // the server may have moved already, and there is another way yet
			d.core.end(now, stateDisconnected)
		} else {
			d.core.disconnect(now, out)
		}
	}
	dc := d.dc
	d.mu.Unlock()
	if dc != nil {
		dc.WriteBatch(out)
	}
}

// failure closes the connection to the last server and describes the handshake.
func (d *dialing) failure() error {
	d.mu.Lock()
	dc := d.dc
	e := &HandshakeError{Elapsed: time.Since(d.core.start), expired: d.expired}
	for _, a := range d.core.attempts {
		x := a.export()
		e.Server, e.Err, e.Attempts = x.Server, x.Err, append(e.Attempts, x)
	}
	d.mu.Unlock()
	if dc != nil {
		dc.Close()
	}
	return e
}

func (d *dialing) connectedLocked(dc datagram.Conn) *Conn {
	c := &Conn{slot: d.core.slot, slots: d.core.slots, alive: true}
	sess := d.core.session // its halves are the Conn's from now on
	c.init(dc, &sess, d.set, nil)
	c.onClose = func() { dialedConns.Ended(c) }
	d.core.token = nil
	d.conn.Store(c)
	d.finish()
	return c
}

// A dialHandler drives the handshake over a connection, and then passes calls to the Conn.
type dialHandler struct {
	*dialing
	dc datagram.Conn
}

var _ datagram.Handler = (*dialHandler)(nil)

// WaitRoom waits until the session takes n bytes. Before the session, nobody sends any.
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

// handshake gives datagrams to the core. Once connected, it returns the Conn and the rest.
func (h *dialHandler) handshake(now time.Time, bufs [][]byte, out *wire.Batch) (*Conn, [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.conn.Load(); c != nil || h.staleLocked() {
		return c, bufs
	}
	for i, b := range bufs {
		h.core.receive(now, h.core.addr, b)
		if h.core.state == stateConnected {
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
		if c.dc != h.dc {
			return time.Time{}
		}
		return (*handler)(c).HandleTick(now, out)
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

// staleLocked reports whether the core has turned to another server than the one below.
func (h *dialHandler) staleLocked() bool {
	return h.dialing.dc != h.dc || h.server != h.core.server
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
