package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A sample is the memory in use at a moment, in MiB.
type sample struct {
	at        time.Duration
	age       time.Duration // of the server
	heap, rss float64
}

// slope returns how much a figure rises in an hour: the median of the slopes between
// pairs of samples (Theil and Sen). With each start of the server all connections
// begin anew and grow for some minutes, so only samples are compared at which the
// server was of one age (the seasons of Hirsch and Slack), from its second start
// on. Without that, the first tenth of the time is left out. Both is the time in which
// the program grows to its size.
func slope(samples []sample, figure func(sample) float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	last := samples[len(samples)-1]
	seasons := last.age < last.at
	samples = slices.DeleteFunc(slices.Clone(samples), func(s sample) bool {
		return s.at < last.at/10 || seasons && s.age >= s.at
	})
	var slopes []float64
	for i, a := range samples {
		for _, b := range samples[i+1:] {
			if !seasons || (a.age-b.age).Abs() < restEvery/2 {
				slopes = append(slopes, (figure(b)-figure(a))/(b.at-a.at).Hours())
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2]
}

// resources are what a process has in use.
type resources struct {
	goroutines, files int
	cpu               time.Duration
}

// A result is what a run has come to.
type result struct {
	options
	counts
	faults              [faults]uint64
	words               []string
	before, after       resources
	heapSlope, rssSlope float64
	ends                string
}

func (m *monitor) result(before, after resources) *result {
	r := &result{options: m.options, counts: m.book.tally.counts(), before: before, after: after,
		heapSlope: slope(m.samples, func(s sample) float64 { return s.heap }),
		rssSlope:  slope(m.samples, func(s sample) float64 { return s.rss })}
	r.faults, r.words = m.book.tally.found()
	c := &m.counted
	r.ends = fmt.Sprintf("%d connections dialed, %d accepted; %d kills, %d restarts, %d rebinds, %d closed by the server, %d restarts of the server; %d ended by themselves at the client, %d errors of Dial, %d of Write, %d passing ones of Read, %d ticks left out",
		c.dialed.Load(), c.accepted.Load(), c.kills.Load(), c.restarts.Load(), c.rebinds.Load(), c.closes.Load(),
		c.serverRestarts.Load(), c.ended.Load(), c.dialErrors.Load(), c.writeErrors.Load(), r.passing, c.skipped.Load())
	return r
}

// red returns why the verdict is red; nothing if it is green.
func (r *result) red() (why []string) {
	for f, n := range r.faults {
		if n > 0 {
			why = append(why, fmt.Sprintf("%d × %s", n, faultNames[f]))
		}
	}
	if r.read == 0 || r.delivered == 0 {
		why = append(why, "nothing was read and acknowledged")
	}
	if n := r.after.goroutines - r.before.goroutines; n > 0 {
		why = append(why, fmt.Sprintf("%d goroutines left behind", n))
	}
	if n := r.after.files - r.before.files; n > 0 {
		why = append(why, fmt.Sprintf("%d files left open", n))
	}
	if r.duration >= r.judged && r.heapSlope > r.maxSlope {
		why = append(why, fmt.Sprintf("the heap grows by %.2f MiB an hour, more than %g", r.heapSlope, r.maxSlope))
	}
	return why
}

func (r *result) String() string {
	var b strings.Builder
	fates := max(r.delivered+r.lost, 1)
	fmt.Fprintf(&b, "written %d, read %d; not read by anybody: %d (%.3f %%)\n", r.sent, r.read, r.missing,
		100*float64(r.missing)/float64(max(r.sent, 1)))
	fmt.Fprintf(&b, "receipts: %d Delivered, %d Lost (%.3f %%); Lost and read all the same: %d (%.4f %%); Delivered and dropped unread by a Close of the reader: %d (of %d so dropped)\n",
		r.delivered, r.lost, 100*float64(r.lost)/float64(fates), r.falseLost,
		100*float64(r.falseLost)/float64(fates), r.unread, r.closedOn)
	for f, n := range r.faults {
		fmt.Fprintf(&b, "%s %d, ", faultNames[f], n)
	}
	fmt.Fprintf(&b, "\n%s\n", r.ends)
	fmt.Fprintf(&b, "memory: live heap %+.3f MiB/h, RSS %+.3f MiB/h", r.heapSlope, r.rssSlope)
	if r.duration < r.judged {
		fmt.Fprintf(&b, " (judged from %v on)", r.judged)
	}
	fmt.Fprintf(&b, "\ngoroutines %d before, %d after; files %d before, %d after\n",
		r.before.goroutines, r.after.goroutines, r.before.files, r.after.files)
	for _, w := range r.words {
		fmt.Fprintf(&b, "fault: %s\n", w)
	}
	if why := r.red(); len(why) > 0 {
		fmt.Fprintf(&b, "verdict: RED: %s\n", strings.Join(why, "; "))
	} else {
		b.WriteString("verdict: green\n")
	}
	return b.String()
}
