package simnet

import "time"

// DefaultQueueBytes is the queue in front of a link with a Bandwidth when
// Link.QueueBytes is zero.
const DefaultQueueBytes = 64 << 10

// DefaultReorderBy is how long a reordered datagram is held back when
// Link.ReorderBy is zero.
const DefaultReorderBy = 10 * time.Millisecond

// A Link describes what happens to datagrams on their way from one host to
// another. The zero Link is perfect: no delay, no loss, in order.
//
// Probabilities are between 0 (never) and 1 (always); values outside act as
// the nearer limit. Negative durations act as zero. Sizes are those of whole
// IP packets: the datagram and 28 bytes of headers with IPv4, 48 with IPv6.
type Link struct {
	// Latency is the delay of one direction; a round trip takes that of both.
	Latency time.Duration
	// Jitter varies the delay of each datagram as Distribution says, by
	// default evenly between Latency-Jitter and Latency+Jitter, never below
	// zero. As with tc-netem, datagrams that are sent less than twice the
	// Jitter apart may overtake each other; see Ordered.
	Jitter time.Duration
	// Distribution is how delays vary by Jitter: Uniform, Normal or LongTail.
	Distribution Distribution
	// Ordered makes a datagram wait for those sent before it from the same
	// address to the same address, as in a queue, so that Jitter alone
	// changes no order. Datagrams chosen by Reorder are still overtaken.
	Ordered bool

	// Loss is the probability that a datagram is lost.
	Loss float64
	// Burst loses datagrams in bursts, in addition to Loss. Nil: no bursts.
	// It must not be modified while the Link is in use.
	Burst *GilbertElliott
	// Duplicate is the probability that a datagram is sent twice. The copy
	// takes its own time, and its own room in the queue.
	Duplicate float64
	// Reorder is the probability that a datagram is held back by ReorderBy,
	// so that those behind overtake it.
	Reorder float64
	// ReorderBy is the additional delay of a reordered datagram. Zero means
	// DefaultReorderBy.
	ReorderBy time.Duration
	// Corrupt is the probability that one bit of a datagram is flipped. It
	// stands for damage that no checksum below UDP has noticed.
	Corrupt float64

	// Bandwidth is the rate of the link in bits per second, shared by all
	// datagrams that use it. Zero: no limit.
	Bandwidth int64
	// QueueBytes limits the bytes that wait for a link with a Bandwidth, the
	// packet in transmission included; what finds no room is dropped. Zero
	// means DefaultQueueBytes, negative no limit.
	QueueBytes int
	// MTU is the size in bytes of the largest packet that the link carries;
	// larger ones vanish, as behind a router that may not fragment and sends
	// no ICMP. Zero: no limit.
	MTU int
	// Blackout drops everything that is sent while it is set. What is under
	// way still arrives.
	Blackout bool
}

// A GilbertElliott is the two-state model of losses in bursts: a link is in
// the good or in the bad state, and each datagram may change it. It is the
// model that tc-netem calls gemodel.
type GilbertElliott struct {
	// GoodToBad is the probability to enter the bad state (p), drawn once a
	// datagram.
	GoodToBad float64
	// BadToGood is the probability to leave the bad state (r). The mean time
	// in it is 1/BadToGood datagrams.
	BadToGood float64
	// LossBad is the probability of loss in the bad state (1-h). Zero means
	// 1: everything is lost; negative means no loss.
	LossBad float64
	// LossGood is the probability of loss in the good state (1-k).
	LossGood float64
}

// Bursts returns a model that loses the given fraction of all datagrams in
// bursts of the given mean length in datagrams. It returns nil, no bursts, for
// a loss of zero or less. A loss of 1 or more loses everything, and a length
// below 1 acts as 1, as far as the loss allows.
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
		return DefaultReorderBy
	}
	return max(0, l.ReorderBy)
}

// queueBytes returns the limit of the queue; negative means none.
func (l *Link) queueBytes() int {
	if l.QueueBytes == 0 {
		return DefaultQueueBytes
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
