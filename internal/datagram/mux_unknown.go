package datagram

import (
	"time"

	"volley/internal/socket"
)

// Datagrams without a Conn may be forged, and each may cost us a hundred times what it costs
// to send. So those of Conns are handled first. While the socket always has more, the time
// for unknown peers is limited, and the rest is dropped unseen.
const (
	// unknownShare is the part of the reader's time, one in so many, that unknown peers
	// take in the long run while more packets wait.
	unknownShare = 8
	// unknownBurst is how much they take at once, as when many clients come back together.
	unknownBurst = 20 * time.Millisecond
	// unknownMost is the most that one of them counts as: a reader that has had to
	// wait for a processor has not worked meanwhile.
	unknownMost = 100 * time.Microsecond
)

// unknownPeers are the packets of a batch that belong to no Conn, and what was spent on such.
type unknownPeers struct {
	waiting []unknownRun
	spent   time.Duration // on them, less what they are due since
	at      time.Time     // when spent was reckoned
}

type unknownRun struct {
	from route
	ps   []socket.Packet
}

func (s *unknownPeers) put(from route, ps []socket.Packet) {
	s.waiting = append(s.waiting, unknownRun{from, ps})
}

// has reports whether packets of a route wait: then later ones wait too, or they overtake.
func (s *unknownPeers) has(from route) bool {
	for i := range s.waiting {
		if s.waiting[i].from == from {
			return true
		}
	}
	return false
}

// begin reckons what unknown peers may take, and reports whether that is nothing.
func (s *unknownPeers) begin(now time.Time) (spent bool) {
	s.spent = max(0, s.spent-now.Sub(s.at)/unknownShare)
	s.at = now
	return s.spent >= unknownBurst
}

// end forgets the waiting packets, and notes their time if others waited for it.
func (s *unknownPeers) end(took time.Duration, more bool) {
	s.spent += min(took, time.Duration(len(s.waiting))*unknownMost)
	if !more {
		s.spent = min(s.spent, unknownBurst)
	}
	clear(s.waiting)
	s.waiting = s.waiting[:0]
}

// handleUnknown has packets without a Conn handled, of so many that were read together.
func (m *Mux) handleUnknown(now time.Time, read int) {
	s := &m.reading.unknown
	begin := m.turns.now()
	more := read >= readPackets
	if s.begin(begin) && more {
		m.shedUnknown()
		s.end(0, more)
		return
	}
	defer func() { s.end(m.turns.now().Sub(begin), more) }() // even if a callback of the application panics
	m.enter()
	defer m.entered()
	wall := time.Now()
	for i := range s.waiting {
		ps := s.waiting[i].ps
		m.drops.Store(ps[0].Drops)
		bufs := m.reading.bufs.of(ps)
		if p := m.lookup(now, wall, s.waiting[i].from, bufs); p != nil {
			m.deliver(now, p, bufs)
		}
	}
}

// shedUnknown drops the packets that wait.
func (m *Mux) shedUnknown() {
	n := 0
	for i := range m.reading.unknown.waiting {
		ps := m.reading.unknown.waiting[i].ps
		for k := range ps {
			n += ps[k].Datagrams()
		}
	}
	m.unknown.Add(uint64(n))
	m.shed.Add(uint64(n))
}

// enter begins to decide about addresses.
func (m *Mux) enter() {
	m.mu.Lock()
	m.entering = true
	m.mu.Unlock()
}

// entered ends that.
func (m *Mux) entered() {
	m.mu.Lock()
	m.entering = false
	last := m.lastLocked()
	m.mu.Unlock()
	if last {
		m.leave()
	}
}

// lookup finds or makes the Conn of an address; nil: the datagrams are done with. The Acceptor
// is told true time.
func (m *Mux) lookup(now, wall time.Time, from route, bufs [][]byte) *Peer {
	m.mu.Lock()
	if p, there := m.findLocked(from, bufs); there {
		m.mu.Unlock()
		return p
	}
	late := m.tombstones.has(from, now)
	refuse := m.closing || m.cfg.Acceptor == nil || m.crowdedLocked(from.remote)
	closing := m.closing && m.cfg.Closing != nil
	m.mu.Unlock()
	if refuse {
		m.unknown.Add(uint64(len(bufs)))
		if closing {
			m.cfg.Closing(wall, from.remote, bufs, &m.reading.out)
			m.answer(from)
		}
		return nil
	}
	admit := m.cfg.Acceptor.HandleUnknown(wall, from.remote, late, bufs, &m.reading.out)
	m.answer(from)
	if admit == nil {
		m.unknown.Add(uint64(len(bufs)))
		return nil
	}
	return m.admit(now, from, bufs, admit)
}

// admit makes a Conn even if the Mux was closed: the other side may know that it is let in.
func (m *Mux) admit(now time.Time, from route, bufs [][]byte, admit Admit) *Peer {
	p := newPeer(m, from)
	m.mu.Lock()
	if other, there := m.findLocked(from, bufs); there {
		m.mu.Unlock()
		return other
	}
	m.addLocked(p)
	m.tombstones.forget(p.place())
	m.admitting = p
	m.mu.Unlock()
	admit(now, p)
	refused := p.handler == nil || p.closed.Load()
	m.mu.Lock()
	m.admitting = nil
	if !refused {
		m.countLocked()
	}
	m.mu.Unlock()
	if refused {
		p.Close()
		return nil
	}
	m.turns.reconsider()
	return p
}
