package volley

import (
	"net"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
)

// A CloseError ends a connection whose peer has closed it with a reason. Messages
// that arrived before are read first.
type CloseError struct {
	// Reason is the peer's, of at most 64 bytes, with U+FFFD in the place of what
	// cannot be printed.
	Reason string
}

func (e *CloseError) Error() string { return "closed by the peer: " + e.Reason }

const (
	// goodbyes is how often the end is told, at most.
	goodbyes = 5
	// atOnce is how many of them leave before Close returns, where others may follow.
	atOnce = 2
	// Between the others lies half of a round trip, within these limits. The first is
	// for a round trip that is not known.
	unknownGap = 50 * time.Millisecond
	minGap     = 5 * time.Millisecond
	maxGap     = 250 * time.Millisecond
	// farewellGaps is how many of these a farewell lasts.
	farewellGaps = goodbyes - atOnce + 1
	maxFarewell  = farewellGaps * maxGap
)

// A farewell is what is left of a connection that has been closed here, while the
// peer may have to be told again.
type farewell struct {
	datagram []byte
	token    uint64 // that the peer believes; 0: its hello is yet to come
	own      uint64 // that we do; 0: there is none
	left     int    // so often it may be sent
	answers  bool   // only in answer to the peer, which has not shown to be at its address
	gap      clock
	next     clock
	over     clock
}

func (c *Conn) sayGoodbyeLocked(now clock, token uint64, reason string, n int) {
	for range n {
		c.frameTokenLocked(now, goodbyePrefix, token, reason)
	}
}

// partLocked frames what tells the peer of the end, and returns what has to follow;
// nil: nothing.
func (c *Conn) partLocked(now clock, reason string) *farewell {
	g := c.greeting
	if c.set.session {
		if reason != "" { // else the session says all there is
			c.sayGoodbyeLocked(now, 0, reason, goodbyes)
		}
		return nil
	}
	below := c.out.Below.Features()
	lingers := !c.set.packets && below.Linger != nil && !below.Waits // else Close closes what was given to NewConn
	f := &farewell{datagram: make([]byte, tokenSize+len(reason)), left: goodbyes, answers: true, gap: unknownGap}
	n := atOnce
	switch {
	case g == nil && lingers && c.set.greets && c.endpoint.Counters().PacketsReceived <= 1:
		// Accept has returned it before the hello, which follows the first packet, was handled.
		putToken(f.datagram, goodbyePrefix, 0, reason)
		f.next = now + farewellGaps*f.gap
		f.over = f.next
		return f
	case g == nil || g.peer == 0:
		return nil
	case !g.proved:
		n = 1
	case !lingers:
		n = goodbyes
	}
	c.sayGoodbyeLocked(now, g.peer, reason, n)
	if !lingers {
		return nil
	}
	f.token, f.own, f.left, f.answers = g.peer, g.own, goodbyes-n, !g.proved
	putToken(f.datagram, goodbyePrefix, g.peer, reason)
	if rtt := c.statsLocked().RTT; rtt > 0 {
		f.gap = min(max(rtt/2, minGap), maxGap)
	}
	f.next, f.over = now+f.gap, now+farewellGaps*f.gap
	return f
}

// farewellTick sends one more goodbye, if it is due, and returns when to be called
// again. It reports true once all is said.
func (f *farewell) tick(now clock, out *wire.Batch) (next clock, done bool) {
	if now >= f.over {
		return 0, true
	}
	if f.answers || f.left == 0 {
		return f.over, false
	}
	if now >= f.next {
		out.Append(f.datagram)
		f.left--
		f.next = now + f.gap
	}
	return min(f.next, f.over), false
}

// hear handles what comes after Close. It reports true if no more is to be said: the
// peer has heard, or has begun anew.
func (f *farewell) hear(bufs [][]byte, out *wire.Batch) (done, anew bool) {
	if f.token == 0 && !f.learn(bufs) {
		return false, false
	}
	for _, b := range bufs {
		if token, _, ok := parseToken(b, heardPrefix, 0); ok && token == f.token {
			return true, false
		}
		if token, _, ok := parseToken(b, goodbyePrefix, maxReason); ok && f.own != 0 && token == f.own {
			return true, false // both have closed
		}
		if s, ok := parseSalute(b); ok && b[0] == helloPrefix && s.token != f.token {
			anew = true
		}
	}
	n := min(f.left, 1)
	switch {
	case anew && !f.answers:
		n = f.left // the hello may be forged
	case !f.answers:
		n = 0
	}
	for range n {
		out.Append(f.datagram)
	}
	f.left -= n
	return anew, anew
}

// learn finds the token that the peer believes in its hello.
func (f *farewell) learn(bufs [][]byte) bool {
	for _, b := range bufs {
		if s, ok := parseSalute(b); ok && b[0] == helloPrefix {
			f.token = s.token
			putToken(f.datagram, goodbyePrefix, s.token, string(f.datagram[tokenSize:]))
			return true
		}
	}
	return false
}

// CloseWithReason is Close, and tells the peer why: its calls return a *[CloseError]
// with the reason, of which 64 bytes are sent at most.
func (c *Conn) CloseWithReason(reason string) error {
	c.seat.Flush()
	c.mu.Lock()
	this := c.extraLocked()
	if this.closed != nil {
		c.mu.Unlock()
		<-this.closed
		return this.closeErr
	}
	this.closed = make(chan struct{})
	defer close(this.closed)
	open := c.user.CloseLocked(&c.out)
	if reason = cutReason(reason); open {
		this.reason = reason
	}
	c.mu.Unlock()
	c.user.In.End(net.ErrClosed) // now, because the peer's machine may refuse the goodbye
	c.mu.Lock()
	lingers := open && c.finishUnlocking(reason)
	c.mu.Unlock()
	c.user.In.Fail(net.ErrClosed)
	c.seat.Ended((*served)(c))
	if lingers {
		c.out.Below.Features().Linger.Linger()
	} else {
		this.closeErr = c.opError("close", c.out.Below.Close())
	}
	if open && c.set.onClose != nil {
		c.set.onClose(c)
	}
	return this.closeErr
}

// tickAfterUnlocking is HandleTick of a connection that has ended.
func (c *Conn) tickAfterUnlocking(now clock, out *wire.Batch) (next time.Time) {
	var f *farewell
	if c.extra() != nil {
		f = c.extra().farewell
	}
	if f == nil {
		return time.Time{}
	}
	at, done := f.tick(now, out)
	if !done {
		return c.at(at)
	}
	c.partedUnlocking()
	return time.Time{}
}

// hearAfterUnlocking is HandleBatch of a connection that has ended.
func (c *Conn) hearAfterUnlocking(bufs [][]byte, out *wire.Batch) {
	if c.extra() == nil || c.extra().farewell == nil {
		return
	}
	f := c.extra().farewell
	before := f.token
	done, anew := f.hear(bufs, out)
	if f.token != before {
		c.set.departed.add(f.token)
	}
	if !done {
		return
	}
	if t := c.out.Below.Features().Tombstone; t != nil && anew {
		t.SetTombstone(0)
	} else if t != nil {
		t.SetTombstone(strayTime) // the peer knows, and there may be copies of what it sent
	}
	c.partedUnlocking()
}

func (c *Conn) partedUnlocking() {
	c.extra().farewell = nil
	if c.over() == nil {
		return // CloseWithReason is still at it, and closes what is below
	}
	c.mu.Unlock()
	c.out.Below.Close()
	c.mu.Lock()
}

// parted ends the farewell of a Handler, if there is one, and reports whether.
func parted(h datagram.Handler) bool {
	hc, ok := h.(*handler)
	if !ok {
		return false
	}
	c := (*Conn)(hc)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.extra() == nil || c.extra().farewell == nil {
		return false
	}
	c.partedUnlocking()
	return true
}
