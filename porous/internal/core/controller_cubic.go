package core

import (
	"math"
	"time"
)

// A cubic is the default controller: TCP's CUBIC (RFC 9438) in bytes. The window grows
// only while it is the limit (R6), frames are paced (R7), slow start ends before it
// overflows the queue (RFC 9406), the losses of one round trip cause one back-off, and
// that is taken back if it proves wrong (R8).
//
// Two points fill lossy links better, and leave the share of a bottleneck as it is. A
// loss while the round-trip time shows no queue takes less of the window, as in TCP
// Veno. And the window grows at least as fast as Reno's, by one frame a round trip.
type cubic struct {
	mtu, window, threshold, limit int
	first                         int // the first window: what losses that a thin stream meets, and idleness, leave

	rtt       time.Duration
	bandwidth uint64
	delay     delays
	slow      slowStart

	// The curve, in bytes and seconds.
	most     float64 // W_max, at which the last loss was met
	origin   float64 // the plateau of the curve
	k        float64 // seconds from the loss to the plateau
	epoch    Clock   // when the curve began
	running  bool    // it has
	reno     float64 // W_est
	fraction float64 // bytes of growth that are no whole byte yet
	lastAck  Clock

	recovery Clock // losses of frames sent before this are of the same event
	backed   bool
	idled    bool       // idleness has made the window smaller since the last loss
	undo     *cubicUndo // nil: the last back-off cannot be taken back
	undone   cubicUndo
}

// A cubicUndo is the state before a back-off, and how many losses proved to be none.
type cubicUndo struct {
	window, threshold int
	most              float64
	lost, spurious    int
}

const (
	cubicC        = 0.4  // frames/s³
	cubicBeta     = 0.7  // of the window remains after a loss
	noQueueBeta   = 0.85 // after one while there was no queue
	initialFrames = 10
)

func newCubic(mtu int) *cubic { return newCubicFrom(mtu, initialWindow(mtu)) }

// newCubicFrom returns a cubic with a first window.
func newCubicFrom(mtu, window int) *cubic {
	return &cubic{
		mtu:       mtu,
		window:    window,
		first:     window,
		threshold: unlimited,
		limit:     unlimited,
		rtt:       firstRTT,
	}
}

// initialWindow returns the first window in bytes (RFC 6928).
func initialWindow(mtu int) int { return min(initialFrames*mtu, max(2*mtu, 14720)) }

func (c *cubic) Window() int { return c.window }
func (c *cubic) Reduced() bool {
	return !c.idled && c.threshold < unlimited && float64(c.window) < c.most
}

// Rate is a quarter above the window's own, in slow start twice that, within the bandwidth.
func (c *cubic) Rate() float64 {
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

func (c *cubic) SetRTT(avg time.Duration, bandwidth uint64) {
	c.rtt, c.bandwidth = avg, bandwidth
	if bandwidth >= NoBandwidthLimit {
		c.bandwidth = 0
		return
	}
	// A window for twice the bandwidth-delay product, and some frames: the
	// pacing rate is what holds the bandwidth.
	c.limit = max(2*min(windowLimit(avg, bandwidth, c.mtu), unlimited/2), initialFrames*c.mtu)
	c.window = min(c.window, c.limit)
}

func (c *cubic) HandleAck(a Ack) {
	round := c.delay.ack(a)
	idle := a.Now - c.lastAck
	c.lastAck = a.Now
	switch {
	case c.backed && a.SentAt < c.recovery:
	case !a.Limited:
		if c.running {
			c.epoch += idle // the curve stands still while nobody needs it
		}
	case c.window < c.threshold:
		grow := min(a.Bytes, 2*c.mtu*a.Frames)
		grow, done := c.slow.grow(grow, round, &c.delay)
		c.window += min(grow, c.limit-c.window) // without overflow of 32 bits
		if done {
			c.threshold = c.window
		}
	default:
		c.avoid(a)
	}
}

// avoid grows the window along the curve, or as Reno does where that is faster.
func (c *cubic) avoid(a Ack) {
	w := float64(c.window)
	if !c.running {
		c.running, c.epoch, c.reno = true, a.Now, w
		c.origin = max(c.most, w)
		c.k = math.Cbrt((c.origin - w) / (cubicC * float64(c.mtu)))
	}
	c.reno += float64(c.mtu) * float64(a.Bytes) / w
	t := (a.Now - c.epoch + c.rtt).Seconds() - c.k
	target := c.origin + float64(cubicC*float64(c.mtu)*t*t*t)
	target = min(max(target, w), 1.5*w)
	c.fraction += (target - w) * float64(a.Bytes) / w
	if c.reno > w+c.fraction {
		c.fraction = c.reno - w
	}
	whole := math.Floor(c.fraction)
	c.fraction -= whole
	c.window += min(int(whole), c.limit-c.window)
}

func (c *cubic) HandleLoss(now Clock, l Loss) {
	if c.backed && l.SentAt < c.recovery {
		c.undone.lost += l.Frames
		return
	}
	c.undone = cubicUndo{window: c.window, threshold: c.threshold, most: c.most, lost: l.Frames}
	c.undo = &c.undone
	beta := cubicBeta
	if !c.delay.queued() {
		beta = noQueueBeta
	}
	w := float64(c.window)
	if c.most > w {
		c.most = w * (1 + beta) / 2 // others need room: it shrinks faster
	} else {
		c.most = w
	}
	c.backed, c.recovery, c.idled = true, now, false
	least := 2 * c.mtu
	if l.Thin && beta == noQueueBeta {
		least = min(c.window, c.first) // what is in flight has no part in it
	}
	c.window = max(int(w*beta), least)
	c.threshold = c.window
	c.running, c.fraction = false, 0
}

// HandleSpurious takes the last back-off back when all of its losses were none.
func (c *cubic) HandleSpurious(_, sentAt Clock) {
	if !c.backed || sentAt >= c.recovery || c.undo == nil {
		return
	}
	if c.undo.spurious++; c.undo.spurious < c.undo.lost {
		return
	}
	c.window = max(c.window, min(c.undo.window, c.limit))
	c.threshold = max(c.threshold, c.undo.threshold)
	c.most = c.undo.most
	c.running, c.undo = false, nil
}

func (c *cubic) HandleTimeout(now Clock) {
	c.most = float64(c.window)
	c.threshold = max(int(float64(c.window)*cubicBeta), 2*c.mtu)
	c.window = 2 * c.mtu
	c.running, c.fraction, c.undo = false, 0, nil
	c.backed, c.recovery, c.idled = true, now, false
	c.slow = slowStart{}
}

// HandleIdle forgets half of the unused part of the window, because the path may be
// slower by now (RFC 2861). Slow start comes back to three quarters of the window.
func (c *cubic) HandleIdle(used int) {
	if 2*used >= c.window || c.window <= c.first {
		return
	}
	c.threshold = max(c.threshold, c.window-c.window/4)
	c.window = max((c.window+used)/2, c.first)
	c.running, c.fraction, c.undo, c.idled = false, 0, nil, true
	c.slow = slowStart{}
}
