package datagram

import (
	"time"

	"volley/internal/socket"
)

// Datagrams of addresses without a Conn may be forged, as many as the line carries,
// and each may cost us a hundred times what it costs to send. So of the packets that
// were read together those of Conns are handled first; and while so many come that
// the socket has more each time it is read, the time that strangers take is limited:
// what comes beyond that is dropped unseen, at the cost of reading it.
const (
	// strangerShare is the part of the reader's time, one in so many, that strangers
	// take in the long run while more packets wait.
	strangerShare = 8
	// strangerBurst is how much they take at once, as when many clients come back
	// together.
	strangerBurst = 20 * time.Millisecond
	// strangerMost is the most that one of them counts as: a reader that has had to
	// wait for a processor has not worked meanwhile.
	strangerMost = 100 * time.Microsecond
)

// strangers are the packets of a batch that belong to no Conn, and what was spent on
// such.
type strangers struct {
	waiting []stranger
	spent   time.Duration // on them, less what they are due since
	at      time.Time     // when spent was reckoned
}

type stranger struct {
	from route
	ps   []socket.Packet
}

func (s *strangers) put(from route, ps []socket.Packet) {
	s.waiting = append(s.waiting, stranger{from, ps})
}

// has reports whether packets of a route wait: those that come behind them wait as
// well, even if they have a Conn by now, or they overtook the others.
func (s *strangers) has(from route) bool {
	for i := range s.waiting {
		if s.waiting[i].from == from {
			return true
		}
	}
	return false
}

// begin reckons what strangers may take, and reports whether that is nothing.
func (s *strangers) begin(now time.Time) (spent bool) {
	s.spent = max(0, s.spent-now.Sub(s.at)/strangerShare)
	s.at = now
	return s.spent >= strangerBurst
}

// end notes how long the packets that wait have taken, and forgets them. What they
// took while nothing else waited is not held against others.
func (s *strangers) end(took time.Duration, more bool) {
	s.spent += min(took, time.Duration(len(s.waiting))*strangerMost)
	if !more {
		s.spent = min(s.spent, strangerBurst)
	}
	clear(s.waiting)
	s.waiting = s.waiting[:0]
}

// handleStrangers has the packets handled that belong to no Conn, of so many that
// were read together.
func (m *Mux) handleStrangers(now time.Time, read int) {
	s := &m.reading.strangers
	begin := m.turns.now()
	more := read >= readPackets
	if s.begin(begin) && more {
		m.shedStrangers()
		s.end(0, more)
		return
	}
	defer func() { s.end(m.turns.now().Sub(begin), more) }() // even if a callback of the application panics
	for i := range s.waiting {
		ps := s.waiting[i].ps
		m.drops.Store(ps[0].Drops)
		bufs := m.reading.bufs.of(ps)
		if p := m.lookup(now, s.waiting[i].from, bufs); p != nil {
			m.deliver(now, p, bufs)
		}
	}
}

// shedStrangers drops the packets that wait.
func (m *Mux) shedStrangers() {
	n := 0
	for i := range m.reading.strangers.waiting {
		ps := m.reading.strangers.waiting[i].ps
		for k := range ps {
			n += ps[k].Datagrams()
		}
	}
	m.unknown.Add(uint64(n))
	m.shed.Add(uint64(n))
}

// lookup finds or makes the Conn of an address; nil: the datagrams are done
// with.
func (m *Mux) lookup(now time.Time, from route, bufs [][]byte) *Peer {
	m.mu.Lock()
	if p, there := m.findLocked(from, bufs); there {
		m.mu.Unlock()
		return p
	}
	late := m.tombstones.has(from, now)
	refuse := m.closing || m.cfg.Acceptor == nil || m.crowdedLocked(from.remote)
	closing := m.closing && m.cfg.Closing != nil
	m.entering = !refuse || closing
	m.mu.Unlock()
	if m.entering { // only the reader sets it
		defer m.entered()
	}
	if refuse {
		m.unknown.Add(uint64(len(bufs)))
		if closing {
			m.cfg.Closing(time.Now(), from.remote, bufs, &m.reading.out)
			m.answer(from)
		}
		return nil
	}
	admit := m.cfg.Acceptor.HandleUnknown(time.Now(), from.remote, late, bufs, &m.reading.out)
	m.answer(from)
	if admit == nil {
		m.unknown.Add(uint64(len(bufs)))
		return nil
	}
	return m.admit(now, from, bufs, admit)
}

// entered ends what lookup has begun.
func (m *Mux) entered() {
	m.mu.Lock()
	m.entering = false
	last := m.lastLocked()
	m.mu.Unlock()
	if last {
		m.leave()
	}
}

// admit makes a Conn, even if the Mux has been closed since the Acceptor
// decided: the other side may know already that it is let in, and only its Admit
// can tell it otherwise.
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
