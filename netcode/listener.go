package netcode

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"volley/internal/backlog"
	"volley/internal/datagram"
	"volley/internal/socket"
)

// A ListenConfig has options for servers. PrivateKey is required.
type ListenConfig struct {
	// PrivateKey is shared with the backend that issues the tokens. The
	// Listener keeps no copy of it but in its cipher.
	PrivateKey Key
	// ProtocolID must equal that of the tokens.
	ProtocolID uint64
	// Addresses are those of this server as tokens list them (see
	// [Issuer.InternalServers]), with ports: a token that lists none of them
	// is for somebody else. They are this server's alone: from the place in
	// the token's list follows its share of the sequence numbers. Nil: the
	// address listened on, or every address of this machine with that port if
	// it is unspecified. Unspecified, multicast and broadcast addresses and
	// port 0 are errors.
	Addresses []netip.AddrPort
	// MaxClients limits the sessions at one time; clients beyond it are
	// denied. It is told to the clients, and sizes the history of tokens,
	// eight for each client and at least 2048, and the table of unfinished
	// handshakes, four for each and at least 1024. Tokens that never expire,
	// or not within a day or twice TokenLifetime, whichever is longer, may
	// take half of the history; those that never expire keep their places
	// until the server stops, which bounds how many of them it ever admits.
	// 1 to 1,048,576; default 4096.
	MaxClients int
	// TokenLifetime must equal [Issuer.Lifetime]. A server refuses tokens
	// that may have been used before its start: those that expire earlier
	// than its start plus this. Zero: 30 s. Negative: it refuses none, and a
	// recorded session can be played again after a restart. At most 2^31-1 s.
	TokenLifetime time.Duration

	// Config is for the sessions; nil: the defaults.
	Config *Config
	// Backlog limits the sessions that wait for Accept. Default: MaxClients.
	// Negative: an error.
	Backlog int
	// MaxMemory limits what all sessions together hold for payloads that
	// wait for Read, in bytes. Default 256 MiB. Negative: no limit.
	MaxMemory int64
	// Filter, if not nil, is asked whether datagrams of an address without a
	// session are to be looked at. It is called on the goroutine that reads the
	// socket, which may be one in Read of the only session, and must be quick.
	Filter func(netip.AddrPort) bool
	// Logger is told which datagrams were dropped and why, at most once a
	// second for each reason. Nil: silence.
	Logger *slog.Logger
	// Control is called with the socket before it is bound, as in
	// net.ListenConfig.
	Control func(network, address string, c syscall.RawConn) error
}

const (
	defaultMaxClients = 4096
	maxMaxClients     = 1 << 20
	defaultMaxMemory  = 256 << 20
)

// A Listener is a server: it accepts sessions of clients with valid connect
// tokens.
type Listener struct {
	cfg      ListenConfig
	set      *settings
	mux      *datagram.Mux
	shared   shared
	queue    *backlog.Queue[*Conn]
	close    sync.Once
	closeErr error
	refused  atomic.Uint64 // for want of Accept

	// mu guards everything below. The locks of a Conn come before it.
	mu      sync.Mutex
	core    *server
	sweeper *time.Timer // for the core's tick; armed while there is something
	armed   bool
	closed  bool // the core has stopped
}

var _ net.Listener = (*Listener)(nil)

// Listen starts a server on a UDP address with the options' defaults. The
// network is "udp", "udp4" or "udp6"; the address is as for net.ListenPacket.
// Errors are those of net.ListenConfig and *[ConfigError].
//
// On Linux, a server on all addresses answers each client from the address that
// it has dialed. On Windows, macOS and the BSDs the system chooses the address of
// answers by its routes, and a client that has dialed another one does not hear
// them: there, a machine of several addresses has a Listener on each.
func Listen(network, address string, privateKey Key, protocolID uint64) (*Listener, error) {
	lc := ListenConfig{PrivateKey: privateKey, ProtocolID: protocolID}
	return lc.Listen(context.Background(), network, address)
}

// Listen starts a server on a UDP address. The context bounds the resolution
// of the address. Errors are those of net.ListenConfig and *[ConfigError].
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	if !isUDP(network) {
		return nil, &net.OpError{Op: "listen", Net: network, Err: net.UnknownNetworkError(network)}
	}
	if _, err := lc.newListener(); err != nil {
		return nil, err
	}
	nlc := net.ListenConfig{Control: lc.Control}
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

func isUDP(network string) bool {
	return network == "udp" || network == "udp4" || network == "udp6"
}

// ListenPacket starts a server on a socket that exists, a UDP socket or any
// other net.PacketConn whose addresses are *net.UDPAddr. The Listener takes it
// over: it closes it, and nobody else may read from it. After an error, a
// *[ConfigError] or one of the system, the socket is still the caller's.
func (lc *ListenConfig) ListenPacket(pc net.PacketConn) (*Listener, error) {
	l, err := lc.newListener()
	if err != nil {
		return nil, err
	}
	sock, err := newSocket(pc, l.set)
	if err != nil {
		return nil, err
	}
	if err := l.serve(sock, lc.PrivateKey); err != nil {
		return nil, err
	}
	return l, nil
}

// newSocket returns the fastest socket there is on pc.
func newSocket(pc net.PacketConn, set *settings) (socket.Socket, error) {
	if udp, ok := pc.(*net.UDPConn); ok {
		return socket.NewUDP(udp, set.socket)
	}
	return socket.NewPacket(pc), nil
}

// newListener checks the options.
func (lc *ListenConfig) newListener() (*Listener, error) {
	set, err := newSettings(lc.Config)
	if err != nil {
		return nil, err
	}
	l := &Listener{cfg: *lc, set: set}
	l.cfg.PrivateKey = Key{} // serve takes it from lc
	l.cfg.MaxClients = cmp.Or(lc.MaxClients, defaultMaxClients)
	l.cfg.TokenLifetime = cmp.Or(lc.TokenLifetime, defaultTokenLifetime)
	l.shared.logger = lc.Logger
	l.shared.memoryLimit = cmp.Or(lc.MaxMemory, defaultMaxMemory)
	if lc.MaxMemory < 0 {
		l.shared.memoryLimit = 1 << 62
	}
	switch n := l.cfg.MaxClients; {
	case lc.PrivateKey.IsZero():
		return nil, configError("ListenConfig.PrivateKey", "it is missing")
	case n < 1 || n > maxMaxClients:
		return nil, configError("ListenConfig.MaxClients", "%d is not from 1 to %d", n, maxMaxClients)
	case lc.Backlog < 0:
		return nil, configError("ListenConfig.Backlog", "%d is negative", lc.Backlog)
	}
	if err := checkSeconds("ListenConfig.TokenLifetime", lc.TokenLifetime); err != nil {
		return nil, err
	}
	l.queue = backlog.New[*Conn](cmp.Or(lc.Backlog, l.cfg.MaxClients))
	return l, nil
}

// serve begins to serve on a socket.
func (l *Listener) serve(sock socket.Socket, privateKey Key) error {
	addrs, err := ownAddresses(l.cfg.Addresses, sock.LocalAddr())
	if err != nil {
		return err
	}
	l.core = newServer(time.Now(), serverConfig{
		protocolID: l.cfg.ProtocolID,
		privateKey: privateKey,
		addresses:  addrs,
		maxClients: l.cfg.MaxClients,
		lifetime:   l.cfg.TokenLifetime,
		interval:   l.set.interval,
		window:     l.set.window,
	})
	l.mux = datagram.NewMux(sock, datagram.MuxConfig{
		Acceptor:    (*acceptor)(l),
		MaxDatagram: maxPacketSize,
		OnClose:     l.broken,
	})
	l.mux.Start()
	return nil
}

// ownAddresses returns the addresses that a token may have for this server.
func ownAddresses(given []netip.AddrPort, local net.Addr) (addrs []netip.AddrPort, err error) {
	if given != nil {
		return serverList("ListenConfig.Addresses", given)
	}
	udp, ok := local.(*net.UDPAddr)
	if !ok {
		return nil, configError("ListenConfig.Addresses", "it is missing, and %v is not a UDP address", local)
	}
	ap := unmap(udp.AddrPort())
	if !ap.Addr().IsUnspecified() {
		return []netip.AddrPort{netip.AddrPortFrom(ap.Addr().WithZone(""), ap.Port())}, nil
	}
	return machineAddresses(ap.Port())
}

// machineAddresses returns all addresses of this machine with a port.
func machineAddresses(port uint16) (addrs []netip.AddrPort, err error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, netip.AddrPortFrom(p.Addr().Unmap(), port))
		}
	}
	return addrs, nil
}

// Accept waits for a session of a new client, a *[Conn]. Its error matches
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
func (l *Listener) Addr() net.Addr { return l.mux.Addr() }

// Close stops accepting clients, and ends sessions that nobody has accepted.
// Those that were accepted live on; the socket closes with the last of them.
// Close may be called more than once and returns the first call's result.
func (l *Listener) Close() error {
	l.close.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.core.stop()
		if l.sweeper != nil {
			l.sweeper.Stop()
		}
		l.mu.Unlock()
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
