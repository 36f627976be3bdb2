package reliable

import (
	"math"

	"volley/internal/seq"
)

// A model is the endpoint again, written for plainness from docs/reliable.md
// alone: tables that are scanned, nothing kept from one call to the next that
// could be computed. It shares no code with Endpoint but the comparison.
type model struct {
	cfg    Config // without zero fields
	accept bool

	now      float64 // seconds
	next     uint16  // next sequence to send
	sent     modelBuffer[modelSent]
	received modelBuffer[modelReceived]
	parts    modelBuffer[*modelParts]
	acks     []uint16
	history  []float32
	stats    Stats
	counters Counters

	rx []modelPacket // packets given to the callback
}

type modelSent struct {
	at    float64
	bytes int
	acked bool
}

type modelReceived struct {
	at    float64
	bytes int
}

type modelParts struct {
	count  int
	header Header
	size   int // of the header
	data   map[int][]byte
}

type modelPacket struct {
	sequence uint16
	payload  string
}

// A modelBuffer is a sequence buffer: slots by sequence modulo n.
type modelBuffer[T any] struct {
	n     int
	next  uint16
	slots map[int]modelSlot[T]
}

type modelSlot[T any] struct {
	sequence uint16
	value    T
}

func (b *modelBuffer[T]) get(s uint16) (v T, ok bool) {
	slot, ok := b.slots[int(s)%b.n]
	if !ok || slot.sequence != s {
		return v, false
	}
	return slot.value, true
}

func (b *modelBuffer[T]) put(s uint16, v T) {
	if b.slots == nil {
		b.slots = make(map[int]modelSlot[T])
	}
	b.slots[int(s)%b.n] = modelSlot[T]{s, v}
}

func (b *modelBuffer[T]) stale(s uint16) bool { return seq.Less(s, b.next-uint16(b.n)) }

func (b *modelBuffer[T]) forward(s uint16) bool {
	if !seq.Greater(s+1, b.next) {
		return false
	}
	steps := int(s-b.next) + 1
	if steps > b.n {
		b.slots = nil
	}
	for i := range min(steps, b.n) {
		delete(b.slots, (int(b.next)+i)%b.n)
	}
	b.next = s + 1
	return true
}

func newModel(cfg Config) *model {
	cfg.PacketHeaderSize = max(0, cfg.PacketHeaderSize)
	m := &model{cfg: cfg, accept: true}
	m.sent.n, m.received.n, m.parts.n = cfg.SentBuffer, cfg.ReceivedBuffer, cfg.ReassemblyBuffer
	m.history = make([]float32, cfg.RTTHistory)
	for i := range m.history {
		m.history[i] = -1
	}
	return m
}

// send returns the datagrams of a packet, or none.
func (m *model) send(payload []byte) [][]byte {
	if len(payload) > m.cfg.MaxPacketSize {
		m.counters.PacketsTooLargeToSend++
		return nil
	}
	h := Header{Sequence: m.next, Ack: m.received.next - 1}
	for i := range uint16(32) {
		if _, ok := m.received.get(h.Ack - i); ok {
			h.AckBits |= 1 << i
		}
	}
	m.sent.forward(m.next)
	m.sent.put(m.next, modelSent{at: m.now, bytes: m.cfg.PacketHeaderSize + len(payload)})
	m.next++
	m.counters.PacketsSent++
	if len(payload) <= m.cfg.FragmentAbove {
		return [][]byte{append(modelHeader(h), payload...)}
	}
	var datagrams [][]byte
	count := (len(payload) + m.cfg.FragmentSize - 1) / m.cfg.FragmentSize
	for id := range count {
		d := []byte{1, byte(h.Sequence), byte(h.Sequence >> 8), byte(id), byte(count - 1)}
		if id == 0 {
			d = append(d, modelHeader(h)...)
		}
		part := payload[id*m.cfg.FragmentSize:]
		datagrams = append(datagrams, append(d, part[:min(len(part), m.cfg.FragmentSize)]...))
		m.counters.FragmentsSent++
	}
	return datagrams
}

// modelHeader encodes h.
func modelHeader(h Header) []byte {
	b := []byte{0, byte(h.Sequence), byte(h.Sequence >> 8)}
	if d := h.Sequence - h.Ack; d <= 255 {
		b[0] |= 1 << 5
		b = append(b, byte(d))
	} else {
		b = append(b, byte(h.Ack), byte(h.Ack>>8))
	}
	for i := range 4 {
		if x := byte(h.AckBits >> (8 * i)); x != 255 {
			b[0] |= 1 << (1 + i)
			b = append(b, x)
		}
	}
	return b
}

// modelParse reads a header and returns its size, 0 if it cannot be read.
func modelParse(b []byte) (h Header, n int) {
	if len(b) < 3 || b[0]&1 != 0 {
		return h, 0
	}
	h.Sequence = uint16(b[1]) + 256*uint16(b[2])
	n = 5
	if b[0]&(1<<5) != 0 {
		n = 4
	}
	need := n
	for i := range 4 {
		need += int(b[0]>>(1+i)) & 1
	}
	if len(b) < need {
		return h, 0
	}
	if n == 4 {
		h.Ack = h.Sequence - uint16(b[3])
	} else {
		h.Ack = uint16(b[3]) + 256*uint16(b[4])
	}
	for i := range 4 {
		x := uint32(255)
		if b[0]&(2<<i) != 0 {
			x = uint32(b[n])
			n++
		}
		h.AckBits |= x << (8 * i)
	}
	return h, n
}

func (m *model) receive(d []byte) {
	switch {
	case len(d) > m.cfg.MaxPacketSize+14:
		m.counters.PacketsTooLargeToReceive++
	case len(d) > 0 && d[0]&1 == 1:
		m.receiveFragment(d)
	default:
		m.counters.PacketsReceived++
		h, n := modelParse(d)
		if n == 0 {
			m.counters.PacketsInvalid++
			return
		}
		m.receivePacket(h, d[n:], len(d))
	}
}

func (m *model) receivePacket(h Header, payload []byte, size int) {
	if len(payload) > m.cfg.MaxPacketSize {
		m.counters.PacketsTooLargeToReceive++
		return
	}
	if m.received.stale(h.Sequence) {
		m.counters.PacketsStale++
		return
	}
	if _, ok := m.received.get(h.Sequence); ok {
		m.counters.PacketsDuplicate++
		return
	}
	m.rx = append(m.rx, modelPacket{h.Sequence, string(payload)})
	if !m.accept {
		return
	}
	m.received.forward(h.Sequence)
	m.received.put(h.Sequence, modelReceived{m.now, m.cfg.PacketHeaderSize + size})
	m.parts.forward(h.Sequence)
	for i := range uint16(32) {
		s := h.Ack - i
		p, ok := m.sent.get(s)
		if h.AckBits&(1<<i) == 0 || !ok || p.acked || len(m.acks) >= m.cfg.AckBuffer {
			continue
		}
		m.acks = append(m.acks, s)
		m.counters.PacketsAcked++
		m.sample(s, float32((m.now-p.at)*1000))
		p.acked = true
		m.sent.put(s, p)
	}
}

func (m *model) sample(s uint16, ms float32) {
	m.history[int(s)%len(m.history)] = ms
	if m.stats.RTT == 0 && ms > 0 || math.Abs(float64(m.stats.RTT-ms)) < 0.00001 {
		m.stats.RTT = ms
	} else {
		m.stats.RTT += (ms - m.stats.RTT) * m.cfg.RTTSmoothing
	}
}

// modelFragment reads a fragment; ok is false if it is to be refused.
func (m *model) modelFragment(d []byte) (s uint16, id, count int, h Header, n int, data []byte, ok bool) {
	if len(d) < 5 || d[0] != 1 {
		return
	}
	s, id, count = uint16(d[1])+256*uint16(d[2]), int(d[3]), int(d[4])+1
	if count > m.cfg.MaxFragments || id >= count {
		return
	}
	data = d[5:]
	if id == 0 {
		if h, n = modelParse(data); n == 0 || h.Sequence != s || string(modelHeader(h)) != string(data[:n]) {
			return
		}
		data = data[n:]
	}
	ok = len(data) == m.cfg.FragmentSize || len(data) < m.cfg.FragmentSize && id == count-1
	return
}

func (m *model) receiveFragment(d []byte) {
	s, id, count, h, n, data, ok := m.modelFragment(d)
	if !ok {
		m.counters.FragmentsInvalid++
		return
	}
	if _, ok := m.received.get(s); ok {
		return
	}
	p, open := m.parts.get(s)
	if !open {
		if !m.parts.forward(s) && m.parts.stale(s) {
			m.counters.FragmentsInvalid++
			return
		}
		p = &modelParts{count: count, data: make(map[int][]byte)}
		m.parts.put(s, p)
		m.received.forward(s)
	}
	if p.count != count {
		m.counters.FragmentsInvalid++
		return
	}
	if _, ok := p.data[id]; ok {
		return
	}
	p.data[id] = append([]byte{}, data...)
	if id == 0 {
		p.header, p.size = h, n
	}
	if len(p.data) == count {
		m.complete(s, p)
	}
	m.counters.FragmentsReceived++
}

func (m *model) complete(s uint16, p *modelParts) {
	var payload []byte
	for id := range p.count {
		payload = append(payload, p.data[id]...)
	}
	if p.size+len(payload) > m.cfg.MaxPacketSize+14 {
		m.counters.PacketsTooLargeToReceive++
	} else {
		m.counters.PacketsReceived++
		m.receivePacket(p.header, payload, p.size+len(payload))
	}
	if q, ok := m.parts.get(s); ok && q == p {
		delete(m.parts.slots, int(s)%m.parts.n)
	}
}

func (m *model) update(now float64) {
	m.now = now
	m.updateRTT()
	var sent, acked, received modelSpan
	present, lost := 0, 0
	for i := range m.sent.n / 2 {
		if p, ok := m.sent.get(m.sent.next - uint16(m.sent.n) + uint16(i)); ok {
			present++
			sent.add(p.at, p.bytes)
			if p.acked {
				acked.add(p.at, p.bytes)
			} else {
				lost++
			}
		}
	}
	for i := range m.received.n / 2 {
		if p, ok := m.received.get(m.received.next - uint16(m.received.n) + uint16(i)); ok {
			received.add(p.at, p.bytes)
		}
	}
	if present == 0 {
		m.stats.PacketLoss = 0
	} else {
		modelSmooth(&m.stats.PacketLoss, float32(lost)/float32(present)*100, m.cfg.LossSmoothing)
	}
	sent.figure(&m.stats.SentBandwidth, m.cfg.BandwidthSmoothing)
	acked.figure(&m.stats.AckedBandwidth, m.cfg.BandwidthSmoothing)
	received.figure(&m.stats.ReceivedBandwidth, m.cfg.BandwidthSmoothing)
}

func (m *model) updateRTT() {
	var least, most, sum float32 = 10000, 0, 0
	n := 0
	for _, x := range m.history {
		if x >= 0 {
			least, most, sum, n = min(least, x), max(most, x), sum+x, n+1
		}
	}
	s := &m.stats
	s.RTTMin, s.RTTMax, s.RTTAvg, s.JitterAvg, s.JitterMax, s.JitterStddev = 0, 0, 0, 0, 0, 0
	if n == 0 {
		return
	}
	if least < 10000 {
		s.RTTMin = least
	}
	s.RTTMax, s.RTTAvg = most, sum/float32(n)
	var jitter, squares float64
	for _, x := range m.history {
		if x >= 0 {
			jitter += float64(x - s.RTTMin)
			squares += float64(x-s.RTTAvg) * float64(x-s.RTTAvg)
			s.JitterMax = max(s.JitterMax, x-s.RTTMin)
		}
	}
	s.JitterAvg = float32(jitter / float64(n))
	s.JitterStddev = float32(math.Sqrt(squares / float64(n)))
}

// A modelSpan is the bytes and times of some packets.
type modelSpan struct {
	n, bytes         int
	earliest, latest float64
}

func (s *modelSpan) add(at float64, bytes int) {
	if s.n == 0 {
		s.earliest, s.latest = at, at
	}
	s.n++
	s.bytes += bytes
	s.earliest, s.latest = min(s.earliest, at), max(s.latest, at)
}

func (s *modelSpan) figure(v *float32, factor float32) {
	if s.latest > s.earliest {
		modelSmooth(v, float32(float64(s.bytes)*8/1000/(s.latest-s.earliest)), factor)
	}
}

func modelSmooth(v *float32, x, factor float32) {
	if math.Abs(float64(*v-x)) > 0.00001 {
		*v += (x - *v) * factor
	} else {
		*v = x
	}
}
