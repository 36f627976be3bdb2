package core

import "time"

// A Controller decides how many bytes may be in flight, and how fast they
// leave. Times do not go back.
type Controller interface {
	// Window returns the most bytes in flight.
	Window() int
	// Rate returns the pacing rate in bytes/s; 0: none.
	Rate() float64
	// HandleAck learns of frames acknowledged for the first time.
	HandleAck(Ack)
	// HandleLoss learns of frames that count as lost.
	HandleLoss(now Clock, l Loss)
	// HandleSpurious learns that a frame which counted as lost was not.
	HandleSpurious(now Clock, sentAt Clock)
	// HandleTimeout learns of a long time without any acknowledgement.
	HandleTimeout(now Clock)
	// HandleIdle learns how many bytes were in flight at most in the last second,
	// or timeout if that is longer.
	HandleIdle(used int)
	// SetRTT tells the averaged round-trip time after each sample, and the
	// limit of the bandwidth in bytes/s.
	SetRTT(avg time.Duration, bandwidth uint64)
	// Reduced reports whether losses keep the window smaller than it was.
	Reduced() bool
}

// An Ack is what a Controller learns of acknowledged frames.
type Ack struct {
	Now      Clock
	Bytes    int           // of the frames acknowledged
	Frames   int           // their number
	SentAt   Clock         // when the newest of them had been sent
	RTT      time.Duration // sample; 0: none
	InFlight int           // bytes that were in flight before
	Limited  bool          // the window, not the application, limited what was sent
	Rate     float64       // sample of the rate of delivery in bytes/s; 0: none
	Starved  bool          // the application sent less than it might have while Rate was measured
}

// A Loss is what a Controller learns of lost frames.
type Loss struct {
	Bytes    int
	Frames   int
	SentAt   Clock // when the newest of them had been sent
	First    Clock // when the first loss without an acknowledgement since then was met
	RTO      time.Duration
	InFlight int
	Thin     bool // far less is in flight than the window allows
}

// A ControllerKind selects a Controller.
type ControllerKind uint8

const (
	// Cubic is the default: slow start and CUBIC's congestion avoidance in bytes, paced.
	Cubic ControllerKind = iota
	// Paper is the controller as the paper has it.
	Paper
	// Tolerant goes by the measured rate of delivery, and not by losses.
	Tolerant
)

// newController returns a Controller. The seed tells connections apart.
func newController(c *Config, seed uint32) Controller {
	switch {
	case c.Controller == Paper:
		return newPaperController(c.MTU)
	case c.Controller == Tolerant:
		return newTolerant(c.MTU, seed)
	case c.Redundancy:
		return newCubicFrom(c.MTU, 2*initialWindow(c.MTU)) // room for copies
	}
	return newCubic(c.MTU)
}

// unlimited is a window or threshold that never limits.
const unlimited = 1 << 30

// resetFactor is the paper's ρ: the timeouts without an ack after which the window starts anew.
const resetFactor = 8

// windowLimit returns W_max, the bandwidth-delay product (T12).
func windowLimit(avg time.Duration, bandwidth uint64, mtu int) int {
	w := float64(bandwidth) * avg.Seconds()
	if w >= unlimited {
		return unlimited
	}
	us := uint64(avg / time.Microsecond)
	return max(int(bandwidth*us/1e6), mtu)
}
