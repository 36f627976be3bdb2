package world

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"volley"
)

// A packetServer is a volley.PacketConn, with an end for each host that it hears.
type packetServer struct {
	*volley.PacketConn
	w    *world
	home int
	done chan struct{}

	dropped *atomic.Uint64 // receipts that found no room; apart, so that flows do not hold all of this

	mu    sync.Mutex
	ends  map[int]*end
	flows map[uint64]*flow // of messages without a fate, by their ids
}

// A packetLink is a peer of a packetServer.
type packetLink struct {
	s    *packetServer
	addr net.Addr
}

func (l *packetLink) read(context.Context, []byte) ([]byte, uint64, error) {
	return nil, 0, net.ErrClosed
}
func (l *packetLink) SetReadDeadline(time.Time) error { return nil }
func (l *packetLink) look()                           { l.s.PeerStats(l.addr) }
func (l *packetLink) close() error                    { return nil }
func (l *packetLink) max() int                        { return l.s.MaxMessageSize() }
func (l *packetLink) pin() (pin, time.Duration)       { return func() bool { return false }, 0 }

func (l *packetLink) fates(func(uint64, volley.Fate)) error {
	<-l.s.done
	return net.ErrClosed
}

func (l *packetLink) write(b []byte) (uint64, error) {
	m, _ := parseMessage(b)
	f := l.s.w.book.find(m.flow)
	id, err := l.s.WriteMessageTo(b, l.addr)
	if id != 0 {
		l.s.mu.Lock()
		l.s.flows[id] = f
		l.s.mu.Unlock()
	}
	return id, err
}

func listenPackets(w *world, home int, pc net.PacketConn) (server, error) {
	l, err := volley.NewPacketConn(pc, w.volleyConfig(home))
	return &packetServer{PacketConn: l, w: w, home: home, done: make(chan struct{}), dropped: new(atomic.Uint64),
		ends: make(map[int]*end), flows: make(map[uint64]*flow)}, err
}

func (s *packetServer) run(take func(*end)) {
	s.AppendReceipts(nil)
	go s.collect()
	buf := make([]byte, largestSize)
	for {
		s.w.rest(s.home)
		n, addr, err := s.ReadFrom(buf)
		if err != nil {
			s.finish(err)
			return
		}
		host := s.w.hostOf(addr)
		s.mu.Lock()
		e := s.ends[host]
		if e == nil || e.link.(*packetLink).addr.String() != addr.String() {
			if e != nil {
				e.finished(net.ErrClosed)
			}
			e = newEnd(s.w.book, &packetLink{s, addr}, route{home: s.home, peer: host, promises: s.promises(host), fates: true, served: true})
			s.ends[host] = e
		}
		s.mu.Unlock()
		e.take(buf[:n], 0)
	}
}

// promises are those about messages of a peer. One that comes back on its port may send a
// message again that it had sent before.
func (s *packetServer) promises(peer int) promises {
	return promises{once: true, turn: mostRecent, exact: !s.w.plan.forgeable(s.home, peer)}
}

// collect hands fates to the flows until the socket is closed.
func (s *packetServer) collect() {
	var receipts []volley.PacketReceipt
	for last := false; ; {
		receipts = s.AppendReceipts(receipts[:0])
		for _, r := range receipts {
			s.mu.Lock()
			f := s.flows[r.ID]
			delete(s.flows, r.ID)
			s.mu.Unlock()
			if f == nil {
				s.w.book.fail("host %d: id %d to %v has the fate %v, and had one already, or was never written", s.home, r.ID, r.Addr, r.Fate)
				continue
			}
			f.decide(r.ID, r.Fate)
		}
		s.dropped.Store(s.Stats().ReceiptsDropped)
		if last {
			return
		}
		select {
		case <-s.done:
			last = true
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s *packetServer) finish(err error) {
	time.Sleep(time.Millisecond) // a write may be under way
	close(s.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.ends {
		e.finished(err)
	}
}

func (s *packetServer) shutdown() error { return s.Close() }
func (s *packetServer) close()          { s.Close() }

func (s *packetServer) check(over bool) {
	st := s.Stats()
	if over {
		st.Peers = 0 // they stay as they were
	}
	s.w.checkMemory(s.home, over, st.Peers, st.Memory, memoryLimit(s.w.plan.servers[s.home]))
}
