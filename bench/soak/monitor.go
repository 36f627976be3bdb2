package main

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"volley/bench/internal/resident"
)

// A monitor looks at a run at regular times.
type monitor struct {
	*soak
	w       io.Writer
	last    counts
	lastCPU time.Duration
	lastAt  time.Duration
	samples []sample
	from    time.Duration
}

func newMonitor(s *soak, w io.Writer) *monitor {
	return &monitor{soak: s, w: w, lastCPU: resourcesNow().cpu, lastAt: s.book.now(), from: s.book.now()}
}

// watch prints a line each interval until the time is over.
func (m *monitor) watch(length time.Duration) {
	end := m.book.now() + length
	for nextRest := m.book.now() + restEvery; m.book.now() < end; {
		m.wait(min(m.interval, end-m.book.now()))
		if m.book.now() >= end {
			break
		}
		m.line()
		if m.book.now() >= nextRest {
			m.rest()
			nextRest += restEvery
		}
	}
	for end += time.Minute; m.until != nil && !m.until(m.soak) && m.book.now() < end; {
		m.wait(10 * time.Millisecond)
	}
	m.line()
}

// Memory is looked at while nothing is under way: what is, and what is allocated while
// the collector works, depends on how busy the machine is.
const (
	restEvery = time.Minute
	restFor   = time.Second
)

// rest stops all writing for a moment and notes the memory in use.
func (m *monitor) rest() {
	m.resting.Store(true)
	m.wait(restFor)
	m.sample()
	m.resting.Store(false)
	s := m.samples[len(m.samples)-1]
	fmt.Fprintf(m.w, "%7s at rest: live heap without the books %.2f MiB, RSS %.2f MiB\n", s.at.Round(time.Second), s.heap, s.rss)
}

// wait waits, and settles the accounts of connections meanwhile.
func (m *monitor) wait(d time.Duration) {
	const step = time.Second
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		time.Sleep(min(step, left))
		if now := m.book.now(); now > m.linger {
			m.book.settle(now - m.linger)
		}
	}
}

// sample notes the memory in use; of the heap that which is not the book's.
func (m *monitor) sample() {
	runtime.GC()
	runtime.GC() // for what pools hold
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	at := m.book.now() - m.from
	m.samples = append(m.samples, sample{at: at, age: at - max(0, time.Duration(m.counted.serverSince.Load())-m.from),
		heap: mebibytes(ms.HeapAlloc - min(ms.HeapAlloc, m.book.bytes())), rss: mebibytes(uint64(resident.Bytes()))})
}

func mebibytes(n uint64) float64 { return float64(n) / (1 << 20) }

// line prints what happened since the last line.
func (m *monitor) line() {
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	now, c, r := m.book.now(), m.book.tally.counts(), resourcesNow()
	seconds := max((now - m.lastAt).Seconds(), 1e-3)
	sent, read := c.sent-m.last.sent, c.read-m.last.read
	lost := c.lost - m.last.lost
	fates := max(lost+c.delivered-m.last.delivered, 1)
	found, words := m.book.tally.found()
	bad := uint64(0)
	for _, n := range found {
		bad += n
	}
	fmt.Fprintf(m.w, "%7s %6.0f/s written %6.0f/s read; receipts: %5.2f %% lost; faults %d; heap %.1f RSS %.1f MiB, %d goroutines, %d files, %.0f %% CPU, ticks late by up to %v; %d ends %d flows, %d kills %d restarts %d rebinds %d closes %d server restarts\n",
		now.Round(time.Second), float64(sent)/seconds, float64(read)/seconds, 100*float64(lost)/float64(fates), bad,
		mebibytes(ms.HeapAlloc), mebibytes(uint64(resident.Bytes())), r.goroutines, r.files, 100*(r.cpu-m.lastCPU).Seconds()/seconds,
		time.Duration(m.latest.Swap(0)).Round(time.Millisecond),
		m.counted.serving.Load(), m.book.flows(), m.counted.kills.Load(), m.counted.restarts.Load(), m.counted.rebinds.Load(),
		m.counted.closes.Load(), m.counted.serverRestarts.Load())
	for _, text := range words {
		fmt.Fprintf(m.w, "        FAULT: %s\n", text)
	}
	m.last, m.lastCPU, m.lastAt = c, r.cpu, now
}
