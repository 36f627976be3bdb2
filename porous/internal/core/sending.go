package core

import "time"

// sending is the sending half of a Peer.
type sending struct {
	p        *Peer
	queue    transfer
	rtt      rtt
	loss     lossDetector
	control  Controller
	pace     pacer
	delivery delivery
	spare    *redundancy // nil without Config.Redundancy
	channels []*sender   // made on first use
	schedule schedule
	number   uint64 // of the last packet
	packets  int    // without a fate
	queued   int    // their bytes, with overhead
	limit    Limit
	limited  bool  // the congestion window, not the application, was the limit
	probes   int8  // frames that may leave whatever the window says
	used     int   // most bytes in flight of the present second
	usedAt   Clock // when that is over
	movedAt  Clock // frames that left before tell no round-trip time

	free     *outgoing // packets to use again
	freeSize int       // bytes of them
}

// PacketOverhead is what a packet counts against the send buffer beside its
// length, in bytes.
const PacketOverhead = 112

func (s *sending) init(p *Peer) {
	s.p = p
	s.limit = LimitHandshake
	s.schedule.share = p.cfg.LowShare
	s.rtt.init(p.cfg.PaperRTT, p.cfg.Step, p.cfg.RTOFloor)
	s.loss.init()
}

func (s *sending) establish(now Clock, first uint32, bandwidth uint64) {
	c := s.p.cfg
	s.queue.init(first, ringFrames(c.SendBuffer, c.SendFrames), c.SentinelFrames)
	s.control = newController(c, first)
	s.control.SetRTT(s.rtt.avg, bandwidth)
	if c.Redundancy {
		s.spare = new(redundancy)
	}
	s.pace = pacer{credit: burstFrames * float64(c.MTU), last: now}
	s.limit = LimitNone
}

// The used part of the window is looked at each second, or timeout if that is longer, so
// that gaps between the bursts of a game are no idleness.
const (
	idleSpan  = time.Second
	idleSpans = 32 // as good as for ever
)

// relax tells the controller how much of the window was used in each past second.
func (s *sending) relax(now Clock) {
	span := max(idleSpan, s.rtt.rto())
	for range idleSpans {
		if now < s.usedAt {
			return
		}
		s.control.HandleIdle(s.used)
		s.used = s.queue.flight
		s.usedAt += span
	}
	s.usedAt = now + span
}

func (s *sending) channel(n int) *sender {
	if s.channels == nil {
		s.channels = make([]*sender, s.p.cfg.Channels)
	}
	if s.channels[n] == nil {
		c := s.p.cfg
		s.channels[n] = new(sender)
		s.channels[n].init(n, FragmentSize(c.MTU), c.Packets, c.SendGroup)
	}
	return s.channels[n]
}

// Room reports whether n bytes fit a channel's share. One packet always does.
func (p *Peer) Room(channel, n int) bool {
	one, limit := p.send.share(channel)
	return one == 0 || one+n+PacketOverhead <= limit
}

// Roomy reports whether a channel has room for more than the next few packets.
func (p *Peer) Roomy(channel int) bool {
	one, limit := p.send.share(channel)
	return one <= limit-limit/4
}

// share returns what a channel has of the send buffer, and how much it may have.
func (s *sending) share(channel int) (one, limit int) {
	if channel < len(s.channels) && s.channels[channel] != nil {
		one = s.channels[channel].queued
	}
	return one, bufferShare(s.p.cfg.SendBuffer, s.queued-one, s.p.cfg.Channels)
}

// Send queues a copy of a packet of at most Config.MaxPacket bytes, and returns its number.
// It is not sent after expires (0: never), if reliable only before any of it has left.
// False: there is no room, or the end is near.
func (p *Peer) Send(now Clock, channel int, b []byte, mode Mode, expires Clock) (number uint64, ok bool) {
	if p.state > Connected || p.flushing || !p.Room(channel, len(b)) {
		return 0, false
	}
	s := &p.send
	ch := s.channel(channel)
	o := s.newPacket(b)
	s.number++
	o.ch, o.number, o.mode, o.expires, o.queued = ch, s.number, mode, expires, now
	if len(b) > ch.fragmentSize {
		o.last = uint16((len(b) - 1) / ch.fragmentSize)
	}
	s.packets++
	s.queued += len(b) + PacketOverhead
	ch.queued += len(b) + PacketOverhead
	ch.push(o)
	s.schedule.add(ch)
	return o.number, true
}

// newPacket returns a packet for b, of which everything else is zero.
func (s *sending) newPacket(b []byte) *outgoing {
	o := s.free
	if o == nil {
		o = newOutgoing(len(b))
	} else {
		s.free = o.next
		s.freeSize -= cap(o.data) + PacketOverhead
		data := o.data[:0]
		if cap(data) < len(b) {
			data = make([]byte, 0, roundUp(len(b)))
		}
		*o = outgoing{data: data}
	}
	o.data = append(o.data, b...)
	return o
}

// roundUp returns a capacity for n bytes, so that similar packets share memory.
func roundUp(n int) int {
	c := 64
	for c < n && c < 1<<16 {
		c *= 2
	}
	return max(c, n)
}

// SetPriority makes a channel one of high priority, or one of low.
func (p *Peer) SetPriority(channel int, high bool) {
	if p.state <= Connected {
		p.send.schedule.move(p.send.channel(channel), high)
	}
}

// mark makes a window acknowledgement due.
func (s *sending) mark(channel int, id uint32) {
	ch := s.channel(channel)
	ch.mark = id // only the newest counts (Q8)
	s.schedule.announce(ch)
}

func (s *sending) handleWindowAck(channel int, id uint32) verdict {
	if channel >= len(s.channels) || s.channels[channel] == nil {
		return outOfReach
	}
	ch := s.channels[channel]
	if !ch.handleWindowAck(id) {
		return outOfReach
	}
	s.schedule.add(ch)
	return taken
}

// settlePart learns what became of a part of a frame.
func (s *sending) settlePart(p *part, acked bool) {
	if p.kind != MessageFragment {
		return
	}
	o := p.packet
	if p.copy {
		if acked {
			p.seen()
		}
		return
	}
	if acked || o.seen {
		p.ch.trust.losses, p.ch.trust.level = 0, trusted
	} else if o.mode != Reliable || !p.ch.passed(o.id) {
		o.lost = true
	}
	o.settled++
	s.complete(o)
}

// complete reports a known fate. Behind a missing reliable packet, nothing is delivered.
func (s *sending) complete(o *outgoing) {
	ch := o.ch
	switch {
	case !o.over():
	case o == ch.missing:
		next := o.next
		s.conclude(o)
		for next != nil && (next.over() || next.mode != Reliable) {
			x := next
			if next = x.next; x.over() {
				s.conclude(x)
			}
		}
		ch.missing = next
	case o.lost || ch.missing == nil || o.number < ch.missing.number:
		s.conclude(o)
	}
}

func (s *sending) conclude(o *outgoing) {
	o.ch.remove(o)
	n := len(o.data) + PacketOverhead
	s.packets--
	s.queued -= n
	o.ch.queued -= n
	f := Fate{Number: o.number, Channel: int(o.ch.number), Mode: o.mode, Size: len(o.data), Delivered: !o.lost}
	if f.Delivered {
		f.RTT = max(1, s.queue.now-o.queued)
		s.p.stats.FatesDelivered++
	} else {
		s.p.stats.FatesLost++
	}
	s.recycle(o)
	s.p.h.HandleFate(f)
}

// recycle keeps a packet's memory within the send buffer, so that floods allocate nothing.
func (s *sending) recycle(o *outgoing) {
	n := cap(o.data) + PacketOverhead
	if s.queued+s.freeSize+n > s.p.cfg.SendBuffer {
		return
	}
	o.ch = nil
	o.next, s.free = s.free, o
	s.freeSize += n
}

// giveUp settles what has not been sent of the next packet of a channel.
func (s *sending) giveUp(ch *sender) {
	o := ch.head
	ch.head = o.next
	if o.hasID {
		ch.follow(o)
	}
	o.lost = true
	o.settled += o.fragments() - o.sent
	o.sent = o.fragments()
	s.complete(o)
}

// expire gives up packets at the head of a channel whose time is over.
func (s *sending) expire(now Clock, ch *sender) {
	for ch.head != nil && ch.head.expired(now) {
		s.giveUp(ch)
	}
}

// pick returns the channel that sends next.
func (s *sending) pick(now Clock) *sender {
	for {
		ch := s.schedule.pick(now)
		if ch == nil || ch.markDue || ch.head == nil || !ch.head.expired(now) {
			return ch
		}
		s.expire(now, ch)
	}
}

// idle reports whether all packets have their fate, and all frames are acknowledged.
func (s *sending) idle() bool {
	return s.packets == 0 && s.queue.flight == 0 && s.schedule.empty()
}

// move begins anew on another path: with the first window, and without a round-trip time.
func (s *sending) move(now Clock) {
	s.rtt.init(s.p.cfg.PaperRTT, s.p.cfg.Step, s.p.cfg.RTOFloor)
	s.control = newController(s.p.cfg, uint32(now))
	s.control.SetRTT(s.rtt.avg, s.p.bandwidth)
	s.pace = pacer{credit: burstFrames * float64(s.p.cfg.MTU), last: now}
	s.delivery = delivery{}
	s.loss.backoff, s.loss.failing, s.loss.collapsed = 0, false, false
	s.movedAt, s.used, s.usedAt = now, 0, now
}

func (s *sending) sample(t time.Duration) {
	s.rtt.add(t)
	s.control.SetRTT(s.rtt.avg, s.p.bandwidth)
}

// compact gives memory back that only a busy connection needs.
func (s *sending) compact() {
	s.free, s.freeSize = nil, 0
	if s.spare != nil {
		*s.spare = redundancy{}
	}
	s.queue.shrink()
	for _, ch := range s.channels {
		if ch != nil && len(ch.back) == 0 {
			ch.back = nil
		}
	}
	if s.schedule.empty() {
		s.schedule = schedule{share: s.schedule.share}
	}
}

// release gives everything up. Packets without a fate are lost, unless they can be read.
func (s *sending) release() {
	for _, ch := range s.channels {
		if ch == nil {
			continue
		}
		readable := true // by the peer, if it has arrived
		for o := ch.oldest; o != nil; {
			x := o
			o = x.next
			arrived := x.over() && !x.lost || x.seen
			readable = readable && (arrived || x.mode != Reliable)
			x.lost = !arrived || !readable
			s.conclude(x)
		}
	}
	s.queue, s.spare = transfer{}, nil
	s.channels, s.schedule, s.free, s.freeSize = nil, schedule{}, nil, 0
	s.limit = LimitNone
}
