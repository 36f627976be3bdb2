package datagram

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A MuxConfig says how a Mux treats its peers.
type MuxConfig struct {
	Acceptor Acceptor // nil: the only Conns are those dialed
	// MaxDatagram is the largest datagram in bytes that Conns promise.
	MaxDatagram int
	// Tombstone is how long datagrams of the address of a closed Conn count as
	// late ones, which the Acceptor may answer but which should make no new
	// Conn. Zero: not at all.
	Tombstone time.Duration
	// MaxTombstones limits their number; the oldest give way.
	MaxTombstones int
	// OnClose is called once the Mux is over: after Close and the last Conn,
	// or with the error that broke the socket.
	OnClose func(error)
	// Settle, if not nil, is called when received datagrams could have been
	// answered: before a caller of Read reads the socket again, or after 5 ms
	// without such a caller. A goroutine that reads calls it at once. Calls may
	// overlap.
	Settle func()
	// Closing, if not nil, is given the datagrams of addresses without a Conn after
	// Close, and may append answers to out.
	Closing func(now time.Time, from netip.AddrPort, bufs [][]byte, out *wire.Batch)
	// TickLag is how much later ticks may come than asked for. Those that come late
	// cost no goroutine as long as packets come.
	TickLag time.Duration
	// Group, if not nil, is that of all Muxes whose sockets share a port.
	Group *MuxGroup
}

// A Mux shares one unconnected socket among many Conns, one for each remote
// address that its Acceptor admits. Where the socket tells to which of our
// addresses datagrams went, a remote address has one for each of these, as it had
// at sockets of their own. One goroutine reads, that of the one Conn's
// Read where there are no others, and one timer serves all Conns.
type Mux struct {
	cfg    MuxConfig
	sock   socket.Socket
	timers timers
	turns  turns
	last   atomic.Pointer[Peer] // whose packets came last; nil once it is closed

	mu         sync.Mutex
	peers      map[netip.AddrPort]*Peer   // the first of each remote address
	more       map[netip.AddrPort][]*Peer // the others, at other addresses of ours; mostly nil
	peak       int                        // most peers since the map was made: maps do not shrink
	dialing    map[netip.AddrPort]*dialing
	tombstones tombstones
	// admitting is the Peer of the present Admit. There is one reader, so one at most.
	admitting *Peer
	closing   bool  // no new peers; the socket goes with the last one
	broken    error // of the socket
	// entering: the Acceptor is deciding about an address, and may have let
	// somebody in already. Whoever closes meanwhile leaves the socket to it.
	entering bool

	reading                                readState
	drops                                  atomic.Uint32 // of the socket, as a stranger's packet said last
	readErrors, writeErrors, unknown, shed atomic.Uint64
}

// readState belongs to who reads.
type readState struct {
	bufs     bufList
	out      wire.Batch
	unknown  unknownPeers
	after    []Runner // to be run before the reader waits again
	unpaused int      // packets handled since they were run
}

// runAfter is after how many packets the Runners run, though there are more.
const runAfter = 64

// NewMux returns a Mux on sock, which it takes over. Nothing is read before Start.
func NewMux(sock socket.Socket, cfg MuxConfig) *Mux {
	m := &Mux{cfg: cfg, sock: sock, peers: make(map[netip.AddrPort]*Peer)}
	m.tombstones.init(cfg.MaxTombstones)
	m.turns.init(m, sock, &m.timers, m.handle)
	m.timers.lag, m.turns.settle = cfg.TickLag, cfg.Settle
	m.turns.sleeps = cfg.Acceptor == nil && sock.Features().Notifier != nil
	if cfg.Group != nil {
		cfg.Group.join(m)
	}
	return m
}

// Start begins to read.
func (m *Mux) Start() { m.turns.start() }

// SetTickLag changes MuxConfig.TickLag.
func (m *Mux) SetTickLag(lag time.Duration) { m.timers.setLag(lag) }

// Addr returns the address of the socket.
func (m *Mux) Addr() net.Addr { return m.sock.LocalAddr() }

// Peers returns the number of Conns.
func (m *Mux) Peers() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.peers)
	for _, ps := range m.more {
		n += len(ps)
	}
	return n
}

// Stats returns what happened below the Conns.
func (m *Mux) Stats() Stats { return m.stats(m.sock.Stats()) }

func (m *Mux) stats(sock socket.Stats) Stats {
	return Stats{
		ReadErrors:  m.readErrors.Load(),
		WriteErrors: m.writeErrors.Load(),
		Unknown:     m.unknown.Load(),
		Shed:        m.shed.Load(),
		Socket:      sock,
	}
}

// Close stops admitting peers. The socket closes with the last Conn of all Muxes of its group.
func (m *Mux) Close() error {
	m.mu.Lock()
	m.closing = true
	last := m.lastLocked()
	m.mu.Unlock()
	if last {
		return m.leave()
	}
	return nil
}

// Released returns nil, or after the end a channel that closes once the address is free.
func (m *Mux) Released() <-chan struct{} {
	if r := m.sock.Features().Release; r != nil {
		return r.Released()
	}
	return nil
}

// lastLocked reports whether nobody here needs the socket any more.
func (m *Mux) lastLocked() bool {
	return m.closing && len(m.peers) == 0 && len(m.dialing) == 0 && !m.entering
}

// lingers reports whether there will be no other Conns than those there are.
func (m *Mux) lingers() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closing && len(m.dialing) == 0
}

// leave closes the socket, as soon as nobody needs it to be there.
func (m *Mux) leave() error {
	if m.cfg.Group != nil {
		return m.cfg.Group.leave(m)
	}
	return m.closeSocket(nil)
}

func (m *Mux) closeSocket(cause error) error {
	if !m.end() {
		return nil
	}
	err := m.sock.Close()
	if m.cfg.OnClose != nil {
		m.cfg.OnClose(cause)
	}
	return err
}

// end marks the Mux as closed and reports whether it was not before.
func (m *Mux) end() bool {
	m.mu.Lock()
	m.closing = true
	already := m.turns.closed.Swap(true) // here, so that the cause of the first counts
	m.mu.Unlock()
	if already {
		return false
	}
	m.timers.stop()
	return true
}

func (m *Mux) handleError(error) { m.readErrors.Add(1) }

// handleBroken ends all Conns after the socket broke.
func (m *Mux) handleBroken(err error) {
	m.mu.Lock()
	m.broken = err
	peers := make([]*Peer, 0, len(m.peers))
	for p := range m.allLocked() {
		peers = append(peers, p)
	}
	m.mu.Unlock()
	for _, p := range peers {
		p.handler.HandleClose(err)
	}
	if m.cfg.Group == nil {
		m.closeSocket(err)
		return
	}
	// The socket stays, so that the kernel does not share out the peers of the others anew.
	if m.end() && m.cfg.OnClose != nil {
		m.cfg.OnClose(err)
	}
	m.cfg.Group.leave(m)
}

// handle takes packets from the socket. None means that there are no more at the moment.
func (m *Mux) handle(ps []socket.Packet) {
	if len(ps) == 0 {
		m.drained()
		return
	}
	now := m.turns.received()
	m.handlePackets(now, ps)
	m.turns.handled(now)
}

// handlePackets hands packets on, a batch for each run of a route, unknown peers last.
func (m *Mux) handlePackets(now time.Time, ps []socket.Packet) {
	r := &m.reading
	for i := 0; i < len(ps); {
		from := route{ps[i].Addr, ps[i].Local}
		end := i + 1
		for end < len(ps) && ps[end].Addr == from.remote && ps[end].Local == from.local {
			end++
		}
		if !m.handleKnown(now, from, ps[i:end]) {
			r.unknown.put(from, ps[i:end])
		}
		i = end
	}
	if len(r.unknown.waiting) > 0 {
		m.handleUnknown(now, len(ps))
	}
	clear(r.bufs.bufs)
	if r.unpaused += len(ps); r.unpaused >= runAfter {
		m.drained()
	}
}

// drained runs what was to be run after the packets at hand.
func (m *Mux) drained() {
	r := &m.reading
	r.unpaused = 0
	for i := 0; i < len(r.after); i++ { // one may add another
		r.after[i].Run()
	}
	clear(r.after)
	r.after = r.after[:0]
}

// AfterRead implements AfterReader.
func (m *Mux) AfterRead(r Runner) {
	if after := &m.reading.after; !slices.Contains(*after, r) {
		*after = append(*after, r)
	}
}

// handleKnown hands on the packets of a route, and returns false if it has no Conn.
func (m *Mux) handleKnown(now time.Time, from route, ps []socket.Packet) bool {
	bufs := m.reading.bufs.of(ps)
	p := m.last.Load()
	if p == nil || p.addr != from.remote || !p.hears(from.local) || p.closed.Load() {
		if m.reading.unknown.has(from) {
			return false // what came before it is yet to be handled
		}
		m.mu.Lock()
		found, there := m.findLocked(from, bufs)
		m.mu.Unlock()
		if found == nil {
			return there
		}
		p = found
	}
	m.deliver(now, p, bufs)
	return true
}

func (m *Mux) deliver(now time.Time, p *Peer, bufs [][]byte) {
	if m.last.Load() != p {
		m.last.Store(p)
		if p.closed.Load() {
			m.last.CompareAndSwap(p, nil) // remove may have been too early
		}
	}
	p.handler.HandleBatch(now, bufs, &m.reading.out)
	m.answer(p.route())
}

// answer sends what a handler has appended.
func (m *Mux) answer(to route) {
	out := &m.reading.out
	if out.Len() > 0 {
		sendBatch(&m.turns, to, out, &m.writeErrors)
		out.Reset()
	}
}

func (m *Mux) countLocked() {
	var only *Peer
	if len(m.peers) == 1 && m.more == nil {
		for _, p := range m.peers {
			if p != m.admitting {
				only = p
			}
		}
	}
	m.turns.only.Store(only)
}

// remove forgets a closed Conn. Its address stays closed for a while.
func (m *Mux) remove(p *Peer) error {
	m.last.CompareAndSwap(p, nil)
	m.mu.Lock()
	if d := m.dialing[p.addr]; d != nil && d.peer == p {
		delete(m.dialing, p.addr)
	}
	if m.dropLocked(p) {
		if d := p.tombstone(); d > 0 && !m.closing {
			now := time.Now()
			m.tombstones.add(p.place(), now, now.Add(d))
		}
	}
	m.shrinkLocked()
	m.countLocked()
	last := m.lastLocked()
	m.mu.Unlock()
	if last {
		return m.leave()
	}
	m.turns.reconsider()
	return nil
}

// shrinkLocked makes a new map when the old one has become far too large.
func (m *Mux) shrinkLocked() {
	if m.peak < 1024 || len(m.peers) > m.peak/8 {
		return
	}
	peers := make(map[netip.AddrPort]*Peer, len(m.peers))
	for a, p := range m.peers {
		peers[a] = p
	}
	m.peers, m.peak = peers, len(peers)
}

// Inline returns an InlineReader for readers that take what all Conns receive.
func (m *Mux) Inline() InlineReader { return (*inlineMux)(m) }

type inlineMux Mux

// ReadInline implements InlineReader.
func (m *inlineMux) ReadInline(d *deadline.Deadline, r Readers) bool {
	return m.turns.readInline(d, anyone, r)
}

// InterruptInline implements InlineReader.
func (m *inlineMux) InterruptInline(r Readers) { m.turns.interrupt(r) }
