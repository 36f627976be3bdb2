package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// pingFigures are what a ping has measured so far.
type pingFigures struct {
	timeout  time.Duration
	sent     uint64
	answered uint64
	lost     uint64 // no answer within timeout, and none since
	late     uint64 // of answered, those after timeout
	repeated uint64
	refused  uint64 // times that the peer's machine has said that nobody listens

	waiting []outgoing // for an answer, by number, without gaps
	first   uint64     // the number of waiting[0]

	// The server had received seen messages when it answered number newest. Both
	// count from base, the first message of a connection.
	base, newest, seen uint64
	known              bool

	rtts        samples
	last        time.Duration
	jitterSum   float64 // of the changes, in seconds
	jitterCount uint64
	lastNumber  uint64
	hasLast     bool
	elapsed     time.Duration
}

// An outgoing message has been sent at a time; done says that its fate is known.
type outgoing struct {
	at           time.Duration
	answered     bool
	presumedLost bool
}

// keepLost is how much longer than the timeout an answer is still known as such.
const keepLost = 30 * time.Second

func newPingFigures(timeout time.Duration) *pingFigures {
	return &pingFigures{timeout: timeout, rtts: newSamples()}
}

// send notes that the next message leaves.
func (f *pingFigures) send(now time.Duration) {
	f.sent++
	f.waiting = append(f.waiting, outgoing{at: now})
}

// open returns how many messages may still be answered in time.
func (f *pingFigures) open() int { return int(f.sent - f.lost - f.answered) }

func (f *pingFigures) answer(a answer, v pingView) {
	n := a.probe.number
	i := n - f.first
	if n < f.first || i >= uint64(len(f.waiting)) || f.waiting[i].answered {
		f.repeated++
		return
	}
	w := &f.waiting[i]
	rtt := a.at - w.at
	w.answered = true
	f.answered++
	if w.presumedLost {
		f.lost--
	}
	if rtt > f.timeout {
		f.late++
	}
	f.add(n, rtt)
	if a.probe.seen > 0 && n >= f.base && (!f.known || n > f.newest) {
		f.known, f.newest, f.seen = true, n, a.probe.seen
	}
	v.show(answerEvent(n, rtt, a.at, a.size))
}

func (f *pingFigures) add(n uint64, rtt time.Duration) {
	f.rtts.add(rtt)
	if f.hasLast && n == f.lastNumber+1 {
		f.jitterSum += math.Abs((rtt - f.last).Seconds())
		f.jitterCount++
	}
	f.last, f.lastNumber, f.hasLast = rtt, n, true
}

// expire takes those for lost whose answers have not come in time.
func (f *pingFigures) expire(now time.Duration, v pingView) {
	f.elapsed = now
	for i := range f.waiting {
		w := &f.waiting[i]
		if now-w.at <= f.timeout {
			break
		}
		if !w.answered && !w.presumedLost {
			w.presumedLost = true
			f.lost++
			v.show(lostEvent(f.first+uint64(i), now))
		}
	}
	keep := 0
	for keep < len(f.waiting) && (f.waiting[keep].answered || now-f.waiting[keep].at > f.timeout+keepLost) {
		keep++
	}
	f.first += uint64(keep)
	f.waiting = slices.Delete(f.waiting, 0, keep)
}

// restart notes that the server counts from 0 again, with the next message.
func (f *pingFigures) restart() {
	f.base, f.known = f.sent, false
}

// loss returns the lost messages as a share of those whose fate is known.
func (f *pingFigures) loss() float64 {
	return float64(f.lost) / float64(max(1, f.lost+f.answered))
}

// split tells how many messages and answers got lost up to the newest answered message.
func (f *pingFigures) split() (there, back uint64, ok bool) {
	if !f.known || f.base > 0 {
		return 0, 0, false
	}
	sent := f.newest + 1
	there = sent - min(sent, f.seen)
	return there, f.lost - min(f.lost, there), true
}

// jitter returns the mean change of the round-trip time from one message to the next.
func (f *pingFigures) jitter() time.Duration {
	return seconds(f.jitterSum / float64(max(1, f.jitterCount)))
}

// samples are any number of times: all up to a limit, and a fair choice beyond.
type samples struct {
	all      []time.Duration
	count    uint64
	min, max time.Duration
	sum, sqr float64
	random   *rand.Rand
}

const maxSamples = 1 << 16

func newSamples() samples { return samples{random: rand.New(rand.NewPCG(1, 2))} }

func (s *samples) add(d time.Duration) {
	if s.count == 0 {
		s.min, s.max = d, d
	}
	s.count++
	s.min, s.max = min(s.min, d), max(s.max, d)
	s.sum += d.Seconds()
	s.sqr += d.Seconds() * d.Seconds()
	if len(s.all) < maxSamples {
		s.all = append(s.all, d)
	} else if i := s.random.Uint64N(s.count); i < maxSamples {
		s.all[i] = d
	}
}

// mean and deviation return those of all samples.
func (s *samples) mean() time.Duration { return seconds(s.sum / float64(max(1, s.count))) }

func (s *samples) deviation() time.Duration {
	n := float64(max(1, s.count))
	mean := s.sum / n
	return seconds(math.Sqrt(max(0, s.sqr/n-mean*mean)))
}

// percentiles returns samples by the nearest rank; zeros if there are none.
func (s *samples) percentiles(shares ...float64) []time.Duration {
	out := make([]time.Duration, len(shares))
	if len(s.all) == 0 {
		return out
	}
	sorted := slices.Clone(s.all)
	slices.Sort(sorted)
	for i, p := range shares {
		rank := int(math.Ceil(p * float64(len(sorted))))
		out[i] = sorted[min(max(rank, 1), len(sorted))-1]
	}
	return out
}

// A bin is a bar of a histogram: how many samples lie from low to high.
type bin struct {
	low, high time.Duration
	count     int
	open      bool // all from low on
}

// histogram returns about n bars of equal, round width, and one more for what lies far
// above: above 99 % of all, and more than three times as far from the median as nine of ten.
func (s *samples) histogram(n int) []bin {
	if len(s.all) == 0 {
		return nil
	}
	ps := s.percentiles(0, 0.5, 0.9, 0.99, 1)
	low, high, most := ps[0], min(ps[3], ps[1]+3*(ps[2]-ps[1])), ps[4]
	width := roundWidth((high - low + 1) / time.Duration(max(1, n-1)))
	start := low / width * width
	bins := make([]bin, int((high-start)/width)+1)
	for i := range bins {
		bins[i].low = start + time.Duration(i)*width
		bins[i].high = bins[i].low + width
	}
	if most >= bins[len(bins)-1].high {
		bins = append(bins, bin{low: bins[len(bins)-1].high, high: most, open: true})
	}
	for _, d := range s.all {
		bins[min(int((d-start)/width), len(bins)-1)].count++
	}
	return bins
}

// roundWidth returns the next of 1, 2, 5, 10, 20, ... microseconds and so on.
func roundWidth(d time.Duration) time.Duration {
	for step := time.Microsecond; ; step *= 10 {
		for _, m := range []time.Duration{1, 2, 5} {
			if m*step >= d {
				return m * step
			}
		}
	}
}
