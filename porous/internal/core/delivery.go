package core

import "time"

// A delivery measures the rate at which frames arrive, as draft-ietf-ccwg-bbr does: by
// what was acknowledged between a frame's leaving and its acknowledgement.
type delivery struct {
	bytes   uint64 // acknowledged so far
	at      Clock  // when that last grew
	sentAt  Clock  // when the newest acknowledged frame had been sent
	limited uint64 // the application sent too little until so much was acknowledged
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

// rate returns bytes/s by the newest acknowledged frame; 0: measured over too short a time.
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
