package volley

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"sync"
	"time"

	"volley/internal/wire"
)

// A side that dials greets the other one: it sends a hello, gets an answer, and
// confirms that. Each then knows that the other one is at its address, and has told it
// a token that nobody off the path has seen, by which it will believe a goodbye. These
// datagrams leave with packets that leave anyway.
type greeting struct {
	own     uint64 // the token that a goodbye to us needs; 0: none yet
	peer    uint64 // that of the peer; 0: it is not known
	askedAt clock
	asks    uint8 // so many have left
	proved  bool  // the peer has sent own back, and peer is its own

	answered   bool
	answeredAt clock
}

const (
	// askEvery is the shortest time between two questions of a connection.
	askEvery = 100 * time.Millisecond
	// So many leave, at most, the first of them at that distance, and the others at
	// twice that of the one before: a peer that does not answer is of the reference.
	maxAsks  = 14
	fastAsks = 8
	// answerEvery is the shortest time between two answers, so that questions in the name
	// of one peer use up no more than a tenth of what all may be answered.
	answerEvery = time.Millisecond
)

// askFirst has the first packet to the peer ask it.
func (c *Conn) askFirst() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set.greets && c.greeting == nil {
		c.greeting, c.asking = new(greeting), true
	}
}

// askLocked asks the peer, along with a packet that was framed into out, until it has
// answered.
func (c *Conn) askLocked(now clock, out *wire.Batch) {
	g := c.greeting
	if g.asks > 0 && now-g.askedAt < askEvery<<max(0, int(g.asks)-fastAsks) {
		return
	}
	switch {
	case g.asks >= maxAsks:
		c.asking = false
	case g.peer != 0:
		c.saluteLocked(now, out, answerPrefix, g.peer)
	case c.endpoint.Counters().PacketsReceived == 0:
		c.saluteLocked(now, out, helloPrefix, 0)
	default:
		c.saluteLocked(now, out, questionPrefix, 0)
	}
}

// hiddenAsks is how many answers a hidden connection sends, at doubling distances, lest the
// loss of one leave it hidden until the peer's next packet.
const hiddenAsks = 4

// askHiddenLocked returns when the next of these is due, if there is to be one.
func (c *Conn) askHiddenLocked() (due clock, ok bool) {
	if g := c.greeting; c.hidden && g != nil && g.peer != 0 && g.asks < hiddenAsks {
		return g.askedAt + askEvery<<g.asks, true
	}
	return 0, false
}

// saluteLocked frames one of the datagrams of the greeting.
func (c *Conn) saluteLocked(now clock, out *wire.Batch, prefix byte, echo uint64) {
	g := c.greeting
	if g.own == 0 {
		g.own = newToken()
	}
	if prefix != confirmPrefix {
		g.askedAt, g.asks = now, min(g.asks+1, maxAsks)
	}
	n := out.Len()
	salute{g.own, echo, c.set.protocol}.put(out.Extend(greetingSize), prefix)
	c.noteAside(now, out, n)
}

// controlledLocked handles a control datagram. It reports false for what is none, as
// it is where the connection does not greet.
func (c *Conn) controlledLocked(t time.Time, now clock, b []byte) bool {
	switch {
	case c.ending() != nil: // it may be for the next connection
		return true
	case !c.set.greets:
		return c.set.session && c.goodbyeLocked(now, b)
	case b[0] == noticePrefix:
		return c.noticeLocked(now, b)
	case b[0] == refusalPrefix:
		return c.refusalLocked(b)
	case b[0] == goodbyePrefix:
		return c.goodbyeLocked(now, b)
	case b[0] == heardPrefix:
		_, _, ok := parseToken(b, heardPrefix, 0)
		return ok // of a connection before this one
	}
	s, ok := parseSalute(b)
	if !ok {
		return false
	}
	switch b[0] {
	case helloPrefix, questionPrefix:
		c.askedLocked(t, now, s, b[0] == helloPrefix)
	case answerPrefix:
		c.answeredLocked(t, now, s)
	case confirmPrefix:
		if c.isOwn(s.echo) {
			c.proveLocked(s.token)
			if c.extra() != nil {
				c.extra().foreign = false
			}
		}
	}
	return true
}

// askedLocked answers a question. Its token may be forged, and so it is kept only
// until there is one that is not.
func (c *Conn) askedLocked(t time.Time, now clock, s salute, hello bool) {
	if c.greeting == nil {
		c.greeting = new(greeting)
	}
	g := c.greeting
	if g.answered && now-g.answeredAt < answerEvery || !c.set.answers.take(t) {
		return
	}
	g.answered, g.answeredAt = true, now
	if !g.proved && (hello || g.peer == 0) {
		g.peer = s.token
	}
	out := c.out.Batch(now)
	c.saluteLocked(now, out, answerPrefix, s.token)
	c.asking = !g.proved
	c.out.Answered()
}

// answeredLocked handles an answer: the peer is there, and knows the connection.
func (c *Conn) answeredLocked(t time.Time, now clock, s salute) {
	if c.extra() != nil && c.extra().suspicion.clear(s.echo) || !c.isOwn(s.echo) {
		return
	}
	c.proveLocked(s.token)
	if !c.set.answers.take(t) {
		return
	}
	if c.set.protocol != 0 && s.protocol != 0 && s.protocol != c.set.protocol {
		c.sayGoodbyeLocked(now, s.token, refusedProtocol, goodbyes)
		c.extraLocked().ending = &RefusedError{refusedProtocol}
		return
	}
	c.saluteLocked(now, c.out.Batch(now), confirmPrefix, s.token)
	c.out.Answered()
}

// proveLocked notes that the peer has shown to be at its address, and its token.
func (c *Conn) proveLocked(token uint64) {
	c.greeting.peer, c.greeting.proved, c.asking, c.hidden = token, true, false, false
	c.endpoint.inner().Doubt(false)
}

// proved reports whether the peer has shown to be at its address.
func (c *Conn) proved() bool { return c.greeting != nil && c.greeting.proved }

func (c *Conn) isOwn(token uint64) bool {
	return token != 0 && c.greeting != nil && c.greeting.own == token
}

// refusalLocked handles a refusal. Of a connection that the peer has greeted, it may
// be a late copy, and only what answers a suspicion counts.
func (c *Conn) refusalLocked(b []byte) bool {
	token, reason, ok := parseToken(b, refusalPrefix, maxRefusal)
	switch {
	case !ok:
		return false
	case c.extra() != nil && c.extra().suspicion.clear(token):
		c.extra().ending = ErrPeerRestarted
	case c.isOwn(token) && !c.proved() && reason != "":
		c.extraLocked().ending = &RefusedError{reason}
	}
	return true
}

// goodbyeLocked handles a goodbye, which needs our token. Over a session, nobody else
// can have sent it.
func (c *Conn) goodbyeLocked(now clock, b []byte) bool {
	token, reason, ok := parseToken(b, goodbyePrefix, maxReason)
	if !ok || c.set.session && token != 0 {
		return false
	}
	if !c.set.session {
		if !c.isOwn(token) {
			return true
		}
		c.frameTokenLocked(now, heardPrefix, token, "")
		c.out.Answered()
	}
	r := c.extraLocked()
	if c.set.packets {
		r.foreign = reason == refusedProtocol
		if r.partedAt <= c.lastMessage {
			r.partedAt, r.reason = max(now, c.lastMessage+1), reason
			c.out.Below.Schedule(c.at(r.partedAt + partedLife))
		}
		return true
	}
	if r.ending != nil {
		return true
	}
	r.ending = io.EOF
	if reason != "" {
		r.ending = &CloseError{reason}
	}
	return true
}

// frameTokenLocked frames a datagram that a token makes believed.
func (c *Conn) frameTokenLocked(now clock, prefix byte, token uint64, reason string) {
	out := c.out.Batch(now)
	n := out.Len()
	putToken(out.Extend(tokenSize+len(reason)), prefix, token, reason)
	c.noteAside(now, out, n)
}

// ending returns why the connection is about to end at the peer's word; nil: it is
// not.
func (c *Conn) ending() error {
	if c.extra() == nil {
		return nil
	}
	return c.extra().ending
}

// parting reports whether the peer has said goodbye.
func parting(end error) bool {
	_, reason := end.(*CloseError)
	return reason || end == io.EOF
}

// A departed remembers the tokens of the last peers whose connections have ended: copies of
// their hellos open none.
type departed struct {
	mu     sync.Mutex
	tokens map[uint64]struct{}
	ring   []uint64
	oldest int
}

const maxDeparted = 4096

func (d *departed) add(token uint64) {
	if d == nil || token == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.tokens[token]; known {
		return
	}
	if len(d.ring) < maxDeparted {
		d.ring = append(d.ring, token)
	} else {
		delete(d.tokens, d.ring[d.oldest])
		d.ring[d.oldest] = token
		d.oldest = (d.oldest + 1) % maxDeparted
	}
	if d.tokens == nil {
		d.tokens = make(map[uint64]struct{})
	}
	d.tokens[token] = struct{}{}
}

func (d *departed) has(token uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.tokens[token]
	return known
}

// newToken returns a random number that is not 0.
func newToken() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if token := binary.LittleEndian.Uint64(b[:]); token != 0 {
			return token
		}
	}
}
