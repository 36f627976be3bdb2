package datagram

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"time"

	"volley/internal/wire"
)

// ErrPeerExists is the error of Mux.Dial for an address that has a Conn already,
// dialed or accepted.
var ErrPeerExists = errors.New("datagram: the address has a connection already")

// A dialing is a Conn that waits for its Handler.
type dialing struct {
	peer  *Peer
	early wire.Batch // received meanwhile
}

// Dial returns a Conn to an address, from the socket of the Mux. Nothing is sent.
// From now on datagrams of the address are for this Conn, not for the Acceptor.
// When both sides dial each other at once, each finds the other's first datagram in
// the Conn that it has dialed. The error is ErrPeerExists if
// the other side has come before, and net.ErrClosed after Close.
//
// The system chooses its source address. It receives datagrams to any of ours.
func (m *Mux) Dial(addr netip.AddrPort) (*Peer, error) {
	return m.dial(route{remote: netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())})
}

// Redial is Dial in the place of a Conn that has been closed.
func (m *Mux) Redial(p *Peer) (*Peer, error) { return m.dial(p.route()) }

func (m *Mux) dial(to route) (*Peer, error) {
	addr := to.remote
	p := newPeer(m, to)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closing:
		return nil, net.ErrClosed
	case m.peerLocked(to) != nil || m.dialing[addr] != nil:
		return nil, ErrPeerExists
	}
	if m.dialing == nil {
		m.dialing = make(map[netip.AddrPort]*dialing)
	}
	m.dialing[addr] = &dialing{peer: p}
	m.tombstones.forget(p.place())
	return p, nil
}

// Handler returns the Handler of an address's first Conn; nil: none, or in the making.
func (m *Mux) Handler(addr netip.AddrPort) Handler {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[addr]; p != nil {
		return aboveAll(p.handler)
	}
	return nil
}

// Successor returns the Handler that gets a closed Conn's datagrams; nil: none yet.
func (m *Mux) Successor(p *Peer) Handler {
	m.mu.Lock()
	defer m.mu.Unlock()
	if next := m.peerLocked(p.route()); next != nil {
		return aboveAll(next.handler)
	}
	return nil
}

// findLocked returns the Peer of a route. True with nil: it waits for its Handler.
func (m *Mux) findLocked(r route, bufs [][]byte) (p *Peer, there bool) {
	if p = m.peerLocked(r); p != nil {
		return p, true
	}
	d := m.dialing[r.remote]
	if d == nil || !d.peer.hears(r.local) {
		return nil, false
	}
	d.keep(bufs)
	return nil, true
}

// keep keeps what came for a Conn that waits for its Handler, as far as there is room.
func (d *dialing) keep(bufs [][]byte) {
	for _, b := range bufs {
		if d.early.Size()+len(b) <= maxEarly {
			d.early.Append(b)
		}
	}
}

// attach gives a Peer its Handler. A dialed one receives from now on.
func (m *Mux) attach(p *Peer, h Handler) error {
	m.mu.Lock()
	if p.handler != nil {
		m.mu.Unlock()
		return errors.New("datagram: a Handler is attached already")
	}
	if m.broken != nil || p.closed.Load() || m.turns.closed.Load() {
		m.mu.Unlock()
		return cmp.Or(m.broken, net.ErrClosed)
	}
	p.handler = h
	d := m.dialing[p.addr]
	if d == nil || d.peer != p { // its Admit is under way
		m.mu.Unlock()
		return nil
	}
	delete(m.dialing, p.addr)
	m.addLocked(p)
	m.countLocked()
	m.mu.Unlock()
	m.turns.reconsider()
	if d.early.Len() > 0 {
		p.handleEarly(&d.early)
	}
	return nil
}

func (p *Peer) handleEarly(early *wire.Batch) {
	l := bufLists.Get().(*bufList)
	defer l.put()
	for i := range early.Len() {
		l.bufs = append(l.bufs, early.At(i))
	}
	out := GetBatch()
	defer PutBatch(out)
	p.handler.HandleBatch(time.Now(), l.bufs, out)
	p.WriteBatch(out)
}
