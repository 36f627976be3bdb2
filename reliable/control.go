package reliable

import "time"

// view returns what acknowledgements depend on.
func (e *Endpoint) view() view {
	s := &e.meter.stats
	return view{&e.in.seen, e.parts.open, s.PacketLoss > lossyPercent, int64(float64(s.RTT) * 1e6)}
}

// ControlDue reports whether a control packet is wanted, and how long it may
// still wait for a message to take its place: with a wait of 0 call SendControl
// now. Nothing is ever wanted with a Config.AckDelay of zero.
//
// An acknowledgement is owed for every message. If the rhythm of this side's
// messages brings the next one within the AckDelay, it waits for that message, and at
// least half the AckDelay. Otherwise it waits for half the AckDelay, or up to
// an eighth more if a message that is to be acknowledged at once is due by then.
// It does not wait in these cases:
//
//   - 16 sequences are to be acknowledged, or 6 if some are missing;
//   - a probe has made a gap;
//   - it measures the round-trip time, about once in 1.4 s.
//
// A probe asks the other side for an acknowledgement, if a message had none for
// longer than usual and no other was sent since. It is never sent before the other
// side has acknowledged anything.
func (e *Endpoint) ControlDue(now time.Time) (wait time.Duration, ok bool) {
	if e.acks.idle(e.out.open) {
		return 0, false
	}
	e.advance(now)
	at, ok := e.acks.due(&e.env, e.view(), e.meter.stats.RTT)
	if e.out.open > 0 && e.Acked() {
		t := e.acks.talk
		if probe, wanted := t.due(t.latest, e.meter.roundTrip(), int64(e.cfg.AckDelay)); wanted && (!ok || probe < at) {
			at, ok = probe, true
		}
	}
	return time.Duration(max(0, at-e.now)), ok
}

// SendControl appends the control packet that ControlDue asks for to out, and
// nothing if there is no memory for it. A probe asks for an acknowledgement: it leaves
// a sequence out, and a gap is always answered.
func (e *Endpoint) SendControl(now time.Time, out *Batch) {
	e.advance(now)
	if !e.out.ensure(&e.env) {
		return
	}
	t := e.acks.open(&e.env, e.in.newest())
	at, owed := e.acks.due(&e.env, e.view(), e.meter.stats.RTT)
	if t.answered(e.now) {
		e.sendEmpty(e.in.headerOf(e.out.nextID, t.anchor), true, out)
	} else if s, late := t.answeredLate(e.now); late {
		e.sendEmpty(e.in.headerOf(e.out.nextID, s), false, out)
	} else {
		if !owed || at > e.now {
			t.probed(e.now)
			e.takesSequence()
			if id, lost := e.out.skip(&e.env); lost {
				e.lost(id)
			}
		}
		e.sendEmpty(e.in.header(e.out.nextID), false, out)
	}
}
