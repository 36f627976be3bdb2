package main

import (
	"runtime"
	"time"

	"volley/bench/internal/cputime"
)

// A usage is what a process has used so far.
type usage struct {
	cpu     time.Duration // user and system
	mallocs uint64
	at      time.Time
}

func usageNow() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{cpu: cputime.Process(), mallocs: m.Mallocs, at: time.Now()}
}

// A meter takes the usage between two moments.
type meter struct{ from, to usage }

func (m *meter) start() { m.from = usageNow() }
func (m *meter) stop()  { m.to = usageNow() }

// report puts the difference into r.
func (m *meter) report(r *result) {
	r.CPU = m.to.cpu - m.from.cpu
	r.Mallocs = m.to.mallocs - m.from.mallocs
	r.Seconds = m.to.at.Sub(m.from.at).Seconds()
}
