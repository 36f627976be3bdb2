package volley

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/inbox"
	"volley/internal/wire"
	"volley/reliable"
)

// A packetPeer is what a PacketConn knows of one peer: a Conn whose messages go to
// the inbox of all, and that is forgotten instead of ended.
type packetPeer struct {
	conn   Conn
	pc     *PacketConn
	origin *inbox.Origin // apart: messages that wait hold it, and should not hold all of this
	ids    uint64        // is added to the numbers of messages
	begun  beginning

	writeDeadline uint32 // the number of the one that it has; guarded by conn.mu
	unsettled     bool   // is in pc.unsettled, or about to be; guarded by conn.mu
	asked         clock  // see ask; guarded by conn.mu
}

// errForgotten is why a peer that has been forgotten takes no more messages.
var errForgotten = errors.New("volley: the peer has been forgotten")

// idShift leaves the peers' own numbers of messages room for 2^40 of them.
const idShift = 40

func (pc *PacketConn) meet(dc datagram.Conn) (*packetPeer, error) {
	p := &packetPeer{pc: pc, ids: pc.born.Add(1) << idShift}
	c := &p.conn
	c.set = pc.set
	c.out.Init(&c.mu, dc, (*framer)(c), dc.Features().Waits)
	p.origin = &inbox.Origin{Addr: dc.RemoteAddr(), Limit: pc.set.readBuffer, Reserve: pc.set.reserve}
	pc.peers.Add(1)
	now := time.Now()
	first := c.set.firstID()
	err := c.endpoint.Init(c.coreConfig(now, first), now, first, (*peerSink)(p))
	c.endpoint.inner().Doubt(true)
	if err == nil {
		err = dc.Attach((*peerHandler)(p))
	}
	if err != nil {
		pc.peers.Add(-1)
		dc.Close()
		return nil, err
	}
	c.mu.Lock()
	if c.over() == nil { // else the socket has broken already
		if pc.idle > 0 {
			dc.Schedule(c.at(pc.idle))
		}
		c.scheduleLocked(c.born(), 0)
	}
	c.mu.Unlock()
	return p, nil
}

// gone counts a peer that is no longer known.
func (pc *PacketConn) gone(c *Conn) {
	pc.ended.Add(lostPeer{(*handler)(c)}, (*packetView)(pc).ID())
	pc.peers.Add(-1)
}

// A packetAcceptor is a PacketConn as its socket sees it.
type packetAcceptor PacketConn

// HandleUnknown admits a peer by a message, wherever in a stream of them that is, or by a
// hello, where that is looked at.
func (a *packetAcceptor) HandleUnknown(now time.Time, from netip.AddrPort, _ bool, bufs [][]byte, out *wire.Batch) datagram.Admit {
	hello, greeted := a.set.hello(bufs)
	foreign := greeted && a.set.foreign(hello)
	opens := slices.ContainsFunc(bufs, a.carries) || greeted && a.set.protocol != 0
	switch {
	case !opens && !a.set.requires:
	case a.filter != nil && !a.filter(from):
		a.filtered.Add(1)
	case !opens || !greeted && a.set.requires:
		a.told.tell(now, from, bufs, "", out)
	case foreign:
		a.refused.Add(1)
		a.told.tell(now, from, bufs, refusedProtocol, out)
	case a.peers.Load() >= a.maxPeers:
		a.refused.Add(1)
	default:
		return a.admit
	}
	return nil
}

func (a *packetAcceptor) carries(datagram []byte) bool {
	seen, ok := reliable.Inspect(&a.set.reliable, datagram)
	return ok && seen.Message
}

func (a *packetAcceptor) admit(_ time.Time, dc datagram.Conn) {
	p, err := (*PacketConn)(a).meet(dc)
	if err != nil {
		return
	}
	a.admitted.Add(1)
	if a.closed.Load() { // and Close may not have seen it
		p.conn.Close()
	}
}

// A peerHandler is a packetPeer as the socket sees it.
type peerHandler packetPeer

// HandleBatch takes datagrams of the peer, as that of a Conn does.
func (h *peerHandler) HandleBatch(t time.Time, bufs [][]byte, out *wire.Batch) {
	p, c := (*packetPeer)(h), &h.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.out.Err(); err != nil {
		if err == errForgotten {
			p.passOnUnlocking(t, bufs, out)
		}
		return
	}
	now := t.Sub(c.born())
	messages := c.counts.messagesReceived + c.counts.messagesRefused
	before := c.out.Pending()
	p.pc.in.Lock()
	for _, b := range bufs {
		p.meetLocked(b)
		c.receiveLocked(t, now, b)
	}
	p.pc.in.Unlock()
	c.controlLocked(t, now)
	if !c.known && c.proved() {
		c.known = true
		p.origin.Reserve = c.set.reserveTrusted
	}
	if c.counts.messagesReceived+c.counts.messagesRefused != messages {
		c.lastMessage = max(c.lastMessage, now)
		c.activeLocked(now)
	}
	p.unsettleLocked()
	c.out.SendFreshUnlocking(before)
}

// passOnUnlocking gives datagrams that came just as the peer was forgotten to the
// one that is known from now on.
func (p *packetPeer) passOnUnlocking(t time.Time, bufs [][]byte, out *wire.Batch) {
	pc := p.pc
	p.conn.mu.Unlock()
	defer p.conn.mu.Lock()
	p.conn.out.Below.Close()
	if !slices.ContainsFunc(bufs, (*packetAcceptor)(pc).carries) {
		return
	}
	if next, err := pc.again(p); err == nil {
		(*peerHandler)(next).HandleBatch(t, bufs, out)
		pc.settle()
	}
}

// forgetRetry is when a peer is looked at again that should have been forgotten,
// but is being written to, which may take long where the socket blocks.
const forgetRetry = 100 * time.Millisecond

// HandleTick forgets a peer that has said goodbye, or that was without messages for
// too long, and otherwise does what that of a Conn does.
func (h *peerHandler) HandleTick(t time.Time, out *wire.Batch) time.Time {
	p, c := (*packetPeer)(h), &h.conn
	c.mu.Lock()
	if c.out.Err() != nil {
		c.mu.Unlock()
		return time.Time{}
	}
	due, ok := p.dueLocked()
	silent := ok && t.Sub(c.born()) >= due && !c.out.Busy() && !c.out.Pending()
	if silent || c.ending() != nil {
		c.user.EndLocked(&c.out, errForgotten)
		c.releaseLocked()
		c.mu.Unlock()
		c.out.Below.Close()
		p.pc.gone(c)
		return time.Time{}
	}
	c.mu.Unlock()
	next := (*handler)(c).HandleTick(t, out)
	if !ok {
		return next
	}
	at := c.at(due)
	if !at.After(t) {
		at = t.Add(forgetRetry)
	}
	if next.IsZero() || at.Before(next) {
		return at
	}
	return next
}

// partedLife is how long a peer is known after its goodbye, since copies of its
// messages may come: no datagram lives longer.
const partedLife = 10 * time.Second

// dueLocked returns when the peer is to be forgotten, if that is to be.
func (p *packetPeer) dueLocked() (due clock, ok bool) {
	c := &p.conn
	due, ok = c.lastMessage+p.pc.idle, p.pc.idle > 0
	if c.extra() != nil && c.extra().partedAt > c.lastMessage {
		if end := c.extra().partedAt + partedLife; !ok || end < due {
			return end, true
		}
	}
	return due, ok
}

// HandleClose learns that the socket broke.
func (h *peerHandler) HandleClose(err error) { h.conn.end(err) }

// WaitRoom implements datagram.Handler: no socket asks.
func (h *peerHandler) WaitRoom(int, <-chan struct{}) error { return nil }

// unsettled are the peers whose ticks are yet to be asked for: mostly the message
// is answered first, and then there is no acknowledgement to be sent later.
type unsettled struct {
	mu          sync.Mutex
	peers, done []*packetPeer // done is for reuse
}

// unsettleLocked has a tick asked for soon.
func (p *packetPeer) unsettleLocked() {
	if p.unsettled {
		return
	}
	p.unsettled = true
	u := &p.pc.unsettled
	u.mu.Lock()
	u.peers = append(u.peers, p)
	u.mu.Unlock()
}

// settle asks for the ticks of those that have received something.
func (pc *PacketConn) settle() {
	u := &pc.unsettled
	u.mu.Lock()
	if len(u.peers) == 0 {
		u.mu.Unlock()
		return
	}
	peers := u.peers
	u.peers, u.done = u.done, nil
	u.mu.Unlock()
	now := time.Now()
	for _, p := range peers {
		p.conn.mu.Lock()
		p.unsettled = false
		p.conn.scheduleLocked(now, now.Sub(p.conn.born()))
		p.conn.mu.Unlock()
	}
	clear(peers)
	u.mu.Lock()
	u.done = peers[:0]
	u.mu.Unlock()
}

// A peerSink is a packetPeer as its endpoint sees it.
type peerSink packetPeer

// HandleMessage takes a message from the endpoint; false leaves it
// unacknowledged.
func (s *peerSink) HandleMessage(sequence uint16, payload []byte) bool {
	taken := s.takeLocked(payload)
	s.conn.noteMessage(sequence, payload, taken)
	return taken
}

func (s *peerSink) takeLocked(payload []byte) bool {
	if len(payload) == 0 {
		return true // it only carried acknowledgements
	}
	n := &s.conn.counts
	if r := s.conn.extra(); r != nil && r.foreign || !s.pc.in.PushFrom(payload, s.origin) {
		n.messagesRefused++
		return false
	}
	n.messagesReceived++
	return true
}

// HandleFate learns what became of a message.
func (s *peerSink) HandleFate(id uint64, fate reliable.Fate, rtt time.Duration) {
	(*sink)(&s.conn).HandleFate(id, fate, rtt)
	s.pc.receipts.add(PacketReceipt{s.origin.Addr, Receipt{ID: s.ids + id, Fate: fate, RTT: rtt}})
}

// A writeDeadline is that of all peers of a PacketConn. Each has a deadline of its
// own for its Writes, and is given the newest one when it is written to, so that
// setting it does not take longer the more peers there are.
type writeDeadline struct {
	deadline deadline.Deadline
	number   atomic.Uint32
	callers  atomic.Int32 // of WriteTo
}

// set sets the deadline, at once for those peers that are being written to.
func (w *writeDeadline) set(t time.Time, m *datagram.Mux) {
	w.deadline.Set(t)
	w.number.Add(1)
	if w.callers.Load() > 0 {
		for _, h := range m.Handlers() {
			(*packetPeer)(h.(*peerHandler)).setWriteDeadline(w)
		}
	}
}

func (p *packetPeer) setWriteDeadline(w *writeDeadline) {
	n := w.number.Load()
	if n == 0 {
		return // none has ever been set
	}
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if p.writeDeadline != n {
		p.writeDeadline = n
		p.conn.out.SetDeadline(w.deadline.At())
	}
}
