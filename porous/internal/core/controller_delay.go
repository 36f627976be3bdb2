package core

import "time"

// delays are samples of the round-trip time, round by round: a round ends with the
// first acknowledgement of a frame that was sent after it began.
type delays struct {
	least      time.Duration // of the last ten seconds or so; 0: unknown
	next       time.Duration // of the present such span
	nextAt     Clock         // when that began
	round      time.Duration // least of the present round; 0: none
	last       time.Duration // of the round before
	roundAt    Clock
	rounds     uint64
	samples    int // of the present round
	lastSample time.Duration
}

// leastSpan is how long the least round-trip time counts at least: routes change.
const leastSpan = 10 * time.Second

// ack takes what an acknowledgement tells, and reports whether a round has ended.
func (d *delays) ack(a Ack) (ended bool) {
	if a.SentAt >= d.roundAt {
		ended = true
		d.rounds++
		d.roundAt = a.Now
		d.last, d.round, d.samples = d.round, 0, 0
	}
	if a.RTT <= 0 {
		return ended
	}
	d.lastSample = a.RTT
	d.samples++
	if d.round == 0 || a.RTT < d.round {
		d.round = a.RTT
	}
	if a.Now-d.nextAt >= leastSpan {
		d.least, d.next, d.nextAt = d.next, 0, a.Now
	}
	if d.next == 0 || a.RTT < d.next {
		d.next = a.RTT
	}
	if d.least == 0 || a.RTT < d.least {
		d.least = a.RTT
	}
	return ended
}

// queued reports whether frames queue: the latest took an eighth longer than the fastest.
func (d *delays) queued() bool {
	return d.least == 0 || d.lastSample > d.least+d.least/8
}

// slowStart ends slow start before losses (HyStart++, RFC 9406). When a round's least
// round-trip time has grown, the window grows slowly; if it stays so, there is a queue.
type slowStart struct {
	careful  int           // rounds to go until it ends; 0: it grows at full speed
	baseline time.Duration // of the round that made it careful
}

const (
	slowSamples = 8
	slowDivisor = 4 // of the growth while careful
	slowRounds  = 5
	slowLeast   = 4 * time.Millisecond
	slowMost    = 16 * time.Millisecond
)

// grow returns by how many bytes of n the window grows, and whether slow start is over.
func (s *slowStart) grow(n int, ended bool, d *delays) (int, bool) {
	if s.careful > 0 {
		if d.samples >= slowSamples && d.round < s.baseline {
			s.careful = 0 // it was jitter
			return n, false
		}
		if ended {
			if s.careful--; s.careful == 0 {
				return 0, true
			}
		}
		return n / slowDivisor, false
	}
	rise := min(max(d.last/8, slowLeast), slowMost)
	if d.samples >= slowSamples && d.last > 0 && d.round >= d.last+rise {
		s.careful, s.baseline = slowRounds, d.round
	}
	return n, false
}
