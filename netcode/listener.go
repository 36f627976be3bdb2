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
	"volley/internal/serve"
	"volley/internal/watch"
)

// A ListenConfig has options for servers. PrivateKey is required.
type ListenConfig struct {
	// PrivateKey is shared with the backend that issues the tokens. The Listener
	// keeps it only inside a cipher.
	PrivateKey Key
	// ProtocolID must equal that of the tokens.
	ProtocolID uint64
	// Addresses are this server's addresses in tokens (see
	// [Issuer.InternalServers]), with ports. No other server has one of them. The
	// server refuses tokens without any of them. Nil: the address listened on, or
	// every address of this machine if that is unspecified.
	Addresses []netip.AddrPort
	// MaxClients limits the sessions. Further clients are denied. Clients learn the
	// limit. 1 to 1,048,576; default 4096. It also limits:
	//
	//   - The remembered tokens: eight for each client, at least 2048. Tokens that
	//     live longer than a day and than twice TokenLifetime may take half of them.
	//     Tokens that never expire are remembered until the server stops.
	//   - The unfinished handshakes: four for each client, at least 1024. In a full
	//     table, a handshake gives way ten seconds after its token was first seen.
	MaxClients int
	// TokenLifetime must equal [Issuer.Lifetime]. A server refuses tokens that may
	// have been used before its start: those that expire earlier than its start plus
	// TokenLifetime. Default 30 s, at most 2^31-1 s. Negative: it refuses none.
	//
	// After a restart, tokens exempt from this rule admit their holder again, with
	// the same keys. The server begins such sessions at a random sequence, for seven
	// more bytes in each packet, so that it repeats no nonce. For the client see
	// [Issuer.Lifetime].
	TokenLifetime time.Duration

	// Config is for the sessions; nil: the defaults.
	Config *Config
	// Backlog limits the sessions that wait for Accept. Default: MaxClients.
	Backlog int
	// MaxMemory limits the memory of all messages that wait for Read, in bytes.
	// Default 256 MiB, at least 8 KiB, which one message may take. Negative: no
	// limit.
	MaxMemory int64
	// Filter, if not nil, decides whether to look at datagrams of an address without
	// a session. It must be quick, because the reader of the socket calls it. With
	// several Sockets it may be called concurrently.
	Filter func(netip.AddrPort) bool
	// Logger, if not nil, gets the reasons of dropped datagrams, at most once a
	// second for each. It also gets, at most once in ten seconds for each, errors of
	// the sockets, datagrams that the kernel drops, and socket buffers smaller than
	// Config.SocketBuffer. Its Handler must not call methods of the Listener or its
	// connections, because their locks may be held.
	Logger *slog.Logger
	// Control is called with the socket before it is bound, as in net.ListenConfig.
	Control func(network, address string, c syscall.RawConn) error
	// Sockets is how many sockets share the port (SO_REUSEPORT), each with its own
	// reader, for machines with many cores. They are one server: a session keeps its
	// socket, all close together, and all limits are for all of them. Datagrams that
	// arrive before all are bound are dropped. Default 1, at most 1024. On systems
	// other than Linux, more than one is an error that wraps errors.ErrUnsupported.
	Sockets int
}

const (
	defaultMaxClients = 4096
	maxMaxClients     = 1 << 20
	defaultMaxMemory  = 256 << 20

	defaultSocketBuffer = 4 << 20
)

// A Listener is a server. It accepts sessions of clients with valid connect tokens.
type Listener struct {
	cfg     ListenConfig
	set     *settings
	shared  shared
	side    listen.Listener[*Conn]
	serving serve.Server[*Conn]
	refused atomic.Uint64 // because Accept was not called
	born    time.Time
	ended   registry.Ended

	// mu guards everything below, for all sockets. It comes after the locks of a Conn.
	mu      sync.Mutex
	core    *server
	sweeper *time.Timer // for the core's tick
	armed   bool
	closed  bool // the core has stopped
}

var _ net.Listener = (*Listener)(nil)

// Listen starts a server with default options on a UDP address, as
// [ListenConfig.Listen] does.
func Listen(network, address string, privateKey Key, protocolID uint64) (*Listener, error) {
	lc := ListenConfig{PrivateKey: privateKey, ProtocolID: protocolID}
	return lc.Listen(context.Background(), network, address)
}

// Listen starts a server on a UDP address. The network is "udp", "udp4" or "udp6",
// and the address is as for net.ListenPacket. The context is for resolving the
// address. Errors are those of net.ListenConfig and *[ConfigError].
//
// On Linux, a server on all addresses answers each client from the address that the
// client dialed. Windows, macOS and the BSDs choose the address by their routes, and
// a client that dialed another address does not hear the answer. On these systems,
// start a Listener on each address of the machine.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	l, port, err := lc.listen(listen.At(ctx, network, address))
	if err != nil && port != nil {
		port.Close()
	}
	return l, err
}

func (lc *ListenConfig) listen(open listen.Opener) (*Listener, *listen.Port, error) {
	l, err := lc.newListener()
	if err != nil {
		return nil, nil, err
	}
	port, err := open(listen.Options{Sockets: lc.Sockets, Control: lc.Control, Socket: l.set.socket})
	if err == nil {
		err = l.serve(port, lc.PrivateKey)
	}
	if err != nil {
		return nil, port, err
	}
	return l, port, nil
}

// ListenOn starts a server on a socket that exists, a UDP socket or any other
// net.PacketConn whose addresses are *net.UDPAddr. The Listener closes pc, and nobody
// else may read from it. After an error, a *[ConfigError] or one of the system, pc is
// still the caller's.
func (lc *ListenConfig) ListenOn(pc net.PacketConn) (*Listener, error) {
	if netconn.IsNil(pc) {
		return nil, configError("pc", "it is nil")
	}
	l, _, err := lc.listen(listen.On(pc))
	return l, err
}

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
	case lc.PrivateKey == (Key{}):
		return nil, configError("ListenConfig.PrivateKey", "it is missing")
	case n < 1 || n > maxMaxClients:
		return nil, configError("ListenConfig.MaxClients", "%d is not from 1 to %d", n, maxMaxClients)
	case lc.Backlog < 0:
		return nil, configError("ListenConfig.Backlog", "%d is negative", lc.Backlog)
	case lc.Sockets > listen.MaxSockets:
		return nil, configError("ListenConfig.Sockets", "%d is more than %d", lc.Sockets, listen.MaxSockets)
	}
	if one := inbox.ChunkSize(minReadBuffer); lc.MaxMemory > 0 && lc.MaxMemory < int64(one) {
		return nil, configError("ListenConfig.MaxMemory", "%d does not hold one message, which takes up to %d", lc.MaxMemory, one)
	}
	if err := checkSeconds("ListenConfig.TokenLifetime", lc.TokenLifetime); err != nil {
		return nil, err
	}
	l.side.Init(cmp.Or(lc.Backlog, l.cfg.MaxClients), (*Conn).markAccepted, (*Conn).Close)
	l.serving.Init(&l.side, toServed, serve.TickLag)
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
		ask:        askOf(l.set.owner),
	})
	l.core.clock = func() time.Duration { return time.Since(l.born) }
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
		return nil, configError("ListenConfig.Addresses", "it is missing, and the local address %v is not a UDP address", local)
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

// Accept waits for a session of a new client, a *[Conn]. The error matches
// net.ErrClosed after Close, and os.ErrDeadlineExceeded after the deadline.
func (l *Listener) Accept() (net.Conn, error) { return netconn.Any(l.AcceptConn(context.Background())) }

// AcceptConn is Accept, but returns a *Conn, and an error that matches the cause of
// ctx's end if that comes first.
func (l *Listener) AcceptConn(ctx context.Context) (*Conn, error) { return l.side.AcceptConn(ctx) }

// markAccepted has Conns return the session.
func (c *Conn) markAccepted() {
	c.sendMu.Lock()
	c.accepted = true
	c.sendMu.Unlock()
}

// SetDeadline sets the deadline of Accept; the zero time is none. After Close
// the error matches net.ErrClosed.
func (l *Listener) SetDeadline(t time.Time) error { return l.side.SetDeadline(t) }

// Addr returns the address listened on, with the real port.
func (l *Listener) Addr() net.Addr { return l.side.Addr() }
