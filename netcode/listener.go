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

	"volley/internal/datagram"
	"volley/internal/inbox"
	"volley/internal/listen"
	"volley/internal/netconn"
	"volley/internal/registry"
	"volley/internal/watch"
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
	// handshakes, four for each and at least 1024. Where that is full, a
	// handshake gives way to a newcomer ten seconds after its token was shown
	// first. Tokens that never expire, or not within a day or twice TokenLifetime, whichever is longer, may
	// take half of the history; those that never expire keep their places
	// until the server stops, which bounds how many of them it ever admits.
	// 1 to 1,048,576; default 4096.
	MaxClients int
	// TokenLifetime must equal [Issuer.Lifetime]. A server refuses tokens
	// that may have been used before its start: those that expire earlier
	// than its start plus this. Zero: 30 s. Negative: it refuses none. A token
	// that it does not refuse, for it lives longer or there is no such rule,
	// admits its holder once more after each restart, with the same keys. The
	// server begins such a session at a random sequence, for seven bytes more in
	// each packet, so that it does not repeat the nonces of the one before; what
	// the client does is described at [Issuer.Lifetime]. At most 2^31-1 s.
	TokenLifetime time.Duration

	// Config is for the sessions; nil: the defaults.
	Config *Config
	// Backlog limits the sessions that wait for Accept. Default: MaxClients.
	// Negative: an error.
	Backlog int
	// MaxMemory limits what all sessions together hold for payloads that
	// wait for Read, in bytes. Default 256 MiB; at least 8 KiB, which is what
	// one payload may take. Negative: no limit.
	MaxMemory int64
	// Filter, if not nil, is asked whether datagrams of an address without a
	// session are to be looked at. It is called on the goroutine that reads the
	// socket, which may be one in Read of the only session, and must be quick.
	// With several Sockets it may be called by several at once.
	Filter func(netip.AddrPort) bool
	// Logger is told which datagrams were dropped and why, at most once a
	// second for each reason; and, at most once in ten seconds each, that the
	// kernel drops datagrams for want of a larger buffer, has granted less than
	// Config.SocketBuffer, or reports errors of the sockets. Its Handler must not call
	// methods of the Listener or of its connections, of which locks may be held. Nil:
	// silence.
	Logger *slog.Logger
	// Control is called with the socket before it is bound, as in
	// net.ListenConfig.
	Control func(network, address string, c syscall.RawConn) error
	// Sockets is how many sockets share the port, each with a reader of its
	// own, for machines of many cores (SO_REUSEPORT). Default 1, at most 1024. On
	// systems other than Linux more than one is an error that wraps
	// errors.ErrUnsupported. All limits, slots and remembered tokens are those of the one server that they
	// make. A session keeps its socket: they all close together, and what
	// arrives before all are bound is discarded. Nobody else may bind to the
	// port.
	Sockets int
}

const (
	defaultMaxClients = 4096
	maxMaxClients     = 1 << 20
	defaultMaxMemory  = 256 << 20

	defaultSocketBuffer = 4 << 20
)

// A Listener is a server: it accepts sessions of clients with valid connect
// tokens.
type Listener struct {
	cfg     ListenConfig
	set     *settings
	shared  shared
	side    listen.Listener[*Conn]
	refused atomic.Uint64 // for want of Accept
	born    time.Time
	ended   registry.Ended

	// mu guards everything below, for all sockets. The locks of a Conn come
	// before it.
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
	if err := listen.CheckNetwork("listen", network); err != nil {
		return nil, err
	}
	l, err := lc.newListener()
	if err != nil {
		return nil, err
	}
	port, err := listen.Open(ctx, network, address, l.options())
	if err != nil {
		return nil, err
	}
	if err := l.serve(port, lc.PrivateKey); err != nil {
		port.Close()
		return nil, err
	}
	return l, nil
}

func (l *Listener) options() listen.Options {
	return listen.Options{Sockets: l.cfg.Sockets, Control: l.cfg.Control, Socket: l.set.socket}
}

// ListenPacket starts a server on a socket that exists, a UDP socket or any
// other net.PacketConn whose addresses are *net.UDPAddr. The Listener takes it
// over: it closes it, and nobody else may read from it. After an error, a
// *[ConfigError] or one of the system, the socket is still the caller's.
func (lc *ListenConfig) ListenPacket(pc net.PacketConn) (*Listener, error) {
	if netconn.IsNil(pc) {
		return nil, configError("pc", "it is nil")
	}
	l, err := lc.newListener()
	if err != nil {
		return nil, err
	}
	port, err := listen.OpenPacket(pc, l.options())
	if err != nil {
		return nil, err
	}
	if err := l.serve(port, lc.PrivateKey); err != nil {
		return nil, err
	}
	return l, nil
}

// newListener checks the options.
func (lc *ListenConfig) newListener() (*Listener, error) {
	set, err := newSettings(lc.Config)
	if err != nil {
		return nil, err
	}
	l := &Listener{cfg: *lc, set: set, born: time.Now()}
	l.cfg.PrivateKey = Key{} // serve takes it from lc
	l.cfg.MaxClients = cmp.Or(lc.MaxClients, defaultMaxClients)
	l.cfg.TokenLifetime = cmp.Or(lc.TokenLifetime, defaultTokenLifetime)
	l.shared.logger = lc.Logger
	l.shared.memory.Init(listen.Limit(lc.MaxMemory, defaultMaxMemory))
	switch n := l.cfg.MaxClients; {
	case lc.PrivateKey.IsZero():
		return nil, configError("ListenConfig.PrivateKey", "it is missing")
	case n < 1 || n > maxMaxClients:
		return nil, configError("ListenConfig.MaxClients", "%d is not from 1 to %d", n, maxMaxClients)
	case lc.Backlog < 0:
		return nil, configError("ListenConfig.Backlog", "%d is negative", lc.Backlog)
	case lc.Sockets > listen.MaxSockets:
		return nil, configError("ListenConfig.Sockets", "%d is more than %d", lc.Sockets, listen.MaxSockets)
	}
	if one := inbox.ChunkSize(minReadBuffer); lc.MaxMemory > 0 && lc.MaxMemory < int64(one) {
		return nil, configError("ListenConfig.MaxMemory", "%d does not hold one payload, which takes up to %d", lc.MaxMemory, one)
	}
	if err := checkSeconds("ListenConfig.TokenLifetime", lc.TokenLifetime); err != nil {
		return nil, err
	}
	l.side.Init(cmp.Or(lc.Backlog, l.cfg.MaxClients))
	return l, nil
}

// serve begins to serve on the sockets of a port. One core serves them all.
func (l *Listener) serve(port *listen.Port, privateKey Key) error {
	addrs, err := ownAddresses(l.cfg.Addresses, port.Addr())
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
	w := watch.New(l.cfg.Logger, watch.Transport("netcode", l.side.Stats)...)
	l.side.Serve(port, datagram.MuxConfig{
		Acceptor:    (*acceptor)(l),
		MaxDatagram: maxPacketSize,
	}, listen.Hooks{
		Stop: l.stop,
		End:  endSession,
		Broken: func(err error) {
			w.Tell(slog.LevelError, "netcode: the socket is broken, and the Listener ends", slog.Any("error", err))
		},
		Over: w.Stop,
	})
	watch.Buffers(l.cfg.Logger, "netcode", max(0, cmp.Or(l.set.socket.ReadBuffer, defaultSocketBuffer)), l.side.Stats()[0])
	listeners.Add(l)
	w.Start()
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
	c, err := l.side.Accept(context.Background())
	if err == nil {
		c.markAccepted()
	}
	return c, err
}

// SetDeadline sets the deadline of Accept; the zero time is none. After Close
// the error matches net.ErrClosed.
func (l *Listener) SetDeadline(t time.Time) error { return l.side.SetDeadline(t) }

// Addr returns the address listened on, with the real port.
func (l *Listener) Addr() net.Addr { return l.side.Addr() }
