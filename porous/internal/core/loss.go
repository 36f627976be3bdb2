package core

import "time"

// A frame is lost when three that were sent later have arrived, or one of them and some
// time has passed (R1). Last comes the timeout (T10), which doubles each time it is in
// vain and sends only two frames, to learn whether the peer is there (R3). As an option
// the timeout alone decides, as in the paper.

const (
	lossOrder    = 3  // later frames acknowledged
	maxLossOrder = 64 // what that may grow to where frames overtake each other
	probeFrames  = 2
	maxBackoff   = 16
)

// A lossDetector is the state of what finds losses.
type lossDetector struct {
	order     uint64  // transmission number of the newest acknowledged frame
	reorder   uint64  // later frames after which one is lost
	timeoutAt Clock   // time of the last timeout
	first     Clock   // time of the first loss or timeout without an acknowledgement since
	share     float64 // of frames that were lost at first, averaged
	backoff   uint8   // timeouts in a row
	noted     uint8   // the first frames that share knows of
	recent    int     // frames for which the last loss is still remembered
	before    int     // the same, when that had not happened
	failing   bool    // there was a loss or timeout without an acknowledgement since
	collapsed bool    // the controller was told
}

func (d *lossDetector) init() { *d = lossDetector{reorder: lossOrder, share: firstLoss} }

// receiveDataAck handles acknowledgements of our frames.
func (p *Peer) receiveDataAck(now Clock, b []byte) bool {
	list, ok := ParseDataAck(b)
	if !ok || p.state != Connected {
		return ok
	}
	s := &p.send
	if len(list) == 0 && p.flushing && p.vainAt == 0 {
		p.vainAt = now + s.rtt.rto() // acknowledgements may be on their way
	}
	s.queue.now = now
	a := Ack{Now: now, InFlight: s.queue.flight}
	var newest uint64 // transmission
	var single bool   // it was the only one of its frame
	var then snapshot // as it left
	for len(list) > 0 {
		var id uint32
		id, list = FrameID(list)
		f := s.queue.get(id)
		if f == nil || f.sends == 0 {
			p.stats.AcksUnknown++
			continue
		}
		if f.order > newest {
			newest, single, then, a.SentAt = f.order, f.sends == 1, f.snapshot, f.sentAt
		}
		s.spurious(now, f)
		s.loss.note(f, false)
		a.Bytes += f.size
		a.Frames++
		s.queue.ack(f, s)
	}
	if a.Frames == 0 {
		return true
	}
	p.stats.FramesAcked += uint64(a.Frames)
	s.delivery.bytes += uint64(a.Bytes)
	s.delivery.at = now
	if newest > s.loss.order {
		s.loss.order = newest
		a.Rate, a.Starved = s.delivery.rate(then, a.SentAt, s.rtt.min), then.limited
		if single && a.SentAt >= s.movedAt {
			a.RTT = now - a.SentAt
			s.sample(a.RTT)
		}
	}
	s.loss.backoff, s.loss.failing, s.loss.collapsed = 0, false, false
	a.Limited = s.limited || 2*a.InFlight >= s.control.Window()
	s.control.HandleAck(a)
	s.detect(now)
	return true
}

// spurious finds acknowledged frames that counted as lost: the resend's answer was too soon (R8).
func (s *sending) spurious(now Clock, f *frame) {
	if !f.lost {
		return
	}
	waiting := f.state == frameWaiting
	if !waiting && now-f.sentAt >= s.rtt.min*3/4 {
		return
	}
	if f.sends == 1 || f.sends == 2 && !waiting { // the first transmission had counted as lost
		s.loss.undo()
	}
	s.p.stats.Spurious++
	if !f.early {
		s.loss.reorder = min(s.loss.reorder*2, maxLossOrder)
		s.control.HandleSpurious(now, f.firstAt)
	}
}

// detect finds the frames that are lost by now.
func (s *sending) detect(now Clock) {
	if s.p.cfg.TimeoutOnly {
		return
	}
	l := Loss{RTO: s.rtt.rto(), InFlight: s.queue.flight, Thin: s.thin()}
	for {
		id, f := s.queue.oldest()
		if f == nil || !s.overdue(now, f) {
			break
		}
		s.lose(now, id, f, &l)
	}
	s.report(now, l)
}

// overdue reports whether a flying frame is lost (R1).
func (s *sending) overdue(now Clock, f *frame) bool {
	return f.order+s.loss.reorder <= s.loss.order ||
		f.order < s.loss.order && now-f.sentAt >= s.rtt.lossDelay()
}

func (s *sending) lose(now Clock, id uint32, f *frame, l *Loss) {
	s.p.stats.FramesLost++
	s.loss.note(f, true)
	if s.suspect(now, id, f, l.RTO, 1) {
		return
	}
	l.Bytes += f.size
	l.Frames++
	l.SentAt = max(l.SentAt, f.sentAt)
	if s.queue.drop(id, f, s) {
		f.lost, f.early = true, false
	}
}

func (s *sending) report(now Clock, l Loss) {
	if l.Bytes == 0 {
		return
	}
	if !s.loss.failing {
		s.loss.failing, s.loss.first = true, now
	}
	l.First = s.loss.first
	s.control.HandleLoss(now, l)
}

// suspect counts a loss for the channels of a frame, and takes back the messages of
// those that are not trusted. It reports whether the loss says nothing about the network.
func (s *sending) suspect(now Clock, id uint32, f *frame, rto time.Duration, n int) bool {
	var last *sender
	doubtful, fragments := 0, 0
	for i := range f.parts {
		p := &f.parts[i]
		if p.kind != MessageFragment || p.copy {
			continue
		}
		fragments++
		if p.ch != last {
			last = p.ch
			last.trust.lost(now, rto, n)
		}
		if last.trust.level != trusted {
			doubtful++
		}
	}
	if doubtful == 0 {
		return false
	}
	s.takeBack(now, id, f)
	return doubtful == fragments
}

// takeBack empties a lost frame: its reliable messages go into other ones.
func (s *sending) takeBack(now Clock, id uint32, f *frame) {
	for i := range f.parts {
		if p := &f.parts[i]; p.reliable && !p.done(now) {
			if p.kind == MessageWindowAck {
				s.schedule.announce(p.ch)
			} else {
				p.ch.restore(*p)
				s.schedule.add(p.ch)
			}
			p.reliable, p.kind, p.packet = false, MessageWindowAck, nil // not to be settled
		}
	}
	f.sentinel = true
	s.queue.drop(id, f, s)
}

// timeout handles the timeout of the oldest frame.
func (s *sending) timeout(now Clock) {
	s.p.stats.Timeouts++
	l := Loss{RTO: s.rtt.rto(), InFlight: s.queue.flight}
	if s.p.cfg.TimeoutOnly {
		l.SentAt = now
		if s.queue.expire(now, l.RTO, s) {
			l.Bytes = 1
		}
		s.report(now, l)
		return
	}
	// A peer that was heard since the last timeout, and acknowledges nothing, refuses
	// what we send.
	suspects := 0
	if s.loss.backoff > 0 && s.p.lastHeard > s.loss.timeoutAt {
		suspects = probeFrames
	}
	s.loss.timeoutAt = now
	s.loss.backoff = min(s.loss.backoff+1, maxBackoff)
	if !s.loss.failing {
		s.loss.failing, s.loss.first = true, now
	}
	if now-s.loss.first >= resetFactor*l.RTO && !s.loss.collapsed {
		s.loss.collapsed = true
		s.control.HandleTimeout(now)
	}
	s.probes = 0
	for left := s.queue.flying; left > 0 && s.probes < probeFrames; left-- {
		id, f := s.queue.oldest()
		if f == nil || now-f.sentAt < l.RTO {
			break
		}
		s.p.stats.FramesLost++
		suspects--
		if suspects >= 0 && s.suspect(now, id, f, l.RTO, perTimeout) || s.queue.drop(id, f, s) {
			s.probes++
		} else {
			l.Bytes += f.size
			l.Frames++
			l.SentAt = max(l.SentAt, f.sentAt)
		}
	}
	if s.probes == 0 && !s.schedule.empty() {
		s.probes = 1 // something new tells as much
	}
	s.report(now, l)
}

// timeoutDue returns when the timeout of the oldest frame comes; false: none flies.
func (s *sending) timeoutDue() (Clock, bool) {
	_, f := s.queue.oldest()
	if f == nil {
		return 0, false
	}
	rto, from := s.rtt.rto(), f.sentAt
	if s.loss.backoff > 0 {
		from = max(from, s.loss.timeoutAt)
	}
	return from + min(rto<<s.loss.backoff, max(rto, s.p.cfg.MaxTimeout)), true
}

// alive learns that the peer has answered a ping, so that the next timeout may come soon.
func (s *sending) alive() { s.loss.backoff = min(s.loss.backoff, 1) }

// tick does what is due by time.
func (s *sending) tick(now Clock) {
	s.queue.now = now
	s.detect(now)
	s.resendEarly(now)
	if at, ok := s.timeoutDue(); ok && now >= at {
		s.timeout(now)
	}
}

// minWait keeps timers from firing more often than they can.
const minWait = 500 * time.Microsecond

// nextAt returns when there is something to do by time alone.
func (s *sending) nextAt(now Clock) Clock {
	at := Clock(1<<63 - 1)
	if t, ok := s.timeoutDue(); ok {
		at = t
		if _, f := s.queue.oldest(); f.order < s.loss.order && !s.p.cfg.TimeoutOnly {
			at = min(at, f.sentAt+s.rtt.lossDelay())
		}
	}
	if t, ok := s.earlyAt(); ok {
		at = min(at, t)
	}
	if s.spare != nil && s.spare.extraAt != 0 && s.empty() && !s.p.leaving { // else Transmit would not look at it
		at = min(at, s.spare.extraAt)
	}
	soonest := now + minWait
	switch s.limit {
	case LimitPacing, LimitBandwidth:
		soonest = now + max(minWait, s.pace.wait(s.control.Rate()))
		at = min(at, soonest)
	}
	if t := s.schedule.probeAt(); t != 0 {
		at = min(at, max(t, soonest)) // a probe does not leave before its credit
	}
	return at
}
