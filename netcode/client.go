package netcode

import (
	"net/netip"
	"time"

	"volley/internal/wire"
)

// clientConfig holds the settings of a client core, without defaults.
type clientConfig struct {
	interval time.Duration // of keep alives
	window   int           // size of the replay window
	// paced makes the client answer a challenge at its next regular time to
	// send, as the reference does, instead of at once.
	paced bool
	// fromZero makes the client count from 0 with any token, as the reference
	// does.
	fromZero bool
}

// A client is the core of a client: one connect token, from the first request
// to the end of the session. It does no I/O and has no lock. After every batch
// of datagrams and at the time it names, advance is called.
//
// Once connected, it is its session that matters, whose halves are independent.
type client struct {
	session
	cfg      clientConfig
	state    State
	token    *Token
	lifetime time.Duration // of the whole connect; zero: unlimited
	start    time.Time     // of the connect
	began    time.Time     // of the attempt with the server in use
	server   int           // the one in use, an index of token.servers
	attempts []Attempt     // that have failed
	refused  time.Time     // when the server in use was first said not to listen; zero: not

	due       bool  // send now, whatever the pace
	leaving   bool  // the next advance leaves the server
	leaveWith State // the state to end in
	challenge [challengeBodySize]byte
	slot      uint32 // our index at the server
	slots     uint32 // of the server
}

// An Attempt is the failure of one of the servers in a connect token.
type Attempt struct {
	Server  netip.AddrPort // an address from the connect token
	State   State          // negative: what went wrong; otherwise how far it got
	Elapsed time.Duration  // since the first request to this server
	Err     error          // of the network, if that is what went wrong
}

func newClient(cfg clientConfig) *client { return &client{cfg: cfg} }

// connect begins with the first server of a token. The token must not have
// been used: its keys are good for one counter of nonces.
func (c *client) connect(now time.Time, t *Token) {
	*c = client{
		cfg:      c.cfg,
		state:    StateRequesting,
		token:    t,
		lifetime: t.lifetime(),
		start:    now,
		session:  session{client: true, confirmed: true, strict: 1, interval: c.cfg.interval, timeout: t.Timeout()},
	}
	c.send.cipher = newPacketCipher(&t.clientKey, t.protocolID)
	if t.lasts() && !c.cfg.fromZero {
		c.send.startAnywhere(0, randomUint64())
	}
	c.recv.cipher = newPacketCipher(&t.serverKey, t.protocolID)
	c.recv.window = newReplayWindow(c.cfg.window)
	c.attempt(now)
}

// attempt begins with the server in use. The send counter goes on, for the
// servers of a token share its keys.
func (c *client) attempt(now time.Time) {
	c.state = StateRequesting
	c.addr = unmap(c.serverAddr())
	c.began = now
	c.refused = time.Time{}
	c.recv.last = now
	c.recv.window.reset()
	c.due = true
	c.leaving = false
	c.challenge = [challengeBodySize]byte{}
}

// serverAddr returns the address of the server in use.
func (c *client) serverAddr() netip.AddrPort { return c.token.servers[c.server] }

// receive handles a datagram. It returns a payload, part of the datagram, or
// nil.
func (c *client) receive(now time.Time, from netip.AddrPort, b []byte) (payload []byte) {
	if c.state <= StateDisconnected {
		return nil
	}
	p, reason := c.open(b)
	switch {
	case reason != DropNone:
	case from != c.addr:
		reason = DropSource
	case !c.handle(now, p):
		reason = DropState
	}
	if reason != DropNone {
		c.recv.drop(reason)
		return nil
	}
	if p.typ == packetPayload {
		return p.body
	}
	return nil
}

// handle does what an authentic packet asks for and reports whether it was of
// any use.
func (c *client) handle(now time.Time, p packet) bool {
	switch {
	case c.state == StateConnected:
		if p.typ == packetDisconnect {
			c.leave(StateDisconnected)
		}
		return c.accept(now, p) == DropNone
	case c.leaving:
		return false
	case c.state == StateRequesting && p.typ == packetChallenge:
		copy(c.challenge[:], p.body)
		c.state = StateResponding
		c.due = !c.cfg.paced
	case c.state == StateResponding && p.typ == packetKeepAlive:
		c.slot, c.slots = readKeepAlive(p.body)
		c.state = StateConnected
	case p.typ == packetDenied:
		c.leave(StateDenied)
		return true
	default:
		return false
	}
	c.recv.last = now
	return true
}

// leave marks that the next advance leaves the server.
func (c *client) leave(s State) {
	c.leaving = true
	c.leaveWith = s
}

// advance sends what is due, gives up what has failed, and returns when to be
// called again, the zero time when nothing is left to do. It may turn to the
// next server: what it has appended to out before goes to the former one.
func (c *client) advance(now time.Time, out *wire.Batch) (next time.Time) {
	if c.state <= StateDisconnected {
		return time.Time{}
	}
	c.sendDue(now, out)
	switch connecting := c.state != StateConnected; {
	case connecting && c.lifetime > 0 && now.Sub(c.start) >= c.lifetime:
		c.end(now, StateTokenExpired)
	case c.leaving && c.leaveWith == StateDenied:
		c.tryNext(now, StateDenied)
	case c.leaving:
		c.end(now, c.leaveWith)
	case c.timedOut(now):
		c.silence(now)
	}
	return c.next(now)
}

// sendDue sends the packet of the present state if it is time.
func (c *client) sendDue(now time.Time, out *wire.Batch) {
	if c.state == StateConnected {
		c.keepAlive(now, out)
		return
	}
	if !c.due && now.Before(c.sendAt()) {
		return
	}
	c.due = false
	switch c.state {
	case StateRequesting:
		putRequest(out.Extend(requestSize), c.token)
		// A request has no sequence on the wire but uses one up.
		c.send.seq++
		c.send.last = now
	case StateResponding:
		c.send.send(now, packetResponse, c.challenge[:], out)
	}
}

// sendAt returns when the next request or response is due.
func (c *client) sendAt() time.Time { return c.send.last.Add(sendInterval + c.strict) }

// silence does what a server's silence calls for.
func (c *client) silence(now time.Time) {
	switch c.state {
	case StateRequesting:
		c.tryNext(now, StateRequestTimedOut)
	case StateResponding:
		c.tryNext(now, StateResponseTimedOut)
	case StateConnected:
		c.end(now, StateTimedOut)
	}
}

// tryNext turns to the next server of the token, or ends in state s after the
// last.
func (c *client) tryNext(now time.Time, s State) {
	if c.server+1 >= len(c.token.servers) {
		c.end(now, s)
		return
	}
	c.noteAttempt(now, s)
	c.server++
	c.attempt(now)
}

func (c *client) noteAttempt(now time.Time, s State) {
	c.attempts = append(c.attempts, Attempt{Server: c.serverAddr(), State: s, Elapsed: now.Sub(c.began)})
}

// end ends the connect or the session in state s and forgets the keys.
func (c *client) end(now time.Time, s State) {
	if c.state != StateConnected && s != StateDisconnected {
		c.noteAttempt(now, s)
	}
	c.state = s
	c.send.cipher = packetCipher{}
	c.recv.cipher = packetCipher{}
	c.challenge = [challengeBodySize]byte{}
}

// next returns when advance has something to do.
func (c *client) next(now time.Time) time.Time {
	if c.state <= StateDisconnected {
		return time.Time{}
	}
	if c.due {
		return now
	}
	next := c.sendAt()
	if c.state == StateConnected {
		next = c.keepAliveAt()
	}
	if c.timeout > 0 {
		next = earlier(next, c.deadline())
	}
	if c.state != StateConnected && c.lifetime > 0 {
		next = earlier(next, c.start.Add(c.lifetime))
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// abandon gives up the server in use, or all of them if it was the last,
// because of an error of the network below.
func (c *client) abandon(now time.Time, err error) {
	if c.state <= StateDisconnected {
		return
	}
	c.tryNext(now, StateRequestTimedOut)
	c.attempts[len(c.attempts)-1].Err = err
}

// refusalPatience is how long a server that is said not to listen may take to
// show that it does. Whoever forges such messages stops no handshake with a
// server that answers within this time.
const refusalPatience = time.Second

// refuse notes that the network says nobody listens at the server in use, and
// gives it up if it has said so before. After a challenge it does not matter.
func (c *client) refuse(now time.Time) {
	switch {
	case c.state != StateRequesting || c.leaving:
	case c.refused.IsZero():
		c.refused = now
	case now.Sub(c.refused) >= refusalPatience:
		c.abandon(now, errRefused)
	}
}

// disconnect ends the session or the attempt and tells the server.
func (c *client) disconnect(now time.Time, out *wire.Batch) {
	if c.state > StateDisconnected {
		c.send.disconnect(now, out)
		c.end(now, StateDisconnected)
	}
}
