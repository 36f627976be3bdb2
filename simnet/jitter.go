package simnet

import (
	"fmt"
	"math"
	"time"
)

// A Distribution says how Link.Jitter varies delays.
type Distribution uint8

const (
	// Uniform varies the delay evenly between Latency-Jitter and
	// Latency+Jitter.
	Uniform Distribution = iota
	// Normal has a bell curve around Latency, of which Jitter is the standard
	// deviation. It ends 4 Jitter away, and at zero.
	Normal
	// LongTail adds to Latency what is mostly little and rarely very much: half
	// of the datagrams get less than Jitter on top, one in ten more than 11
	// times it, one in a hundred more than 80 times, and none more than 300
	// times. It is the log-normal distribution with a sigma of 1.9, cut off at
	// 3 sigma, which resembles the delays of crowded radio networks.
	LongTail
)

var distributions = [...]string{Uniform: "uniform", Normal: "normal", LongTail: "long-tail"}

// String returns the name that ParseLink knows.
func (d Distribution) String() string {
	if int(d) < len(distributions) {
		return distributions[d]
	}
	return fmt.Sprintf("Distribution(%d)", uint8(d))
}

// longTail is the sigma of LongTail.
const longTail = 1.9

// vary returns what jitter adds to the latency, for a random u in [0, 1).
func (l *Link) vary(u float64) time.Duration {
	if l.Jitter <= 0 {
		return 0
	}
	factor := 0.0
	switch l.Distribution {
	case Normal:
		factor = gauss(u)
	case LongTail:
		factor = math.Exp(longTail * min(gauss(u), 3))
	default:
		factor = 2*u - 1
	}
	return time.Duration(factor * float64(l.Jitter))
}

// gauss returns the value below which a share u of a standard normal
// distribution lies, limited to 4 either way.
func gauss(u float64) float64 {
	return max(-4, min(math.Sqrt2*math.Erfinv(2*u-1), 4))
}
