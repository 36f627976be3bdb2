package main

import (
	"context"
	"math"
	"sync"
	"time"

	"volley"
)

// benchFigures are what a receiver of data has got so far.
type benchFigures struct {
	Elapsed    time.Duration `json:"elapsed_ns"` // since the first
	Received   uint64        `json:"received"`   // messages
	Bytes      uint64        `json:"bytes"`
	Expected   uint64        `json:"expected"` // one more than the newest number
	OutOfOrder uint64        `json:"out_of_order"`
	Jitter     float64       `json:"jitter"` // in seconds
	Final      bool          `json:"final"`
}

// Limits of what a report may say, so that sums and rates stay numbers.
const (
	mostMessages = 1 << 40
	mostBytes    = 1 << 50
	mostSeconds  = 1e7
)

// plausible reports whether another machine's figures can be those of a measurement.
func (f benchFigures) plausible() bool {
	return max(f.Received, f.Expected, f.OutOfOrder) <= mostMessages && f.Bytes <= mostBytes &&
		f.Elapsed >= 0 && f.Elapsed.Seconds() <= mostSeconds && f.Jitter >= 0 && f.Jitter <= mostSeconds
}

// lost returns how many messages are missing.
func (f benchFigures) lost() uint64 { return f.Expected - min(f.Expected, f.Received) }

// A benchReceiver counts data.
type benchReceiver struct {
	mu      sync.Mutex
	f       benchFigures
	first   time.Time
	last    time.Time
	transit float64 // of the newest message, in seconds, by two clocks

	begun chan struct{} // closed by the first message
}

func newBenchReceiver() *benchReceiver { return &benchReceiver{begun: make(chan struct{})} }

// take counts a message of data.
func (r *benchReceiver) take(p probe, size int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.f
	if f.Received == 0 {
		r.first = now
		close(r.begun)
	}
	r.last = now
	f.Received++
	f.Bytes += uint64(size)
	if p.number < f.Expected {
		f.OutOfOrder++
	} else {
		f.Expected = p.number + 1
	}
	transit := now.Sub(r.first).Seconds() - p.sent.Seconds()
	if f.Received > 1 {
		f.Jitter += (math.Abs(transit-r.transit) - f.Jitter) / 16 // RFC 3550, section 6.4.1
	}
	r.transit = transit
}

func (r *benchReceiver) end(sent uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.f.Expected = max(r.f.Expected, sent)
}

// figures returns what there is. The time of the final ones is up to the last message.
func (r *benchReceiver) figures(final bool) benchFigures {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.f
	f.Final = final
	if f.Received == 0 {
		return f
	}
	f.Elapsed = time.Since(r.first)
	if final {
		f.Elapsed = max(r.last.Sub(r.first), 1)
	}
	return f
}

// benchSent is what a sender of data has come to.
type benchSent struct {
	count uint64
	err   error
}

const (
	// pace is the least time between two looks at what is due.
	pace = time.Millisecond
	// burst is how many messages are written at once at most.
	burst = 64
)

// sendData sends messages of a size until ctx ends, at a rate, or as fast as it goes if that
// is 0. At a rate nothing becomes due after the deadline of ctx. limit may be nil.
func sendData(ctx context.Context, conn messageConn, size int, rate float64, limit *rateLimit) (s benchSent) {
	begin := time.Now()
	bufs := make([][]byte, burst)
	batches, ok := conn.(*volley.Conn)
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(expired)
		conn.SetWriteDeadline(time.Now())
	})
	defer func() {
		if !stop() {
			<-expired // or the deadline would be set after it was taken back
		}
		conn.SetWriteDeadline(time.Time{})
	}()
	longest := time.Duration(math.MaxInt64)
	if end, ok := ctx.Deadline(); ok {
		longest = end.Sub(begin)
	}
	for ctx.Err() == nil {
		n := uint64(burst)
		if rate > 0 {
			due := uint64(min(longest, time.Since(begin)).Seconds()*rate/8/float64(size)) + 1
			if n = min(burst, due-min(due, s.count)); n == 0 {
				next := time.Duration(float64(s.count) * 8 * float64(size) / rate * 1e9)
				sleep(ctx, max(pace, next-time.Since(begin)))
				continue
			}
		}
		if !ok {
			n = 1
		}
		if n = limit.take(n, size, time.Now()); n == 0 {
			sleep(ctx, pace)
			continue
		}
		at := time.Since(begin)
		for i := range n {
			p := probe{kind: probeData, number: s.count + i, sent: at}
			bufs[i] = p.append(bufs[i][:0], size)
		}
		var written int
		if ok {
			written, s.err = batches.WriteBatch(nil, bufs[:n])
		} else if _, s.err = conn.Write(bufs[0]); s.err == nil {
			written = 1
		}
		s.count += uint64(written)
		if s.err != nil {
			if ctx.Err() != nil {
				s.err = nil
			}
			return s
		}
	}
	return s
}

// sleep waits for a time, or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
