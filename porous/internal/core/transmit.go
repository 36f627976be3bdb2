package core

import "volley/internal/wire"

// A Limit is what keeps a Peer from sending more.
type Limit uint8

const (
	LimitNone      Limit = iota // there is nothing to send
	LimitHandshake              // not connected yet
	LimitWindow                 // the congestion window
	LimitBackoff                // the same, or the pacing rate, as losses have made it
	LimitPacing                 // the pacing rate
	LimitBandwidth              // the bandwidth agreed upon
	LimitFrames                 // the window of frame ids
	LimitPackets                // the peer's window of a channel
	LimitUnread                 // the peer takes nothing of a channel
	LimitSilence                // acknowledgements do not come
)

// Transmit appends up to max frames that may leave now, and reports whether more may.
func (p *Peer) Transmit(now Clock, out *wire.Batch, max int) (more bool) {
	s := &p.send
	if p.state != Connected || p.leaving {
		return false
	}
	s.queue.now = now
	if now >= s.usedAt {
		s.relax(now)
	}
	rate := s.control.Rate()
	if rate > 0 {
		s.pace.refill(now, rate, p.cfg.MTU)
	}
	s.limit = LimitNone
	for n := 0; ; n++ {
		if s.empty() {
			s.sendExtra(now, out)
			s.starve()
			return false
		}
		if n == max {
			return true
		}
		if rate > 0 && !s.pace.ready() && s.probes == 0 {
			s.limited = true // as the pacing rate follows the window
			if s.limit = LimitPacing; rate >= float64(p.bandwidth) {
				s.limit = LimitBandwidth
			}
			return false
		}
		before := out.Size()
		if !s.announce(now, out) && !s.resend(now, out) && !s.fresh(now, out) {
			return false
		}
		s.pace.spend(out.Size() - before)
	}
}

// A Hold says what everything waits for that is to be sent.
type Hold uint8

const (
	NotHeld    Hold = iota // nothing, or not all of it waits
	HeldByPeer             // for a datagram of the peer, or a Tick if that does not come
	HeldByTime             // for a Tick
)

// Held returns what kept Transmit from sending more; another is in vain before that comes.
func (p *Peer) Held() Hold {
	switch p.send.limit {
	case LimitHandshake, LimitWindow, LimitSilence, LimitFrames:
		return HeldByPeer
	case LimitPacing, LimitBandwidth:
		return HeldByTime
	}
	return NotHeld
}

func (s *sending) empty() bool { return s.queue.waits == 0 && s.schedule.empty() }

// starve notes that there is nothing to send, though more might be.
func (s *sending) starve() {
	s.limited = false
	s.limit = s.blocked()
	s.delivery.starve(s.queue.pipe())
}

// blocked returns why there is nothing to send.
func (s *sending) blocked() Limit {
	if s.queue.flying > 0 && s.loss.backoff > 1 {
		return LimitSilence
	}
	for _, ch := range s.channels {
		if ch != nil && ch.head != nil && !ch.ready() {
			return LimitPackets
		}
	}
	return LimitNone
}

// resend sends the first frame that waits, if the congestion window allows (T9).
func (s *sending) resend(now Clock, out *wire.Batch) bool {
	id, f := s.queue.firstWaiting()
	if f == nil {
		return false
	}
	if s.probes == 0 && s.queue.pipe()+f.size > s.control.Window() && s.queue.pipe() > 0 {
		s.windowFull()
		return false
	}
	s.probes = max(0, s.probes-1)
	f.append(id, out)
	if s.twice(f) {
		f.append(id, out)
		s.p.stats.FramesResent++
	}
	s.leave(now, id, f)
	s.p.stats.FramesResent++
	return true
}

// windowFull notes that the congestion window keeps frames from leaving.
func (s *sending) windowFull() {
	s.limit, s.limited = LimitWindow, true
	if s.loss.backoff > 1 {
		s.limit = LimitSilence
	}
}

// sendExtra sends a frame that repeats others, if it is time.
func (s *sending) sendExtra(now Clock, out *wire.Batch) {
	room := min(s.p.cfg.MTU, s.control.Window()-s.queue.flight)
	if id, f := s.extra(now, room); f != nil {
		s.pace.spend(f.size)
		s.sendNew(now, id, f, out)
	}
}

// fresh sends a new frame, if the windows allow.
func (s *sending) fresh(now Clock, out *wire.Batch) bool {
	if s.queue.waits > 0 {
		return false // limit is set: they come first
	}
	if !s.queue.open() {
		s.limit = LimitFrames
		return false
	}
	room := min(s.p.cfg.MTU, s.control.Window()-s.queue.flight)
	if s.probes > 0 {
		room = s.p.cfg.MTU
	}
	ch := s.pick(now)
	switch {
	case ch == nil && s.schedule.empty():
		s.starve()
		return false
	case ch == nil:
		s.limit = LimitUnread
		return false
	case DataHeaderSize+ch.nextSize() > room:
		s.windowFull()
		return false
	}
	s.send(now, out, ch, room)
	s.probes = max(0, s.probes-1)
	return true
}

// announce sends window acknowledgements apart while data waits, or the peer would stop.
func (s *sending) announce(now Clock, out *wire.Batch) bool {
	const least = DataHeaderSize + WindowAckSize
	if len(s.schedule.due) == 0 || !s.queue.open() ||
		s.queue.waits == 0 && s.control.Window()-s.queue.flight >= least {
		return false // fresh has them share a frame with data
	}
	s.send(now, out, s.pick(now), min(s.p.cfg.MTU, DataHeaderSize+len(s.schedule.due)*WindowAckSize))
	return true
}

// send sends a new frame of up to so many bytes, which begins with a channel.
func (s *sending) send(now Clock, out *wire.Batch, ch *sender, size int) {
	id, f := s.queue.add()
	s.fill(now, f, ch, size-DataHeaderSize)
	s.queue.seal(id, f)
	s.sendNew(now, id, f, out)
}

// sendNew sends a frame for the first time.
func (s *sending) sendNew(now Clock, id uint32, f *frame, out *wire.Batch) {
	f.append(id, out)
	s.leave(now, id, f)
	s.p.stats.FramesSent++
}

func (s *sending) leave(now Clock, id uint32, f *frame) {
	f.snapshot = s.delivery.sent(now, s.queue.pipe())
	s.queue.sent(now, id, f)
	s.used = max(s.used, s.queue.flight)
}

// fill takes messages until one does not fit (T1). Untrusted channels share no frame, and in
// that of a choked one, each packet follows the one before.
func (s *sending) fill(now Clock, f *frame, ch *sender, room int) {
	var first *sender // whose data comes first
	for ch != nil && ch.nextSize() <= room {
		if !ch.markDue {
			alone := ch.trust.level != trusted || first != nil && first.trust.level != trusted
			if alone && len(f.parts) > 0 && ch != first {
				break
			}
			if first == nil {
				first = ch
			}
		}
		before := room
		if s.schedule.sole(ch) && ch.trust.level != choked {
			f.parts, room = ch.takeRun(now, f.parts, room)
		}
		if room == before { // else that has taken what comes next, and more
			p := ch.take()
			room -= p.size()
			f.parts = append(f.parts, p)
		}
		s.schedule.spend(ch, before-room)
		if room < WindowAckSize || first != nil && first.trust.level == choked && !first.follows(&f.parts[len(f.parts)-1]) {
			break
		}
		ch = s.pick(now)
	}
	s.schedule.taken()
	if first == nil {
		return
	}
	first.trust.sent(now)
	if first.trust.level == trusted {
		s.repeat(now, f, room)
	}
}
