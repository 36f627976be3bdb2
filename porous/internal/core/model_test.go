package core

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// A naiveReceiver is the sequencing layer of the protocol page, rule by rule,
// without regard for speed or memory.
type naiveReceiver struct {
	window, group, size, base uint32
	queue                     map[uint32]*naivePacket
}

type naivePacket struct {
	lead      uint16
	last      int // -1: no fragment yet
	fragments map[uint16]string
	sentinel  bool
}

// ahead returns the distance from the base.
func (r *naiveReceiver) ahead(id uint32) int {
	return int((id + packetIDs - r.base) % packetIDs)
}

func (r *naiveReceiver) receive(m *Message) {
	if r.ahead(m.Packet) >= int(r.window) {
		return
	}
	if m.Type == MessageFragment {
		if m.Fragment > m.Last || len(m.Data) > int(r.size) || m.Fragment < m.Last && len(m.Data) != int(r.size) {
			return
		}
	}
	p := r.queue[m.Packet]
	if p == nil {
		p = &naivePacket{lead: m.Lead, last: -1, fragments: map[uint16]string{}}
	}
	if p.lead != m.Lead {
		return
	}
	if m.Type == MessageSentinel {
		p.sentinel = true
	} else {
		if p.last >= 0 && p.last != int(m.Last) {
			return
		}
		p.last = int(m.Last)
		if _, ok := p.fragments[m.Fragment]; !ok {
			p.fragments[m.Fragment] = string(m.Data)
		}
	}
	r.queue[m.Packet] = p
}

func (r *naiveReceiver) ids() (ids []uint32) {
	for id := range r.queue {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uint32) int { return r.ahead(a) - r.ahead(b) })
	return ids
}

func (r *naiveReceiver) consume(id uint32) {
	to := (id + 1) % packetIDs
	for other := range r.queue {
		if r.ahead(other) <= r.ahead(id) {
			delete(r.queue, other)
		}
	}
	r.base = to
}

// deliver returns what the application gets, and the ids it acknowledges.
func (r *naiveReceiver) deliver() (packets []string, acks []uint32) {
	old := r.base
	for r.once(&packets) {
	}
	for id := old; id != r.base; id = (id + 1) % packetIDs {
		if id%r.group == r.group-1 {
			acks = append(acks, id)
		}
	}
	return packets, acks
}

func (r *naiveReceiver) once(packets *[]string) bool {
	ids := r.ids()
	for _, id := range ids {
		p := r.queue[id]
		if p.lead > 0 && r.ahead(id) >= int(p.lead) {
			return false
		}
		if p.last >= 0 && len(p.fragments) == p.last+1 {
			whole := ""
			for i := range p.fragments {
				_ = i
			}
			for i := 0; i <= p.last; i++ {
				whole += p.fragments[uint16(i)]
			}
			*packets = append(*packets, whole)
			r.consume(id)
			return true
		}
		if p.sentinel && r.ahead(ids[len(ids)-1])-r.ahead(id) >= int(r.window-r.group) {
			r.consume(id)
			return true
		}
	}
	return false
}

// TestModelReceiver gives the same random messages to a receiver and to the
// naive one (Q5, Q6). Ids, dependencies, sizes and numbers contradict each other
// often.
func TestModelReceiver(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		window := []uint32{4, 16, 24, 300, 1024}[rng.IntN(5)]
		group := []uint32{2, 4, 8, 4, 128}[slices.Index([]uint32{4, 16, 24, 300, 1024}, window)]
		first := uint32(rng.IntN(packetIDs))
		if rng.IntN(2) == 0 {
			first = packetIDs - uint32(rng.IntN(int(3*window)))
		}
		first %= packetIDs
		var a pool
		var r receiver
		r.init(&a, 4, 1<<20, window, group, first)
		naive := naiveReceiver{window: window, group: group, size: 4, base: first, queue: map[uint32]*naivePacket{}}
		for op := range 5000 {
			if rng.IntN(5) == 0 {
				want, acks := naive.deliver()
				old := r.base
				var got []string
				for e := r.scan(); e != nil; e = r.scan() {
					s := ""
					for _, p := range e.pieces {
						s += string(p.data)
					}
					got = append(got, s)
					r.advance(nextPacket(e.id))
				}
				require.Equal(t, want, got, "seed %d, operation %d", seed, op)
				require.Equal(t, naive.base, r.base, "seed %d, operation %d", seed, op)
				require.Equal(t, len(naive.queue), r.count, "seed %d, operation %d", seed, op)
				id, ok := r.due(old)
				if require.Equal(t, len(acks) > 0, ok); ok {
					require.Equal(t, acks[len(acks)-1], id)
				}
				continue
			}
			m := randomMessage(rng, naive.base, window)
			naive.receive(&m)
			if m.Type == MessageSentinel {
				r.sentinel(&m)
			} else if r.check(&m) == taken {
				r.fragment(&m)
			}
		}
		r.reset()
		require.Zero(t, r.bytes)
		require.Nil(t, r.dir)
	}
}

// randomMessage returns a message for ids near the base. The same id mostly
// has the same properties.
func randomMessage(rng *rand.Rand, base, window uint32) Message {
	span := int(window) + 4
	if rng.IntN(3) > 0 {
		span = min(span, 12)
	}
	m := Message{Packet: (base + uint32(rng.IntN(span)) + packetIDs - 1) % packetIDs}
	h := m.Packet * 2654435761
	if rng.IntN(20) == 0 {
		h = rng.Uint32()
	}
	if m.Lead = uint16(h>>3) % 4; h>>20&7 == 0 {
		m.Lead = uint16(h>>5) % uint16(window)
	}
	if rng.IntN(8) == 0 {
		m.Type = MessageSentinel
		return m
	}
	m.Last = uint16(h>>11) % 3
	m.Fragment = uint16(rng.IntN(int(m.Last) + 1))
	n := 4
	if m.Fragment == m.Last {
		n = int(h>>15) % 5
	}
	if rng.IntN(30) == 0 {
		n = rng.IntN(6)
	}
	if rng.IntN(30) == 0 {
		m.Fragment++
	}
	m.Data = binary.BigEndian.AppendUint64(nil, rng.Uint64())[:n]
	return m
}

// A promise is what the model knows of one direction of a channel.
type promise struct {
	modes     []Mode
	delivered []bool
	over      []bool // its fate is Lost: for a reliable one, its time was over before it was sent
	last      int    // the last one delivered
}

// deliver notes a packet, and returns what is wrong with that.
func (m *promise) deliver(n int) string {
	switch {
	case n >= len(m.modes):
		return "was never sent"
	case m.delivered[n]:
		return "arrives again"
	case n < m.last:
		return "is out of order"
	}
	for i := m.last + 1; i < n; i++ {
		if m.modes[i] == Reliable && !m.delivered[i] && !m.over[i] {
			return "overtakes a reliable one"
		}
	}
	m.delivered[n], m.last = true, n
	return ""
}

// A world is two peers joined by a network that does what it likes, and the
// model of what may come of it.
type world struct {
	t     testing.TB
	rng   *rand.Rand
	now   Clock
	peers [2]*Peer
	model [2][]promise // of what peer i sends, by channel
	wire  [2][][]byte  // on the way to peer i
	sent  [2]map[uint64]*sentPacket
	out   wire.Batch
	loss  int   // percent
	life  Clock // of packets at most; 0: no limit

	unread [2][]int // bytes that nobody has read of what peer i got, by channel
	slow   bool     // else everything is read at once
}

// A sentPacket is one that a peer has accepted.
type sentPacket struct {
	channel, n      int
	fate, delivered bool // it has one, and which
}

// A side is a peer's Handler.
type side struct {
	w *world
	i int
}

func (h *side) HandlePacket(channel int, b []byte) {
	n := int(binary.BigEndian.Uint32(b))
	for i, c := range b[4:] {
		if c != byte(n+i) {
			h.w.t.Fatalf("byte %d of packet %d is damaged", i, n)
		}
	}
	if wrong := h.w.model[1-h.i][channel].deliver(n); wrong != "" {
		h.w.t.Fatalf("packet %d of channel %d towards %d %s", n, channel, h.i, wrong)
	}
	if h.w.slow {
		h.w.unread[h.i][channel] += len(b) + 4
	}
}

func (h *side) HandleFate(f Fate) {
	s := h.w.sent[h.i][f.Number]
	if s == nil || s.fate {
		h.w.t.Fatalf("packet number %d has two fates, or was never sent", f.Number)
	}
	s.fate, s.delivered = true, f.Delivered
	h.w.model[h.i][s.channel].over[s.n] = !f.Delivered
}

func (h *side) HandleEvent(e Event) {
	if e != EventConnect {
		h.w.t.Fatalf("event %d", e)
	}
}

func (h *side) Unread(channel int) (one, all int) {
	for _, n := range h.w.unread[h.i] {
		all += n
	}
	return h.w.unread[h.i][channel], all
}

func newWorld(t testing.TB, seed uint64, cfg *Config) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 2))}
	for i := range w.peers {
		w.peers[i] = new(Peer)
		w.unread[i] = make([]int, cfg.Channels)
		w.peers[i].Init(0, cfg, w.rng.Uint32(), &side{w, i})
		w.sent[i] = map[uint64]*sentPacket{}
		w.model[i] = make([]promise, cfg.Channels)
		for c := range w.model[i] {
			w.model[i][c].last = -1
			w.peers[i].SetPriority(c, c%2 == 1)
		}
	}
	return w
}

// carry puts what peer i has sent on the way.
func (w *world) carry(i int) {
	for j := range w.out.Len() {
		if w.rng.IntN(100) >= w.loss {
			w.wire[1-i] = append(w.wire[1-i], append([]byte(nil), w.out.At(j)...))
		}
	}
	w.out.Reset()
}

func (w *world) send(i int, cfg *Config) {
	channel := w.rng.IntN(cfg.Channels)
	m := &w.model[i][channel]
	size := 4 + w.rng.IntN(60)
	if w.rng.IntN(10) == 0 {
		size = 4 + w.rng.IntN(4*MTU0)
	}
	b := make([]byte, size)
	n := len(m.modes)
	binary.BigEndian.PutUint32(b, uint32(n))
	for i := range b[4:] {
		b[4+i] = byte(n + i)
	}
	mode := Mode(w.rng.IntN(3))
	var expires Clock
	if w.life > 0 {
		expires = w.now + 1 + Clock(w.rng.Int64N(int64(w.life)))
	}
	if number, ok := w.peers[i].Send(w.now, channel, b, mode, expires); ok {
		w.sent[i][number] = &sentPacket{channel: channel, n: n}
		m.modes, m.delivered, m.over = append(m.modes, mode), append(m.delivered, false), append(m.over, false)
	}
}

// op does something at random.
func (w *world) op(cfg *Config) {
	i := w.rng.IntN(2)
	p := w.peers[i]
	if w.slow && w.rng.IntN(50) == 0 {
		w.unread[i][w.rng.IntN(cfg.Channels)] = 0 // somebody reads
	}
	switch w.rng.IntN(10) {
	case 0, 1, 2:
		w.send(i, cfg)
	case 3, 4, 5, 6: // a datagram arrives, mostly one of the oldest
		q := w.wire[i]
		if len(q) == 0 {
			return
		}
		j := w.rng.IntN(min(len(q), 4))
		if w.rng.IntN(20) == 0 {
			j = w.rng.IntN(len(q))
		}
		b := q[j]
		if w.rng.IntN(10) > 0 { // else it comes again
			w.wire[i] = slices.Delete(q, j, j+1)
		}
		p.Receive(w.now, b, &w.out)
		if w.rng.IntN(3) > 0 {
			p.EndBatch(w.now, &w.out)
		}
		w.carry(i)
	case 7:
		w.now += time.Duration(w.rng.IntN(int(8 * time.Millisecond)))
		p.Tick(w.now, &w.out)
		w.carry(i)
	default:
		p.Transmit(w.now, &w.out, 1+w.rng.IntN(8))
		w.carry(i)
	}
}

// settle lets the network recover and everything arrive, as long as something is
// missing. Of channels from first on nothing is read.
func (w *world) settle(cfg *Config, first int, missing func() bool) {
	w.loss = 0
	for step := range 60_000 {
		w.now += time.Millisecond
		for i, p := range w.peers {
			clear(w.unread[i][:first])
			for _, b := range w.wire[i] {
				p.Receive(w.now, b, &w.out)
			}
			w.wire[i] = w.wire[i][:0]
			p.EndBatch(w.now, &w.out)
			p.Tick(w.now, &w.out)
			p.Transmit(w.now, &w.out, 64)
			w.carry(i)
		}
		if step%50 == 0 && !missing() {
			break
		}
	}
}

// flying reports whether a peer has something to send, or it is on its way.
func (w *world) flying() bool {
	return !w.peers[0].Flushed() || !w.peers[1].Flushed() || len(w.wire[0])+len(w.wire[1]) > 0 ||
		w.peers[0].State() != Connected || w.peers[1].State() != Connected
}

// missing reports whether a packet of a channel before last has no fate.
func (w *world) missing(last int) bool {
	for _, sent := range w.sent {
		for _, s := range sent {
			if !s.fate && s.channel < last {
				return true
			}
		}
	}
	return false
}

// check compares what arrived with what was promised.
func (w *world) check(seed uint64) {
	for i, p := range w.peers {
		require.Equal(w.t, Connected, p.State())
		require.True(w.t, p.Flushed(), "seed %d: peer %d has stalled: %+v", seed, i, p.Stats())
		require.Zero(w.t, p.send.queued)
		require.Greater(w.t, len(w.sent[i]), 100)
		for _, s := range w.sent[i] {
			require.True(w.t, s.fate, "seed %d: peer %d: no fate of packet %d of channel %d", seed, i, s.n, s.channel)
			m := &w.model[i][s.channel]
			switch arrived := m.delivered[s.n]; {
			case m.modes[s.n] != Reliable: // Delivered may have come too late, and Lost has arrived when only the acknowledgement was lost
			case arrived != s.delivered:
				w.t.Fatalf("seed %d: reliable packet %d of channel %d: delivered %v, fate %v", seed, s.n, s.channel, arrived, s.delivered)
			case !arrived && w.life == 0:
				w.t.Fatalf("seed %d: reliable packet %d of channel %d did not arrive", seed, s.n, s.channel)
			}
		}
	}
}

// TestModelPeers does a million random operations, with small windows, so that
// sentinels and window acknowledgements matter (Q11, Q12): what is delivered on a
// channel is a part of what was sent, in order, once, with all that is reliable, and
// fates are true. In some worlds packets have a time, in some little is read.
func TestModelPeers(t *testing.T) {
	const worlds, ops = 20, 50_000
	for seed := range uint64(worlds) {
		cfg := DefaultConfig(0)
		cfg.Channels = 3
		cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = 64, 8, 16
		cfg.SendFrames, cfg.ReceiveFrames, cfg.SentinelFrames = 128, 256, 64
		cfg.Watchdog, cfg.HandshakeTimeout = time.Hour, time.Hour
		cfg.SendBuffer = 64 << 10
		if seed%4 == 3 {
			cfg.Controller, cfg.TimeoutOnly, cfg.PaperRTT, cfg.AckRepeats = Paper, true, true, 0
		}
		cfg.MaxPacket = 4*MTU0 + 4
		slow := seed%5 > 2 && cfg.Controller != Paper // which does not tell losses from refusals
		if slow {
			cfg.ReceiveBuffer = 3 * MinReceiveBuffer(&cfg)
		}
		w := newWorld(t, seed, &cfg)
		w.settle(&cfg, cfg.Channels, w.flying)
		w.loss = []int{0, 5, 20, 50}[seed%4]
		w.slow = slow
		if seed%3 == 2 {
			w.life = ms(200)
		}
		for range ops {
			w.op(&cfg)
			if w.slow {
				for i, p := range w.peers {
					_, unread := (&side{w, i}).Unread(0)
					require.LessOrEqual(t, p.recv.held+unread, cfg.ReceiveBuffer+cfg.Channels*MinReceiveBuffer(&cfg))
				}
			}
		}
		if w.slow { // Q1: what nobody reads on one channel stalls no other one
			w.settle(&cfg, 2, func() bool { return w.missing(2) })
			require.False(t, w.missing(2), "seed %d: stalled: %+v %+v", seed, w.peers[0].Stats(), w.peers[1].Stats())
		}
		w.settle(&cfg, cfg.Channels, w.flying)
		w.check(seed)
	}
}
