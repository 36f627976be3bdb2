package riptide

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/netconn"
	"volley/internal/registry"
	"volley/internal/socket"
)

// A Server accepts clients, C# and Unity programs with Riptide or [Client]s,
// over UDP, TCP, or both at once. Fields must not be changed once it serves.
//
// Functions given to it are called on a goroutine of the client that they are
// about, one after the other, and never on one that reads a socket: while one
// waits, messages of this client wait, and nobody else's. What waits is limited
// by [Config.ReadBuffer]. When one panics, that is logged with its stack, as package
// net/http does, and this client is disconnected; of its messages that wait none is
// handled any more, and Disconnected is called. The server and all others go on.
type Server struct {
	// Config is for the connections; nil: the defaults.
	Config *Config
	// MaxClients limits the clients at one time, accepted ones that have not
	// answered yet included; others are told that the server is full. 1 to
	// 65534; default 64.
	MaxClients int
	// MaxPending limits the clients that are not connected yet, those over
	// streams such as TCP apart from those over datagrams: clients that Accept
	// decides about, those that have not answered, and streams on which
	// nothing has come. When all places are taken, the host that has the most
	// gives one to a host that has fewer, a stream on which nothing has come
	// for a second to anybody, and so does a client that has been accepted and
	// has not answered for a second. Others are not heard. Default 256.
	MaxPending int

	// Sockets is how many sockets share each UDP port that ListenAndServe opens,
	// each with a reader of its own, for machines of many cores (SO_REUSEPORT).
	// Default 1, at most 1024. On systems other than Linux more than one is an
	// error that wraps errors.ErrUnsupported. A client keeps its socket, and nobody else may bind
	// to the port.
	Sockets int

	// Accept decides whether a client may connect; the error refuses it, with
	// data if it is a *[RejectError]. It is called on a goroutine of its own
	// and may take [Config.PendingTimeout]. Nil: everybody may.
	Accept func(*Request) error
	// Connected is called when a client is connected, and before any of its
	// messages.
	Connected func(*Peer)
	// Disconnected is called when a client's connection has ended, after all
	// of its messages.
	Disconnected func(*Peer, DisconnectReason)
	// ConnectionFailed is called for a client that was accepted and never
	// answered.
	ConnectionFailed func(*Peer)
	// Notify is called with notify messages, which have no handlers. They
	// have no id in the packed layout.
	Notify func(*Peer, *Message) error
	// Unhandled is called with messages that have no handler. Nil: they are
	// dropped.
	Unhandled func(*Peer, *Message) error
	// Delivered is called with the ids of reliable messages that a client has
	// acknowledged, those of the protocol's own included.
	Delivered func(*Peer, uint16)
	// NotifyFate is called with the id of each notify message, in order, and
	// whether it is known to have arrived.
	NotifyFate func(p *Peer, id uint16, delivered bool)

	// KickOnError disconnects a client when a handler returns an error.
	KickOnError bool
	// NoAnnouncements keeps clients from being told of each other, which
	// takes as many messages as there are clients whenever one comes or goes.
	NoAnnouncements bool
	// Logger is told of clients, their ends, and errors of handlers. Nil:
	// silence, except for panics of functions, which go to slog.Default then.
	Logger *slog.Logger

	handlers handlerTable[*Peer]
	relay    atomic.Pointer[relayFilter]

	once sync.Once
	err  error // of the options
	set  *settings
	// admit makes the connection of a client over datagrams
	admit datagram.Admit

	work sync.WaitGroup // goroutines that call functions of the application
	gone registry.Ended // clients

	mu        sync.Mutex    // guards everything below; taken with sessions locked
	born      time.Time     // when it began to serve
	done      chan struct{} // closed once it accepts nobody any more
	stopped   bool          // the same, for who is in another test bubble
	muxes     []*datagram.Mux
	listeners []net.Listener
	lobby     lobby
	peers     map[uint16]*Peer        // connected
	list      atomic.Pointer[[]*Peer] // of peers; never changed
	joins     uint64                  // number of joins, to tell who was here when
	notices   []notice
	noticing  bool // the goroutine that announces is there
	past      Stats
}

const (
	defaultMaxClients = 64
	maxMaxClients     = 65534
	defaultMaxPending = 256
)

// A Request is a client that asks to be accepted.
type Request struct {
	// Data is what the client has sent along.
	Data *Message

	remote net.Addr
	ctx    context.Context
}

// RemoteAddr returns the client's address.
func (r *Request) RemoteAddr() net.Addr { return r.remote }

// Context is done when the client no longer waits for the decision.
func (r *Request) Context() context.Context { return r.ctx }

func (s *Server) handlerTable() *handlerTable[*Peer] { return &s.handlers }

// SetRelay says whether messages with an id are relayed, in the same mode, from
// each client to all others without a handler being called. Notify messages are
// not relayed.
func (s *Server) SetRelay(id uint16, on bool) {
	for {
		old := s.relay.Load()
		r := new(relayFilter)
		if old != nil {
			*r = *old
		}
		if on {
			r[id/64] |= 1 << (id % 64)
		} else {
			r[id/64] &^= 1 << (id % 64)
		}
		if s.relay.CompareAndSwap(old, r) {
			return
		}
	}
}

// init checks the options, once.
func (s *Server) init() error {
	s.once.Do(func() {
		s.set, s.err = newSettings(s.Config)
		maxClients, maxPending := cmp.Or(s.MaxClients, defaultMaxClients), cmp.Or(s.MaxPending, defaultMaxPending)
		switch {
		case s.err != nil:
		case maxClients < 1 || maxClients > maxMaxClients:
			s.err = configError("Server.MaxClients", "%d is not from 1 to %d", maxClients, maxMaxClients)
		case maxPending < 1:
			s.err = configError("Server.MaxPending", "%d is negative", maxPending)
		case s.Sockets > listen.MaxSockets:
			s.err = configError("Server.Sockets", "%d is more than %d", s.Sockets, listen.MaxSockets)
		}
		s.lobby.init(maxClients, maxPending)
		s.peers = make(map[uint16]*Peer)
		s.done = make(chan struct{})
		s.list.Store(new([]*Peer))
		s.admit = func(now time.Time, conn datagram.Conn) { s.newPeer(now, conn, s.set, overDatagrams) }
	})
	return s.err
}

// ListenAndServe listens on an address and serves. The network is "udp", "udp4"
// or "udp6", or one of net.Listen for streams, such as "tcp". It returns
// [ErrServerClosed] after Close or Shutdown, a *[ConfigError], or an error of
// the system.
func (s *Server) ListenAndServe(network, address string) error {
	if err := s.init(); err != nil {
		return err
	}
	if isUDP(network) {
		port, err := listen.Open(context.Background(), network, address, s.portOptions())
		if err != nil {
			return err
		}
		return s.servePort(port)
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	return s.Serve(l)
}

// ServePacket serves clients on a socket, a UDP socket or any other
// net.PacketConn whose addresses are *net.UDPAddr, which it takes over. It
// returns as ListenAndServe does.
func (s *Server) ServePacket(pc net.PacketConn) error {
	if netconn.IsNil(pc) {
		return configError("pc", "it is nil")
	}
	err := s.init()
	if err != nil {
		pc.Close()
		return err
	}
	port, err := listen.OpenPacket(pc, s.portOptions())
	if err != nil {
		pc.Close()
		return err
	}
	return s.servePort(port)
}

func (s *Server) portOptions() listen.Options {
	return listen.Options{Sockets: s.Sockets, Socket: s.set.socket}
}

// servePort serves clients on the sockets of a port.
func (s *Server) servePort(port *listen.Port) error {
	s.mu.Lock()
	if s.isClosedLocked() {
		s.mu.Unlock()
		port.Close()
		return ErrServerClosed
	}
	over := make(chan error, max(1, s.Sockets))
	muxes := port.Muxes(datagram.MuxConfig{
		Acceptor:    (*acceptor)(s),
		MaxDatagram: s.set.maxDatagram(),
		OnClose:     func(err error) { over <- err },
	})
	s.muxes = append(s.muxes, muxes...)
	s.mu.Unlock()
	s.lives()
	for _, m := range muxes {
		m.Start()
	}
	err := <-over
	if err == nil {
		return ErrServerClosed
	}
	for _, m := range muxes { // those beside the one that has broken
		m.Close()
	}
	return err
}

// Serve serves clients on the connections that a listener accepts, over TCP or
// anything else; sessions of package netcode are taken for what they are. It
// takes the listener over, and returns as ListenAndServe does.
func (s *Server) Serve(l net.Listener) error {
	if netconn.IsNil(l) {
		return configError("l", "it is nil")
	}
	defer l.Close()
	if err := s.init(); err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.isClosedLocked()
	if !closed {
		s.listeners = append(s.listeners, l)
	}
	s.mu.Unlock()
	if closed {
		return ErrServerClosed
	}
	s.lives()
	for pause := time.Duration(0); ; {
		c, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.serveConn(c)
		case s.isClosed():
			return ErrServerClosed
		case !socket.IsTransient(err):
			return err
		default:
			pause = min(max(5*time.Millisecond, 2*pause), time.Second)
			s.log(slog.LevelWarn, "accept failed", "error", err)
			select {
			case <-time.After(pause):
			case <-s.done:
			}
		}
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isClosedLocked()
}

func (s *Server) isClosedLocked() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Close stops the server at once: clients are told, and all sockets close.
// Functions that are being called are not waited for. It always returns nil.
func (s *Server) Close() error {
	s.stop()
	s.kickAll()
	s.closeMuxes()
	return nil
}

// Shutdown stops the server: no new clients are accepted; reliable messages are
// delivered; then clients are told, all sockets close, and Shutdown waits until
// functions that are being called have returned, so it must not be called by
// one. When the context is done it goes on to the end without waiting, and
// returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.drain(ctx)
	s.kickAll()
	s.closeMuxes()
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return err
}

// drainPoll is how often drain looks.
const drainPoll = 5 * time.Millisecond

// drain waits until all reliable messages have been acknowledged.
func (s *Server) drain(ctx context.Context) error {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for {
		waiting := 0
		for _, p := range *s.list.Load() {
			waiting += p.s.waiting()
		}
		if waiting == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stop makes the server accept nobody any more.
func (s *Server) stop() {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosedLocked() {
		return
	}
	close(s.done)
	s.stopped = true
	for _, l := range s.listeners {
		l.Close()
	}
}

// kickAll tells all clients that the server has stopped, connected or not.
func (s *Server) kickAll() {
	s.mu.Lock()
	all := s.lobby.all()
	s.mu.Unlock()
	for _, p := range all {
		p.kick(ServerStopped, ServerStopped, nil)
	}
}

func (s *Server) closeMuxes() {
	s.mu.Lock()
	muxes := s.muxes
	s.muxes = nil
	s.mu.Unlock()
	for _, m := range muxes {
		m.Close()
	}
}

// Peer returns the client with an id, nil if there is none.
func (s *Server) Peer(id uint16) *Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[id]
}

// Peers returns the clients that are connected.
func (s *Server) Peers() []*Peer {
	if s.init() != nil {
		return nil
	}
	return append([]*Peer(nil), *s.list.Load()...)
}

// Stats returns the counters of all connections there have been, and the sums
// of what is at present waiting.
func (s *Server) Stats() Stats {
	if s.init() != nil {
		return Stats{}
	}
	s.mu.Lock()
	sum, list := s.past, *s.list.Load()
	s.mu.Unlock()
	for _, p := range list {
		st := p.Stats()
		sum.plus(&st)
		sum.Unacknowledged += st.Unacknowledged
		sum.QueuedBytes += st.QueuedBytes
	}
	return sum
}

func (s *Server) log(level slog.Level, msg string, args ...any) {
	if s.Logger != nil {
		s.Logger.Log(context.Background(), level, "riptide: "+msg, args...)
	}
}
