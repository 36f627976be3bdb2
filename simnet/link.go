package simnet

import "time"

// A Link describes what happens to datagrams from one host to another. The zero
// Link is perfect: no delay, no loss, in order.
//
// Probabilities are between 0 and 1; values outside act as the nearer limit.
// Negative durations act as zero. Sizes are those of IP packets: the datagram and
// 28 bytes of headers with IPv4, 48 with IPv6.
type Link struct {
	// Latency is the delay of one direction; a round trip takes that of both.
	Latency time.Duration
	// Jitter varies the delay of each datagram, as Distribution says. As with
	// tc-netem, datagrams may overtake each other by it; see Ordered.
	Jitter time.Duration
	// Distribution is how delays vary. Any other value than these panics.
	//
	//   - "uniform", or "": evenly between Latency-Jitter and Latency+Jitter.
	//   - "normal": a bell curve around Latency, of which Jitter is the standard
	//     deviation. It ends 4 Jitter away, and at zero.
	//   - "long-tail": Latency and mostly a little more, rarely very much. Half of
	//     the datagrams get less than Jitter on top, one in ten more than 11 times
	//     it, one in a hundred more than 80 times, and none more than 300 times.
	//     Crowded radio networks have such delays.
	Distribution string
	// Ordered makes a datagram wait for those sent before it between the same
	// addresses, so that Jitter alone changes no order. Reorder still does.
	Ordered bool

	// Loss is the probability that a datagram is lost.
	Loss float64
	// Burst loses datagrams in bursts, in addition to Loss. Nil: no bursts.
	// It must not be modified while the Link is in use.
	Burst *GilbertElliott
	// Duplicate is the probability that a datagram is sent twice. The copy has
	// its own delay, and its own room in the queue.
	Duplicate float64
	// Reorder is the probability that a datagram is held back by ReorderBy, so
	// that later ones overtake it.
	Reorder float64
	// ReorderBy is the additional delay of a reordered datagram. Zero means 10 ms.
	ReorderBy time.Duration
	// Corrupt is the probability that one bit of a datagram is flipped, as by
	// damage that no checksum has noticed.
	Corrupt float64

	// Bandwidth is the rate of the link in bits per second. Zero: no limit.
	Bandwidth int64
	// QueueBytes limits the bytes that wait for a link with a Bandwidth, with
	// the packet in transmission. A datagram that finds no room is dropped. Zero
	// means 64 KiB, negative no limit.
	QueueBytes int
	// MTU is the size in bytes of the largest packet that the link carries.
	// Larger ones vanish, without ICMP. Zero: no limit.
	MTU int
	// Blackout drops everything that is sent while it is set. Datagrams under
	// way still arrive.
	Blackout bool
}

// A GilbertElliott is a model of losses in bursts: a link is in the good or in
// the bad state, and each datagram may change it. Tc-netem calls it gemodel.
type GilbertElliott struct {
	// GoodToBad is the probability that a datagram enters the bad state (p).
	GoodToBad float64
	// BadToGood is the probability that it leaves the bad state (r), in which
	// 1/BadToGood datagrams are sent on average.
	BadToGood float64
	// LossBad is the probability of loss in the bad state (1-h). Zero means
	// 1: everything is lost; negative means no loss.
	LossBad float64
	// LossGood is the probability of loss in the good state (1-k).
	LossGood float64
}

// Bursts returns a model that loses a fraction of all datagrams, in bursts of a
// mean length in datagrams. It is nil, which means no bursts, for a loss of zero or
// less. A loss of 1 or more loses everything. A length below 1 acts as 1, as far as
// the loss allows.
func Bursts(loss, length float64) *GilbertElliott {
	if loss <= 0 {
		return nil
	}
	if loss >= 1 {
		return &GilbertElliott{GoodToBad: 1, LossGood: 1}
	}
	leave := 1 / max(length, 1)
	enter := min(1, loss*leave/(1-loss))
	return &GilbertElliott{GoodToBad: enter, BadToGood: min(leave, enter*(1-loss)/loss)}
}

func (g *GilbertElliott) lossBad() float64 {
	if g.LossBad == 0 {
		return 1
	}
	return g.LossBad
}

func (l *Link) reorderBy() time.Duration {
	if l.ReorderBy == 0 {
		return 10 * time.Millisecond
	}
	return max(0, l.ReorderBy)
}

const queueBytes = 64 << 10 // by default

// queueBytes returns the limit of the queue; negative means none.
func (l *Link) queueBytes() int {
	if l.QueueBytes == 0 {
		return queueBytes
	}
	return l.QueueBytes
}

// transmission returns how long a packet of the given size occupies the link.
func (l *Link) transmission(size int) time.Duration {
	if l.Bandwidth <= 0 {
		return 0
	}
	return time.Duration(int64(size) * 8 * int64(time.Second) / l.Bandwidth)
}
