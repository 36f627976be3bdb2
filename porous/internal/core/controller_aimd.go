package core

import "time"

// An aimd is slow start and congestion avoidance in bytes as TCP has them
// today: an initial window of ten frames, growth by bytes and only while the
// window is the limit (R6), pacing (R7), one back-off for the losses of one
// round trip, taken back if it proves wrong (R8).
type aimd struct {
	mtu, window, threshold, limit int

	acked     int // bytes since the window last grew in avoidance
	rtt       time.Duration
	bandwidth uint64

	recovery Clock // losses of frames sent before this are of the same event
	backed   bool
	// The state before the last back-off, for HandleSpurious.
	undoWindow, undoThreshold int
	lost, spurious            int // frames of the last event
}

func newAIMD(mtu int) *aimd {
	return &aimd{
		mtu:       mtu,
		window:    min(10*mtu, max(2*mtu, 14720)),
		threshold: unlimited,
		limit:     unlimited,
		rtt:       firstRTT,
	}
}

func (c *aimd) Window() int { return c.window }

// Rate is a quarter above the window's own, or twice that in slow start, and
// not above the bandwidth agreed upon.
func (c *aimd) Rate() float64 {
	gain := 1.25
	if c.window < c.threshold {
		gain = 2.5
	}
	r := gain * float64(c.window) / max(c.rtt, 100*time.Microsecond).Seconds()
	if c.bandwidth > 0 {
		r = min(r, float64(c.bandwidth))
	}
	return r
}

func (c *aimd) SetRTT(avg time.Duration, bandwidth uint64) {
	c.rtt, c.bandwidth = avg, bandwidth
	if bandwidth >= NoBandwidthLimit {
		c.bandwidth = 0
		return
	}
	// A window for twice the bandwidth-delay product, and some frames: the
	// pacing rate is what holds the bandwidth.
	c.limit = max(min(2*windowLimit(avg, bandwidth, c.mtu), unlimited), 10*c.mtu)
	c.window = min(c.window, c.limit)
}

func (c *aimd) HandleAck(a Ack) {
	if c.backed && a.SentAt < c.recovery || !a.Limited {
		return
	}
	if c.window < c.threshold {
		c.window = min(c.window+min(a.Bytes, 2*c.mtu*a.Frames), c.limit)
		return
	}
	c.acked += a.Bytes
	if c.acked >= c.window {
		c.acked -= c.window
		c.window = min(c.window+c.mtu, c.limit)
	}
}

func (c *aimd) HandleLoss(now Clock, l Loss) {
	if c.backed && l.SentAt < c.recovery {
		c.lost++
		return
	}
	c.undoWindow, c.undoThreshold = c.window, c.threshold
	c.lost, c.spurious = 1, 0
	c.backed, c.recovery = true, now
	c.window = max(c.window/2, 2*c.mtu)
	c.threshold = c.window
	c.acked = 0
}

// HandleSpurious takes the last back-off back once all of its losses have
// proved to be none.
func (c *aimd) HandleSpurious(_, sentAt Clock) {
	if !c.backed || sentAt >= c.recovery || c.undoWindow == 0 {
		return
	}
	c.spurious++
	if c.spurious >= c.lost {
		c.window = max(c.window, min(c.undoWindow, c.limit))
		c.threshold = max(c.threshold, c.undoThreshold)
		c.undoWindow = 0
	}
}

func (c *aimd) HandleTimeout(now Clock) {
	c.threshold = max(c.window/2, 2*c.mtu)
	c.window = 2 * c.mtu
	c.acked, c.undoWindow = 0, 0
	c.backed, c.recovery = true, now
}
