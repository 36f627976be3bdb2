package core

import "time"

// A delivery measures at which rate frames arrive, by the method of
// draft-ietf-ccwg-bbr: each frame notes how much had been acknowledged when it
// left, and its acknowledgement tells how much more that is now, and how long
// that took.
type delivery struct {
	bytes   uint64 // acknowledged so far
	at      Clock  // when that last grew
	sentAt  Clock  // when the newest acknowledged frame had been sent
	limited uint64 // samples of frames sent before so much was acknowledged are of an application that sent too little
}

// A snapshot is the delivery as a frame left.
type snapshot struct {
	bytes   uint64
	at      Clock
	sentAt  Clock
	limited bool
}

// sent returns the snapshot for a frame that leaves.
func (d *delivery) sent(now Clock, pipe int) snapshot {
	if pipe == 0 {
		d.at, d.sentAt = now, now
	}
	return snapshot{d.bytes, d.at, d.sentAt, d.limited > d.bytes}
}

// rate returns the rate in bytes/s that the newest acknowledged frame tells,
// which had been sent at a time; 0: none. Samples over less than the least
// round-trip time say nothing.
func (d *delivery) rate(s snapshot, sentAt Clock, least time.Duration) float64 {
	d.sentAt = sentAt
	span := max(sentAt-s.sentAt, d.at-s.at)
	if span <= 0 || span < least {
		return 0
	}
	return float64(d.bytes-s.bytes) / span.Seconds()
}

// starve notes that there is nothing to send though the windows allow it.
func (d *delivery) starve(pipe int) { d.limited = d.bytes + uint64(pipe) + 1 }
