package reliable

import "math"

// Stats are the measurements of an Endpoint. They change in Update, and RTT
// with every ack. Their units are those of the C library, whose recorded figures
// they repeat to the bit: milliseconds, percent, and kilobits a second. The figures
// of package volley are in other units.
type Stats struct {
	RTT    float32 // smoothed round-trip time in milliseconds; 0 before the first sample
	RTTMin float32 // least of the newest Config.RTTHistory samples, in milliseconds; 0 if all are 10 s or more
	RTTMax float32 // greatest of them, in milliseconds
	RTTAvg float32 // their mean, in milliseconds

	JitterAvg    float32 // mean excess of the samples over RTTMin, in milliseconds
	JitterMax    float32 // greatest excess over RTTMin, in milliseconds
	JitterStddev float32 // standard deviation of the samples from RTTAvg, in milliseconds

	PacketLoss float32 // smoothed share of the packets sent that were not acknowledged, in percent; with Config.MaxWindow, of those decided last

	SentBandwidth     float32 // payload and lower headers sent, in kilobits per second
	ReceivedBandwidth float32 // packets with lower headers received, in kilobits per second
	AckedBandwidth    float32 // share of SentBandwidth that was acknowledged, in kilobits per second
}

// A meter has the figures of Stats, and what they are made of: round-trip times, and
// the flows of bytes where windows grow. The sums of fixed windows are with those.
type meter struct {
	stats   Stats
	prompts bool   // round-trip times are of acknowledgements that did not wait
	moved   bool   // there is no round-trip time since the other side is reached by another way
	blind   uint16 // so many packets that left first tell none; with moved, those before this sequence
	rtt     rttHistory
	flows   *flows // nil before the first packet, and without Config.MaxWindow
	updated int64  // time of the last Update
}

// flowing returns the flows, which it makes if there are none.
func (m *meter) flowing(g *env) *flows {
	if m.flows == nil {
		now := uint32(g.now >> flowShift)
		f := flow{last: now, marks: [3]uint32{now, now, now}}
		m.flows = &flows{f, f, f}
		g.hold(flowsSize)
	}
	return m.flows
}

func (m *meter) freeFlows(g *env) {
	if m.flows != nil {
		m.flows = nil
		g.hold(-flowsSize)
	}
}

// idle frees what only those who send and receive need. The figures stay.
func (m *meter) idle(g *env) {
	m.updateRTT()
	m.rtt.free(g)
	m.freeFlows(g)
}

// heardFirst notes that the first packet of the other side came when so many had left.
func (m *meter) heardFirst(left uint64) { m.blind = uint16(min(left, math.MaxUint16)) }

// move forgets the round-trip times of a way by which the packets before a sequence have left.
func (m *meter) move(next uint16) {
	m.prompts, m.moved, m.blind = false, true, next
	m.rtt.leave()
	s := &m.stats
	s.RTT, s.RTTMin, s.RTTMax, s.RTTAvg = 0, 0, 0, 0
	s.JitterAvg, s.JitterMax, s.JitterStddev = 0, 0, 0
}

// sample takes the round-trip time of packet s.
func (m *meter) sample(g *env, s uint16, rtt int64) {
	if m.moved {
		m.moved, m.blind = false, 0
	}
	ms := float32(float64(rtt) / 1e6)
	if old := m.stats.RTT; old == 0 && ms > 0 || abs(old-ms) < rttSmallChange {
		m.stats.RTT = ms
	} else {
		m.stats.RTT += float32(float32(ms-old) * orOff(g.cfg.RTTSmoothing, defaultRTTSmoothing))
	}
	h := &m.rtt
	switch {
	case h.samples == nil && !h.ensure(g):
	case g.grows():
		h.put(h.nextSlot(g), ms)
	default:
		h.put(int(s)%len(h.samples), ms)
	}
}

// blindTo reports whether an acknowledgement of a packet tells no round-trip time.
func (m *meter) blindTo(id, first uint64, prompt bool) bool {
	if m.moved {
		return int16(uint16(id)-m.blind) < 0
	}
	return !prompt && id-first < uint64(m.blind)
}

// samplePrompt is sample for an acknowledgement that did not wait. The first drops the others.
func (m *meter) samplePrompt(g *env, s uint16, rtt int64) {
	if !m.prompts {
		m.prompts, m.stats.RTT = true, 0
		m.rtt.forget()
	}
	m.sample(g, s, rtt)
}

// roundTrip returns the round-trip time in nanoseconds, a guess if none is known.
func (m *meter) roundTrip() int64 {
	if m.stats.RTT == 0 {
		return probeFirst / 3
	}
	return int64(float64(m.stats.RTT) * 1e6)
}

// oldAge returns the age in ns beyond which an undecided packet counts as lost.
func (m *meter) oldAge() int64 { return max(overdueAge, int64(2e6*m.stats.RTT)) }

// updateRTT brings the figures that rest on the history up to date.
func (m *meter) updateRTT() {
	if !m.rtt.dirty {
		return
	}
	all, s := m.rtt.combine(), &m.stats
	s.RTTMin, s.RTTMax, s.RTTAvg = all.min, all.max, float32(all.mean)
	if s.RTTMin >= rttNoMin {
		s.RTTMin = 0
	}
	s.JitterAvg = float32(all.mean - float64(s.RTTMin))
	s.JitterMax = s.RTTMax - s.RTTMin
	s.JitterStddev = float32(math.Sqrt(max(0, all.m2) / float64(all.n)))
}

// A span is a sum of bytes with the times of its first and last packet, if any.
type span struct {
	bytes, earliest, latest int64
	some                    bool
}

func (s *span) add(at int64, bytes uint32) {
	if !s.some {
		s.some, s.earliest = true, at
	}
	s.bytes += int64(bytes)
	s.earliest, s.latest = min(s.earliest, at), max(s.latest, at)
}

// smoothing returns how far this update moves the loss and the bandwidths.
func (m *meter) smoothing(g *env) (loss, bandwidth float32) {
	times := 1.0
	if g.cfg.SmoothingInterval != 0 {
		times = float64(g.now-m.updated) / float64(g.cfg.SmoothingInterval)
	}
	return rescaled(orOff(g.cfg.LossSmoothing, defaultLossSmoothing), times),
		rescaled(orOff(g.cfg.BandwidthSmoothing, defaultBandwidthSmoothing), times)
}

// rescaled returns the smoothing factor that has the effect of f applied times times.
func rescaled(f float32, times float64) float32 {
	if times == 1 {
		return f
	}
	return float32(1 - math.Pow(1-float64(f), times))
}

// update brings the figures up to date where windows are fixed: lost is the share of
// the packets sent that were, and the spans are what was sent, acknowledged and received.
func (m *meter) update(g *env, lost float32, sent, acked, received span) {
	m.updateRTT()
	loss, bandwidth := m.smoothing(g)
	if m.updated = g.now; sent.some {
		smooth(&m.stats.PacketLoss, lost, loss)
	} else {
		m.stats.PacketLoss = 0
	}
	smoothSpan(&m.stats.SentBandwidth, sent, bandwidth)
	smoothSpan(&m.stats.AckedBandwidth, acked, bandwidth)
	smoothSpan(&m.stats.ReceivedBandwidth, received, bandwidth)
}

func (m *meter) updateGrowing(g *env, lost float32) {
	m.updateRTT()
	loss, bandwidth := m.smoothing(g)
	m.updated = g.now
	smooth(&m.stats.PacketLoss, lost, loss)
	var sent, acked, received float32
	if f := m.flows; f != nil {
		sent, acked, received = f.sent.rate(g.now), f.acked.rate(g.now), f.received.rate(g.now)
	}
	smooth(&m.stats.SentBandwidth, sent, bandwidth)
	smooth(&m.stats.AckedBandwidth, acked, bandwidth)
	smooth(&m.stats.ReceivedBandwidth, received, bandwidth)
}

// smooth moves *v towards x.
func smooth(v *float32, x, factor float32) {
	if abs(*v-x) > 0.00001 {
		*v += float32(float32(x-*v) * factor)
	} else {
		*v = x
	}
}

// smoothSpan moves *v towards the rate of a span that has one.
func smoothSpan(v *float32, s span, factor float32) {
	if s.latest > s.earliest {
		seconds := float64(s.latest-s.earliest) / 1e9
		smooth(v, float32(float64(s.bytes)*8/1000/seconds), factor)
	}
}
