package core

import "time"

// Stats tells what a Peer has done and how it stands.
type Stats struct {
	// Datagrams: all, those that are no frame, data frames out of the window
	// or refused for want of room, and those accepted.
	Received, Invalid, OutOfWindow, Refused, Accepted uint64
	// Messages of accepted frames: duplicates, those out of reach of the
	// channel's window or for no channel, contradictory ones, and the first
	// part of each packet that is too large.
	Duplicates, OutOfReach, Malformed, TooLarge uint64
	Delivered                                   uint64 // packets handed over

	// Data frames: new ones, sent again, acknowledged, counted as lost, and
	// those of them that were not. Timeouts without an acknowledgement, and
	// acknowledgements of unknown frames.
	FramesSent, FramesResent, FramesAcked, FramesLost, Spurious, Timeouts, AcksUnknown uint64
	FatesDelivered, FatesLost                                                          uint64

	// The present.
	RTT, RTTVar, RTTMin, RTO time.Duration
	Window, InFlight         int     // bytes
	PacingRate               float64 // bytes/s, 0: none
	Queued, Packets          int     // bytes and number of packets without a fate
	Held                     int     // bytes of received packets that wait for others
	SendBandwidth            uint64  // agreed upon, bytes/s
	Limit                    Limit
}

func (s *Stats) count(v verdict) {
	switch v {
	case duplicate:
		s.Duplicates++
	case outOfReach:
		s.OutOfReach++
	case malformed:
		s.Malformed++
	case tooLarge:
		s.TooLarge++
	}
}

// Stats returns the present figures.
func (p *Peer) Stats() Stats {
	st, s := p.stats, &p.send
	st.RTT, st.RTTVar, st.RTTMin, st.RTO = s.rtt.avg, s.rtt.dev, s.rtt.min, s.rtt.rto()
	if s.control != nil {
		st.Window, st.PacingRate = s.control.Window(), s.control.Rate()
	}
	st.InFlight, st.Queued, st.Packets = s.queue.flight, s.queued, s.packets
	st.Held = p.recv.held
	st.SendBandwidth, st.Limit = p.bandwidth, s.limit
	if p.state == Connected && s.unheeded() {
		st.Limit = LimitSilence
	}
	if (st.Limit == LimitWindow || st.Limit == LimitPacing) && s.control.Reduced() {
		st.Limit = LimitBackoff
	}
	return st
}

// unheeded reports whether nothing was acknowledged for a while, not even empty frames.
func (s *sending) unheeded() bool {
	return s.loss.failing && s.queue.now-s.loss.first >= 3*max(maxProbe, s.rtt.rto())
}

// ChannelStats tells how a channel stands.
type ChannelStats struct {
	Queued int  // bytes of packets without a fate, with overhead
	Held   int  // bytes of received packets that wait for others
	High   bool // priority
	Unread bool // the peer takes nothing of this channel, as if nobody read it there
}

// ChannelStats returns the present figures of a channel.
func (p *Peer) ChannelStats(n int) (st ChannelStats) {
	if n < len(p.send.channels) && p.send.channels[n] != nil {
		ch := p.send.channels[n]
		st.Queued, st.High, st.Unread = ch.queued, ch.high, ch.trust.level == choked && !p.send.unheeded()
	}
	if n < len(p.recv.channels) && p.recv.channels[n] != nil {
		st.Held = p.recv.channels[n].bytes
	}
	return st
}

// Memory returns how many bytes p holds beside packets, about.
func (p *Peer) Memory() int {
	return len(p.send.queue.ring)*frameCost + p.send.queue.parts.bytes() + cap(p.send.queue.scratch)*partCost + p.send.freeSize + p.recv.pool.bytes + cap(p.recv.scratch)
}

// Compact gives memory back that only a busy connection needs. It changes nothing else.
func (p *Peer) Compact() {
	p.send.compact()
	p.recv.compact()
	p.recv.acks.free()
	p.recv.settle()
}

// Flushed reports whether all accepted packets have fates, and nothing is in flight.
func (p *Peer) Flushed() bool { return p.send.idle() }
