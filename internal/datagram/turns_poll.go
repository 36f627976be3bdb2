package datagram

import (
	"time"

	"volley/internal/socket"
)

// Poll handles packets and due ticks without waiting, for one goroutine at a time. After its
// first call nothing else does. Where sockets cannot be read so, reader and timer go on, and
// Poll does nothing.
func (m *Mux) Poll() {
	p := m.sock.Features().Poll
	if p == nil || !m.turns.takePoll() {
		return
	}
	if err := p.ReadReady(m.turns.handle); err != nil && !m.turns.closed.Load() {
		if !socket.IsTransient(err) {
			m.turns.stop()
			m.handleBroken(err)
			return
		}
		m.handleError(err)
	}
	m.timers.pollAll(m.turns.now())
}

// takePoll makes Poll the one who reads. It reports whether it may.
func (t *turns) takePoll() bool {
	t.mu.Lock()
	if t.turn == polled {
		t.mu.Unlock()
		return !t.closed.Load()
	}
	if t.turn == over || t.closed.Load() {
		t.mu.Unlock()
		return false
	}
	reads := t.turn == behind || t.turn == yielding
	t.turn = polled
	t.forgetLocked()
	if reads {
		t.gone = make(chan struct{})
		t.setDeadlineLocked(past)
	}
	gone := t.gone
	t.mu.Unlock()
	t.timers.setManual()
	if reads {
		<-gone
	}
	t.mu.Lock()
	t.setDeadlineLocked(time.Time{})
	t.mu.Unlock()
	t.readsBehind = true
	return !t.closed.Load()
}

// leave tells Poll that the goroutine has made place.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone != nil {
		close(t.gone)
		t.gone = nil
	}
}

func (t *turns) isPolled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turn == polled
}
