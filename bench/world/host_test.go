package world

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"volley/simnet"
)

// A stack is the protocols that a server and its clients run.
type stack int

const (
	volleyAccepted stack = iota
	volleyServed
	volleyPolled
	volleyPackets // a PacketConn, and Conns of clients
	sessions      // of package netcode
	volleySealed  // volley over sessions
	porousPlain
	porousSealed // porous over sessions
	riptidePlain
	riptideSealed // riptide over sessions
	secureSessions
	volleySecure // volley over secure
	stacks
)

var (
	stackNames   = [stacks]string{"volley accepted", "volley served", "volley polled", "volley packets", "netcode", "volley sealed", "porous", "porous sealed", "riptide", "riptide sealed", "secure", "volley over secure"}
	stackWeights = []float64{2, 1, 1, 1, 1, 2, 1.5, 0.7, 1, 0.7, 1, 2}
)

// A server accepts connections.
type server interface {
	run(take func(*end)) // accepts until it is closed
	shutdown() error     // ends when all connections have
	close()
	check(over bool) // that limits are kept, and at the end that nothing is left
}

var (
	listeners = [stacks]func(w *world, home int, pc net.PacketConn) (server, error){listenVolley, listenVolley, listenVolley, listenPackets, listenNetcode, listenSealed, listenPorous, listenSealedPorous, listenRiptide, listenSealedRiptide, listenSecure, listenSecured}
	dialers   = [stacks]func(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error){dialVolley, dialVolley, dialVolley, dialVolley, dialNetcode, dialSealed, dialPorous, dialSealedPorous, dialRiptide, dialSealedRiptide, dialSecure, dialSecured}
)

const (
	serverPort = 7777
	clientPort = 5000
)

// A turn is a mutex that may be held while time passes: a bubble of virtual time knows that
// those wait who wait for it.
type turn chan struct{}

func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

func (t turn) TryLock() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// A host is a machine with one process.
type host struct {
	w      *world
	number int
	stack  stack
	log    log

	mu     turn
	sock   *socket
	killed bool // its process is gone for a while
	over   bool

	// A server has these, and one end for each connection.
	server     server
	ends       map[*end]bool
	rests      time.Duration // until when its program reads nothing
	restsFrom  time.Duration // since when
	stallAgain time.Duration // when a function of its Handler may wait again
	run        chan struct{} // closed when the server has ended

	// A client has these. Others see it at the public address of the NAT.
	to  *host
	end *end
	nat *simnet.NAT

	leaves int

	runningMu sync.Mutex
	serves    server    // the same as server, for clients that ask
	more      []*socket // that a session has opened to move
	newest    *socket   // of all
}

func (h *host) isServer() bool { return h.number < len(h.w.plan.servers) }

func (h *host) port() uint16 {
	if h.isServer() {
		return serverPort
	}
	return clientPort
}

func (h *host) addr() netip.AddrPort {
	addr := h.w.plan.addr(h.number)
	if !h.isServer() {
		addr = inside(addr)
	}
	return netip.AddrPortFrom(addr, h.port())
}

// endsOf are the ends of connections of type C that a Handler reads.
type endsOf[C comparable] struct {
	mu   sync.Mutex
	ends map[C]*end
}

func newEndsOf[C comparable]() *endsOf[C] { return &endsOf[C]{ends: make(map[C]*end)} }

func (s *endsOf[C]) add(c C, e *end) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[c] = e
}

// of returns the end of a connection, or nil.
func (s *endsOf[C]) of(c C) *end {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[c]
}

// remove is of for the last time.
func (s *endsOf[C]) remove(c C) *end {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.ends[c]
	delete(s.ends, c)
	return e
}

func (s *endsOf[C]) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ends)
}

// socket returns a socket of a host.
func (w *world) socket(c *simnet.Conn) *socket {
	s := &socket{Conn: c}
	if slices.ContainsFunc(w.plan.faults, func(f fault) bool { return f.kind == forge }) {
		s.past = new(past)
	}
	return s
}

// handle reads the connections of a server until it is closed. Accept returns an error then, and
// poll one that matches net.ErrClosed.
func (w *world) handle(home int, accept, serve, poll func() error) {
	switch w.plan.servers[home].mode() {
	case serving:
		serve()
	case polling:
		for !errors.Is(poll(), net.ErrClosed) {
			time.Sleep(20*time.Millisecond + w.book.stall(home))
		}
	default:
		for accept() == nil {
		}
	}
}

// inside returns the address of a client behind the NAT with a public address.
func inside(public netip.Addr) netip.Addr {
	b := public.As4()
	b[1] += 100
	return netip.AddrFrom4(b)
}

// openLocked opens the socket of the host.
func (h *host) openLocked() bool {
	c, err := h.w.net.Listen(h.addr().String())
	if err != nil {
		h.w.book.fail("host %d: %v", h.number, err)
		return false
	}
	h.sock = h.w.socket(c)
	h.runningMu.Lock()
	defer h.runningMu.Unlock()
	h.newest = h.sock
	return true
}

// listen starts the server.
func (h *host) listen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || !h.openLocked() {
		return
	}
	s, err := listeners[h.stack](h.w, h.number, h.sock)
	if err != nil {
		h.w.book.fail("host %d: %v", h.number, err)
		return
	}
	run := make(chan struct{})
	h.server, h.run = s, run
	h.serve(s)
	go func() {
		defer close(run)
		s.run(h.took)
	}()
}

// serve notes the present server.
func (h *host) serve(s server) {
	h.runningMu.Lock()
	defer h.runningMu.Unlock()
	h.serves = s
}

// closeMore closes the sockets that a session has opened.
func (h *host) closeMore() {
	h.runningMu.Lock()
	defer h.runningMu.Unlock()
	for _, s := range h.more {
		s.Close()
	}
	h.more = nil
}

// took keeps the end of a new connection, and forgets those that have ended.
func (h *host) took(e *end) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[e] = true
	if rest := h.rests - h.w.book.now(); rest > 0 {
		e.rest(rest)
	}
	h.sweepLocked()
}

// sweepLocked forgets the connections of a server that have ended.
func (h *host) sweepLocked() {
	for e := range h.ends {
		if ended, err := e.ended(); ended {
			h.explain(e, err)
			delete(h.ends, e)
		}
	}
}

// longestDial is how long a client may dial: a session, and on it a connection of package riptide.
const longestDial = sessionWait + riptideWait + time.Millisecond

// connect returns the end of a client. It dials if there is no connection.
func (h *host) connect() *end {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.killed || h.over {
		return nil
	}
	if h.end != nil {
		ended, err := h.end.ended()
		if !ended {
			return h.end
		}
		h.explain(h.end, err)
		if h.followLocked() {
			return h.end
		}
		h.leaveLocked()
	}
	if !h.openLocked() {
		return nil
	}
	began := h.w.book.now()
	e, err := dialers[h.stack](h.w, h.number, h.to.number, h.sock, h.to.addr())
	if took := h.w.book.now() - began; took > longestDial {
		h.w.book.fail("host %d: a dial takes %v", h.number, took)
	}
	if err != nil { // the server may be down
		h.w.book.noteClose(h.number, h.to.number) // what the server may have accepted
		h.sock.Close()
		return nil
	}
	h.end = e
	return e
}

// leaveLocked closes the client's connection. Its socket says goodbye, and goes.
func (h *host) leaveLocked() {
	if h.end == nil {
		return
	}
	h.end.close()
	h.end = nil
	time.Sleep(h.w.plan.release())
	h.sock.Close()
	h.closeMore()
	if h.leaves++; h.leaves%4 == 1 {
		h.w.collect()
	}
}

// leave ends the client's connection.
func (h *host) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaveLocked()
}

// do takes a step of a client.
func (h *host) do(s step) {
	if s.kind == leave {
		h.leave()
		return
	}
	e := h.connect()
	if e == nil {
		return
	}
	switch s.kind {
	case write:
		for i := range s.n {
			e.channel(i).write(s.size, s.answer)
		}
	case rest:
		e.rest(s.lasts)
	case hurry:
		e.hurry(s.lasts)
	case look:
		e.link.look()
	}
}

// play takes all steps of a client.
func (h *host) play(steps []step) {
	for _, s := range steps {
		time.Sleep(s.at - h.w.book.now())
		h.log.add("%v", s)
		h.do(s)
	}
}

// catchUp is how long a program that reads again needs at most to have read all that is there.
const catchUp = lag + longestStall

// restLocked has the program read nothing for a while.
func (h *host) restLocked(lasts time.Duration) {
	now := h.w.book.now()
	if h.rests == 0 || now >= h.rests+catchUp { // else it has not caught up yet
		h.restsFrom = now
	}
	h.rests = max(h.rests, now+lasts)
}

// readAllLocked returns a time at which the program had read all that was there.
func (h *host) readAllLocked() time.Duration {
	at := h.w.book.now()
	if h.rests > 0 && at < h.rests+catchUp {
		at = min(at, h.restsFrom)
	}
	return at - catchUp
}

// kill ends the process without a word. It starts again after a while.
func (h *host) kill(after time.Duration) {
	h.mu.Lock()
	if h.killed || h.over {
		h.mu.Unlock()
		return
	}
	h.killed = true
	ends, s, run := h.ends, h.server, h.run
	h.ends, h.server = make(map[*end]bool), nil
	h.serve(nil)
	h.closeMore()
	if h.sock != nil {
		h.sock.Close()
	}
	h.w.book.drop(h.number, -1, h.readAllLocked())
	if h.end != nil {
		h.end.close()
		h.end = nil
	}
	h.mu.Unlock()
	for e := range ends {
		e.close()
	}
	began := time.Now()
	if s != nil {
		s.close()
		<-run
		if err := s.shutdown(); err != nil {
			h.w.book.fail("host %d: its server has connections a minute after its socket has gone: %v", h.number, err)
		}
		h.w.book.awaitStall(h.number)
		s.check(true)
		s = nil
	}
	time.Sleep(after - time.Since(began))
	h.mu.Lock()
	h.killed = false
	h.mu.Unlock()
	if h.isServer() {
		h.listen()
	}
}
