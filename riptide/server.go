package riptide

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"strings"
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
// Each client has a goroutine that calls functions given to the Server, one after
// the other. While a function waits, only messages of this client wait;
// [Config.ReadBuffer] limits them. If a function panics, the server logs the panic
// with its stack, as package net/http does, drops the waiting messages of this
// client, disconnects it and calls Disconnected. Other clients are not affected.
type Server struct {
	// Config is for the connections; nil: the defaults.
	Config *Config
	// MaxClients limits the clients at one time, including accepted ones that
	// have not answered yet. The server tells others that it is full. 1 to 65534;
	// default 64.
	MaxClients int
	// MaxPending limits the clients that are not connected yet: those that Accept
	// decides about, those that have not answered, and streams on which nothing
	// has come. Clients over streams count apart from those over datagrams.
	// Default 256. If all places are taken, a new client gets the place of
	//   - a client of the host with the most places, if its own host has fewer,
	//   - a stream on which nothing has come for a second,
	//   - or a client that was accepted and has not answered for a second.
	MaxPending int

	// Sockets is how many sockets share each UDP port that ListenAndServe opens
	// (SO_REUSEPORT), each with its own reader, for machines of many cores.
	// Default 1, at most 1024. More than one is an error that wraps
	// errors.ErrUnsupported on systems other than Linux.
	Sockets int

	// Accept decides whether a client may connect; an error refuses it. Accept is
	// called on a goroutine of its own and may take [Config.PendingTimeout]. The
	// context is done when the client no longer waits. Nil: all clients may.
	Accept func(context.Context, *Request) error
	// Connected is called when a client is connected, and before any of its messages.
	Connected func(*Peer)
	// Disconnected is called when a client's connection has ended, after all
	// of its messages.
	Disconnected func(*Peer, Reason)
	// ConnectionFailed is called for a client that was accepted and never answered.
	ConnectionFailed func(*Peer)
	// Notify is called with notify messages, which have no handlers.
	Notify func(*Peer, *Message) error
	// Unhandled is called with messages that have no handler. Nil: they are dropped.
	Unhandled func(*Peer, *Message) error
	// Delivered is called with the ids of reliable messages that a client has
	// acknowledged, including the protocol's own.
	Delivered func(*Peer, uint16)
	// NotifyFate is called with the id of each notify message, in order, and
	// whether it is known to have arrived.
	NotifyFate func(p *Peer, id uint16, delivered bool)

	// KickOnError disconnects a client when a handler returns an error.
	KickOnError bool
	// NoAnnouncements does not tell clients of each other. Telling takes a message
	// to each client whenever a client comes or goes.
	NoAnnouncements bool
	// Logger gets the ends of clients, errors of handlers, and panics. Nil: only
	// panics are logged, by slog.Default.
	Logger *slog.Logger

	handlers handlerTable[*Peer]

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
	stopped   bool          // the same, for goroutines of other test bubbles
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
	RemoteAddr net.Addr
	// Data is what the client has sent along.
	Data *Message
	// Reply may be set to data, which the client gets if Accept refuses it.
	Reply *Message
}

// Handle registers the handler of user messages with an id, in place of an
// earlier one; nil removes it. Messages without a handler go to Unhandled. The
// message is valid until the handler returns; use [Message.Clone] to keep it.
//
// Handlers of one client are called one after the other, in the order in which
// messages arrived; those of different clients at the same time. If a handler
// returns an error, the server logs it, and disconnects the client if KickOnError
// is set.
func (s *Server) Handle(id uint16, f func(*Peer, *Message) error) { s.handlers.set(id, f) }

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
// or "udp6", or one of net.Listen for streams, such as "tcp". The error
// matches net.ErrClosed after Close or Shutdown. Otherwise it is a *[ConfigError] or
// an error of the system.
func (s *Server) ListenAndServe(network, address string) error {
	if err := s.init(); err != nil {
		return err
	}
	if strings.HasPrefix(network, "udp") {
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

// ServeOn serves clients on a UDP socket, or another net.PacketConn with addresses
// of type *net.UDPAddr, which it takes over. It returns as ListenAndServe does.
func (s *Server) ServeOn(pc net.PacketConn) error {
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

func (s *Server) servePort(port *listen.Port) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		port.Close()
		return errServerClosed
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
		return errServerClosed
	}
	for _, m := range muxes { // the other sockets of the port
		m.Close()
	}
	return err
}

// Serve serves clients on the connections of a listener, which it takes over: one
// for streams, such as TCP, or for connections that preserve message boundaries,
// such as sessions of package netcode. It returns as ListenAndServe does.
func (s *Server) Serve(l net.Listener) error {
	if netconn.IsNil(l) {
		return configError("l", "it is nil")
	}
	defer l.Close()
	if err := s.init(); err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.stopped
	if !closed {
		s.listeners = append(s.listeners, l)
	}
	s.mu.Unlock()
	if closed {
		return errServerClosed
	}
	s.lives()
	for pause := time.Duration(0); ; {
		c, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.serveConn(c)
		case s.isClosed():
			return errServerClosed
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
	return s.stopped
}

// Close tells clients that the server stops, and closes all sockets. It does not
// wait for functions that are being called, and always returns nil.
func (s *Server) Close() error {
	s.stop()
	s.kickAll()
	s.closeMuxes()
	return nil
}

// Shutdown accepts no new clients, waits until reliable messages are delivered,
// and then closes the server as Close does. It waits for functions that are being
// called, so they must not call it. When the context is done, it no longer waits,
// and returns the context's error.
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

// stop makes the server accept no more clients.
func (s *Server) stop() {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
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
		p.kick(endStopped, endStopped, nil)
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

// Stats returns the counters of all connections, ended ones included, and the
// sums of what waits at present.
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

// A handlerTable holds handlers by message id. It is read without a lock.
type handlerTable[P any] struct {
	mu sync.Mutex
	m  atomic.Pointer[map[uint16]func(P, *Message) error]
}

func (t *handlerTable[P]) set(id uint16, f func(P, *Message) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := make(map[uint16]func(P, *Message) error)
	if old := t.m.Load(); old != nil {
		maps.Copy(m, *old)
	}
	m[id] = f
	if f == nil {
		delete(m, id)
	}
	t.m.Store(&m)
}

func (t *handlerTable[P]) call(p P, m *Message, notify, unhandled func(P, *Message) error) error {
	f := unhandled
	if m.mode == Notify {
		f = notify
	} else if handlers := t.m.Load(); handlers != nil && (*handlers)[m.id] != nil {
		f = (*handlers)[m.id]
	}
	if f == nil {
		return nil
	}
	return f(p, m)
}
