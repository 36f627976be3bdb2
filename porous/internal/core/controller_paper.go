package core

import "time"

// A paperController is the paper's (T11 to T13): slow start and avoidance, no pacing.
type paperController struct {
	mtu, window, threshold, limit int

	acked int // bytes since the window last grew in avoidance
	rtt   time.Duration
	until Clock // no other back-off before
}

func newPaperController(mtu int) *paperController {
	return &paperController{mtu: mtu, window: mtu, threshold: unlimited, limit: unlimited, rtt: firstRTT}
}

func (c *paperController) Window() int   { return c.window }
func (c *paperController) Rate() float64 { return 0 }
func (c *paperController) Reduced() bool { return c.threshold < unlimited }

func (c *paperController) SetRTT(avg time.Duration, bandwidth uint64) {
	c.rtt = avg
	c.limit = windowLimit(avg, bandwidth, c.mtu)
	c.window = min(c.window, c.limit)
}

// HandleAck grows the window by an MTU a frame in slow start, and a window afterwards (T12).
func (c *paperController) HandleAck(a Ack) {
	for i := range a.Frames {
		n := a.Bytes / a.Frames
		if i == 0 {
			n = a.Bytes - n*(a.Frames-1)
		}
		c.ackFrame(n)
	}
}

func (c *paperController) ackFrame(n int) {
	if c.window <= c.threshold {
		c.window = min(c.window+c.mtu, c.limit)
		return
	}
	c.acked += n
	if c.acked >= c.window {
		c.acked -= c.window
		c.window = min(c.window+c.mtu, c.limit)
	}
}

// HandleLoss halves the window, at most once a round-trip time, or starts anew (T11, T13).
func (c *paperController) HandleLoss(now Clock, l Loss) {
	if now-l.First >= resetFactor*l.RTO && now > l.First {
		c.HandleTimeout(now)
		return
	}
	if now < c.until {
		return
	}
	c.until = now + c.rtt
	c.window = max(c.window/2, c.mtu)
	c.threshold = max(c.window, 2*c.mtu)
	c.acked = 0
}

func (c *paperController) HandleSpurious(Clock, Clock) {}

// HandleIdle does nothing: the paper knows no idleness.
func (c *paperController) HandleIdle(int) {}

func (c *paperController) HandleTimeout(Clock) {
	c.threshold = max(c.window/2, 2*c.mtu)
	c.window = c.mtu
	c.acked = 0
}
