package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"volley/bench/internal/resident"
)

const (
	burstSize     = 16               // messages of a burst
	burstInterval = time.Millisecond // between bursts
	pacedSize     = 8                // messages each pacedInterval: 8000 a second
	pacedInterval = time.Millisecond
	hazardSize    = 8                    // messages before the computation
	hazardCompute = 3 * time.Millisecond // of mode hazard
)

// flood sends as fast as the window allows.
func (c *client) flood(w *window, l link, i int) error {
	msg := newMessage(c.job.Size)
	for !c.stop.Load() {
		if !w.open() {
			if err := l.Flush(); err != nil {
				return err
			}
			w.wait()
		}
		number(msg, i, w.sent)
		if err := l.WriteMessage(msg); err != nil {
			return err
		}
		w.sent++
	}
	return l.Flush()
}

// bursts sends bursts at regular times, by one call where there is one for it.
func (c *client) bursts(w *window, l link, i int) error {
	msgs := make([][]byte, burstSize)
	for k := range msgs {
		msgs[k] = newMessage(c.job.Size)
	}
	batch, _ := l.(batchWriter)
	return c.eachInterval(burstInterval, func() error {
		for _, msg := range msgs {
			number(msg, i, w.sent)
			stamp(msg)
			w.sent++
			if batch == nil {
				if err := l.WriteMessage(msg); err != nil {
					return err
				}
			}
		}
		if batch != nil {
			return batch.WriteBatch(msgs)
		}
		return l.Flush()
	})
}

// paced sends a few messages, one call each, at regular times.
func (c *client) paced(w *window, l link, i int) error {
	msg := newMessage(c.job.Size)
	return c.eachInterval(pacedInterval, func() error { return sendSome(w, l, i, msg, pacedSize) })
}

// hazard sends a few messages and then computes without a pause, while all
// processors are busy: what a library leaves to another goroutine has to wait.
func (c *client) hazard(w *window, l link, i int) error {
	for range runtime.GOMAXPROCS(0) - 1 {
		go func() {
			for !c.stop.Load() {
			}
		}()
	}
	msg := newMessage(c.job.Size)
	for !c.stop.Load() {
		if err := sendSome(w, l, i, msg, hazardSize); err != nil {
			return err
		}
		for end := time.Now().Add(hazardCompute); time.Now().Before(end); {
		}
	}
	return nil
}

func sendSome(w *window, l link, i int, msg []byte, n int) error {
	for range n {
		number(msg, i, w.sent)
		stamp(msg)
		w.sent++
		if err := l.WriteMessage(msg); err != nil {
			return err
		}
	}
	return l.Flush()
}

// eachInterval calls f at regular times. A call that comes late does not move
// those after it.
func (c *client) eachInterval(interval time.Duration, f func() error) error {
	for next := time.Now(); !c.stop.Load(); next = next.Add(interval) {
		time.Sleep(time.Until(next))
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// pingPong sends a message, waits for its return, and so on.
func (c *client) pingPong() (*result, error) {
	var count uint64
	done := make(chan error, 1)
	var watchdog *time.Timer
	l := c.links[0]
	watchdog = time.AfterFunc(time.Hour, func() { l.Close() })
	go func() { done <- c.roundTrips(l, &count, watchdog) }()
	r := c.measure()
	err := <-done
	watchdog.Stop()
	r.Messages = 2 * c.latency.n
	r.Sent = count
	r.latency(&c.latency)
	return r, err
}

// roundTrips runs until the time is over. A message that gets lost would keep
// it waiting; the watchdog then closes the link.
func (c *client) roundTrips(l link, count *uint64, watchdog *time.Timer) error {
	const limit = 5 * time.Second
	msg := newMessage(c.job.Size)
	buf := make([]byte, largestSize)
	for ; !c.stop.Load(); *count++ {
		if *count%1024 == 0 {
			watchdog.Reset(limit)
		}
		number(msg, 0, *count)
		start := time.Now()
		if err := l.WriteMessage(msg); err != nil {
			return err
		}
		if err := l.Flush(); err != nil {
			return err
		}
		back, err := l.ReadMessage(buf)
		if err != nil {
			return fmt.Errorf("round trip %d: %w", *count, err)
		}
		rtt := time.Since(start)
		if _, n, _, ok := inspect(back, c.job.Size); !ok || n != *count {
			return fmt.Errorf("round trip %d: message %d came back, intact: %t", *count, n, ok)
		}
		if c.board.phase.Load() == phaseMeasure {
			c.latency.add(rtt)
		}
	}
	return nil
}

// idle measures what connections cost that do nothing. The links exist already;
// each has said one message and got it back, and the server waits for more.
func (c *client) idle() (*result, error) {
	n := float64(len(c.links) - 1)
	time.Sleep(c.job.Warmup)
	r := &result{BytesServing: float64(memoryInUse()-memoryBefore) / n}
	for _, l := range c.links {
		go func() { // as a program would that waits for a message
			buf := make([]byte, c.job.Size)
			_, _ = l.ReadMessage(buf)
		}()
	}
	time.Sleep(c.job.Warmup)
	r.Bytes = float64(memoryInUse()-memoryBefore) / n
	r.Goroutines = float64(runtime.NumGoroutine()-goroutinesBefore) / n
	c.meter.start()
	time.Sleep(c.job.Duration)
	c.meter.stop()
	c.meter.report(r)
	r.IdleCPU = float64(r.CPU.Microseconds()) / r.Seconds / n
	return r, nil
}

// What the process had in use after its first connection, of which the cost is
// that of the process: code, pools, the server.
var (
	memoryBefore     int64
	goroutinesBefore int
)

// noteBefore sets them.
func noteBefore() {
	memoryBefore, goroutinesBefore = memoryInUse(), runtime.NumGoroutine()
}

// memoryInUse is what is resident without what could be given back. A sync.Pool
// gives back what nobody has used between two collections.
func memoryInUse() int64 {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	return resident.Bytes()
}
