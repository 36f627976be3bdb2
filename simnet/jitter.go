package simnet

import (
	"math"
	"time"
)

// distributions are the values of Link.Distribution.
var distributions = [...]string{"uniform", "normal", "long-tail"}

// longTail is the sigma of the distribution "long-tail", a log-normal one.
const longTail = 1.9

// vary returns what jitter adds to the latency, for a random u in [0, 1).
func (l *Link) vary(u float64) time.Duration {
	if l.Jitter <= 0 {
		return 0
	}
	factor := 0.0
	switch l.Distribution {
	case "", "uniform":
		factor = 2*u - 1
	case "normal":
		factor = gauss(u)
	case "long-tail":
		factor = math.Exp(longTail * min(gauss(u), 3))
	default:
		panic("simnet: unknown Link.Distribution " + l.Distribution)
	}
	return time.Duration(factor * float64(l.Jitter))
}

// gauss returns the value below which a share u of a standard normal
// distribution lies, limited to 4 either way.
func gauss(u float64) float64 {
	return max(-4, min(math.Sqrt2*math.Erfinv(2*u-1), 4))
}
