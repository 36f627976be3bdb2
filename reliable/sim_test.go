package reliable

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// connConfig is what a connection makes of the options beyond the reference.
func connConfig() *Config {
	return &Config{
		AckBuffer:         -1,
		SmoothingInterval: time.Second / 60,
		MaxWindow:         16384,
		JumpGuard:         true,
		AckGuard:          true,
		AckRefused:        true,
		AckDelay:          20 * time.Millisecond,
	}
}

// A simPeer is one end of a simulated link. Its messages begin with their id.
type simPeer struct {
	*Endpoint
	t        *testing.T
	messages uint64          // sent
	seen     map[uint64]bool // ids delivered here
	fates    map[uint64]Fate
	refuse   func(id uint64) bool
}

func newSimPeer(t *testing.T, cfg *Config) *simPeer {
	p := &simPeer{t: t, seen: make(map[uint64]bool), fates: make(map[uint64]Fate)}
	e, err := newEndpoint(cfg, testTime(0), p)
	if err != nil {
		t.Fatal(err)
	}
	p.Endpoint = e
	return p
}

func (p *simPeer) HandleMessage(sequence uint16, payload []byte) bool {
	if len(payload) == 0 {
		return true
	}
	id := binary.LittleEndian.Uint64(payload)
	if uint16(id) != sequence {
		p.t.Errorf("message %d came with sequence %d", id, sequence)
	}
	if p.refuse != nil && p.refuse(id) {
		return false
	}
	if p.seen[id] {
		p.t.Errorf("message %d was delivered twice", id)
	}
	if want := testPayload(len(payload)-8, uint32(id)); string(payload[8:]) != string(want) {
		p.t.Errorf("message %d is corrupt", id)
	}
	p.seen[id] = true
	return true
}

func (p *simPeer) HandleFate(id uint64, fate Fate, rtt time.Duration) {
	if old, twice := p.fates[id]; twice {
		p.t.Errorf("message %d: fate %v after %v", id, fate, old)
	}
	if rtt < 0 || fate == FateLost && rtt != 0 {
		p.t.Errorf("message %d: fate %v with round-trip time %v", id, fate, rtt)
	}
	p.fates[id] = fate
}

// message returns one of n bytes, at least 8, with the id that Send will give.
func (p *simPeer) message(n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, p.NextID())
	return append(b, testPayload(max(0, n-8), uint32(p.NextID()))...)
}

// A simLink is how one direction treats datagrams.
type simLink struct {
	delay, jitter time.Duration
	loss, dup     float64
}

// A sim joins two peers.
type sim struct {
	t     *testing.T
	rng   *rand.Rand
	now   time.Duration
	peers [2]*simPeer
	links [2]simLink // away from each peer
	queue simQueue
	out   Batch
	order int
	acks  bool // ack-only packets are sent when due
}

func newSim(t *testing.T, cfg *Config, link simLink) *sim {
	s := &sim{t: t, rng: rand.New(rand.NewPCG(7, 7)), acks: true}
	s.peers = [2]*simPeer{newSimPeer(t, cfg), newSimPeer(t, cfg)}
	s.links = [2]simLink{link, link}
	return s
}

// A simEvent is the arrival of a datagram.
type simEvent struct {
	at    time.Duration
	order int
	to    int
	data  []byte
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

func (s *sim) time() time.Time { return testTime(0).Add(s.now) }

// send sends payload from peer i; nil is an ack-only packet.
func (s *sim) send(i int, payload []byte) {
	s.out.Reset()
	if _, err := s.peers[i].Send(s.time(), payload, &s.out); err != nil {
		s.t.Fatal(err)
	}
	if len(payload) > 0 {
		s.peers[i].messages++
	}
	for k := range s.out.Len() {
		s.transmit(i, s.out.At(k))
	}
}

// control sends the control packet that peer i asks for.
func (s *sim) control(i int) {
	s.out.Reset()
	s.peers[i].SendControl(s.time(), &s.out)
	for k := range s.out.Len() {
		s.transmit(i, s.out.At(k))
	}
}

func (s *sim) transmit(i int, d []byte) {
	link := s.links[i]
	copies := 1
	if s.rng.Float64() < link.dup {
		copies = 2
	}
	for range copies {
		if s.rng.Float64() < link.loss {
			continue
		}
		at := s.now + link.delay
		if link.jitter > 0 {
			at += time.Duration(s.rng.Int64N(int64(link.jitter)))
		}
		s.order++
		heap.Push(&s.queue, simEvent{at, s.order, i ^ 1, append([]byte(nil), d...)})
	}
}

// advance lets time pass: datagrams arrive, and ack-only packets leave.
func (s *sim) advance(d time.Duration) {
	end := s.now + d
	for {
		next, ack := end, -1
		if len(s.queue) > 0 && s.queue[0].at < next {
			next = s.queue[0].at
		}
		for i, p := range s.peers {
			if wait, owed := p.ControlDue(s.time()); s.acks && owed && s.now+wait <= next {
				next, ack = s.now+wait, i
			}
		}
		if next >= end && ack < 0 || next > end {
			s.now = end
			return
		}
		s.now = next
		if ack >= 0 {
			s.control(ack)
			continue
		}
		ev := heap.Pop(&s.queue).(simEvent)
		s.peers[ev.to].Receive(s.time(), ev.data)
	}
}

// settle lets the last datagrams arrive, and then sends enough back and forth
// that every fate is decided.
func (s *sim) settle() {
	for range 200 {
		s.send(0, nil)
		s.send(1, nil)
		s.advance(200 * time.Millisecond)
	}
}

// check compares the fates with what happened, and returns for each peer how
// many of its messages were delivered, and how many of these presumed lost.
func (s *sim) check() (delivered, presumedLost [2]int) {
	s.t.Helper()
	for i, p := range s.peers {
		other := s.peers[i^1]
		if uint64(len(p.fates)) != p.messages || p.InFlight() != 0 {
			s.t.Errorf("peer %d: %d fates of %d messages, %d in flight", i, len(p.fates), p.messages, p.InFlight())
		}
		for id, fate := range p.fates {
			if fate == FateDelivered && !other.seen[id] {
				s.t.Errorf("peer %d: message %d has fate %v, and was not delivered", i, id, fate)
			}
			if other.seen[id] {
				delivered[i]++
				if fate == FateLost {
					presumedLost[i]++
				}
			}
		}
	}
	return delivered, presumedLost
}

func TestFatesOnABadLink(t *testing.T) {
	link := simLink{delay: 40 * time.Millisecond, jitter: 20 * time.Millisecond, loss: 0.2, dup: 0.05}
	for _, limit := range []int{1024, 16384} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			s := newSim(t, connConfig(), link)
			minutes := 10
			if testing.Short() {
				minutes = 1
			}
			var loss float64
			frames := minutes * 60 * 60
			for i := range frames {
				for k, p := range s.peers {
					s.send(k, p.message(1+s.rng.IntN(limit)))
					p.Update(s.time())
				}
				s.advance(time.Second / 60)
				if i >= frames/5 {
					loss += float64(s.peers[0].Stats().PacketLoss) / float64(frames-frames/5)
				}
			}
			s.settle()
			delivered, presumed := s.check()
			t.Logf("loss figure %.2f, delivered %v of %d, presumed lost %v, memory %d", loss, delivered, s.peers[0].messages, presumed, s.peers[0].MemoryUsage())
			lost := 100 * (1 - float64(delivered[0])/float64(s.peers[0].messages))
			if limit <= 1024 && (loss < lost-2 || loss > lost+2) {
				t.Errorf("mean of the loss figure = %.2f, want %.2f within 2", loss, lost)
			}
		})
	}
}

func TestOneWay(t *testing.T) {
	for _, loss := range []float64{0, 0.2} {
		s := newSim(t, connConfig(), simLink{delay: 50 * time.Millisecond, loss: loss})
		for range 60 * 60 {
			for range 1 + s.rng.IntN(8) {
				s.send(0, s.peers[0].message(100))
			}
			for _, p := range s.peers {
				p.Update(s.time())
			}
			s.advance(time.Second / 60)
		}
		s.settle()
		delivered, presumed := s.check()
		t.Logf("loss %v: delivered %d of %d, of them presumed lost %d; loss figure %.2f", loss, delivered[0], s.peers[0].messages, presumed[0], s.peers[0].Stats().PacketLoss)
		if presumed[0]*100 > delivered[0] || loss == 0 && presumed[0] > 0 {
			t.Errorf("loss %v: %d of %d delivered messages were presumed lost", loss, presumed[0], delivered[0])
		}
	}
}

// TestFullSpeed sends a million messages a second with 400 us of round trip.
func TestFullSpeed(t *testing.T) {
	s := newSim(t, connConfig(), simLink{delay: 200 * time.Microsecond})
	a, b := s.peers[0], s.peers[1]
	for i := range 200_000 {
		s.send(0, a.message(8))
		s.advance(time.Microsecond)
		if i%10000 == 0 {
			a.Update(s.time())
			b.Update(s.time())
		}
	}
	t.Logf("sent window %d, received window %d, memory %d and %d, stats %+v", len(a.out.ring), b.in.seen.Track(), a.MemoryUsage(), b.MemoryUsage(), a.Stats())
	s.settle()
	if _, presumed := s.check(); presumed[0] > 0 {
		t.Errorf("%d delivered messages were presumed lost", presumed[0])
	}
	if b.in.seen.Track() < 8192 {
		t.Errorf("the received window has %d sequences, want thousands", b.in.seen.Track())
	}
	for _, p := range s.peers {
		p.Compact(s.time())
		if got := p.MemoryUsage(); got > 1024 {
			t.Errorf("after Compact the endpoint holds %d bytes, want at most 1024", got)
		}
	}
}
