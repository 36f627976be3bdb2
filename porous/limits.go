package porous

import (
	"math"
	"time"

	"volley/internal/listen"
	"volley/internal/recording"
	"volley/porous/internal/core"
)

// limits are what the connections of a Listener share: ListenConfig.MaxMemory.
type limits struct {
	budget listen.Budget
	conns  func() int // how many connections there are
}

const (
	leastShare = 16 << 10 // bytes of a connection that the last quarter of MaxMemory is for
	// overuseTime is how long a connection may have more than its part of unfinished
	// messages while three quarters of MaxMemory are taken.
	overuseTime = 10 * time.Second
	// reserveSlack is how much less may be taken while a connection finds no room.
	reserveSlack = 64 << 10
)

// leastMemory returns the least MaxMemory, of which three quarters hold one message.
func leastMemory(c *core.Config) int64 { return (int64(core.MinReserve(c))*4 + 2) / 3 }

// share returns how many bytes of a connection the last quarter of MaxMemory takes.
func (l *limits) share() int {
	quarter := min(l.budget.Limit()/4, math.MaxInt32)
	return max(leastShare, int(quarter)/max(1, l.conns()))
}

// reserve asks for delta bytes for a connection of which own bytes count, see core.Config.
func (l *limits) reserve(delta, own int) bool {
	return l.budget.Reserve(delta, delta <= 0 || own+delta <= l.share())
}

// part returns how many bytes of unfinished messages no connection ends for: an equal part
// of half of MaxMemory. Where all of it is taken by unfinished messages, so that none can
// be finished, some connection has more.
func (l *limits) part() int {
	return int(min(l.budget.Limit()/2, math.MaxInt32)) / max(1, l.conns())
}

// short reports whether only the last quarter is left.
func (l *limits) short() bool { return l.budget.Used() > l.budget.Limit()/4*3-reserveSlack }

// A overuse is more than a connection's part of unfinished messages.
type overuse struct {
	since core.Clock // when that began
	read  uint64     // bytes that had been received by then
}

// overusesLocked reports whether the connection keeps others from receiving. For overuseTime
// only the last quarter of MaxMemory was left, and the connection had more than its part
// of unfinished messages and finished fewer bytes than it holds.
func (c *Conn) overusesLocked() bool {
	l, held := c.set.limits, c.peer.Unfinished()
	if l == nil {
		return false
	}
	switch {
	case held <= l.part() || l.conns() == 1 || !l.short():
		c.overuse = nil
	case c.overuse == nil || c.counts.bytes-c.overuse.read >= uint64(held):
		c.overuse = &overuse{c.now, c.counts.bytes}
	case c.now-c.overuse.since >= overuseTime:
		return true
	}
	return false
}

func (c *Conn) endOveruseLocked() {
	if c.out.Err() != nil || !c.overusesLocked() {
		return
	}
	out := c.out.Batch(c.now)
	c.doLocked(c.now, call{kind: recording.Abort, args: [3]int64{truth(false)}}, out)
	c.endLocked(errUnfinished)
	c.events = 0
}

// countChunk asks for memory in which an inbox keeps messages, or gives it back.
func (c *Conn) countChunk(delta int) bool {
	l := c.set.limits
	if delta > 0 && !l.reserve(delta, int(c.chunks.Load())+c.peer.Unfinished()) {
		return false
	}
	if delta < 0 {
		l.reserve(delta, 0)
	}
	c.chunks.Add(int64(delta))
	return true
}

// keepLocked passes memory that the core had for a message on to an inbox.
func (c *Conn) keepLocked(n int) {
	if c.tape.Outputs() != nil {
		c.tape.AnswerNumber(n)
	}
	c.chunks.Add(int64(n))
	c.peer.Keep(n)
}
