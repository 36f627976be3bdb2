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
	// fromZero makes the client count from 0 with any token, as the reference does.
	fromZero bool
}

// A client is the core of a client: a connect token, from the first request to the end. It
// has no I/O and no lock. advance is called after every batch and at the time it names. Once
// connected, only its session is used.
type client struct {
	session
	cfg      clientConfig
	state    state
	token    *Token
	lifetime time.Duration // of the whole connect; zero: unlimited
	start    time.Time     // of the connect
	began    time.Time     // of the attempt with the server in use
	server   int           // the server in use, an index of token.servers
	attempts []attempt     // that have failed
	refused  time.Time     // when the network first said that the server in use does not listen; zero: never

	due       bool  // send now, whatever the pace
	leaving   bool  // the next advance leaves the server
	leaveWith state // the state to end in
	challenge [challengeBodySize]byte
	slot      uint32 // our index at the server
	slots     uint32 // of the server
}

// A state is that of a client, with the standard's numbers: a negative one is an error.
type state int

const (
	stateTokenExpired     state = iota - 6 // the connect token expired before the session began
	stateInvalidToken                      // the connect token cannot be read
	stateTimedOut                          // the session ended because the server was silent
	stateResponseTimedOut                  // no packet after the challenge was answered
	stateRequestTimedOut                   // no answer to the request
	stateDenied                            // the server was full
	stateDisconnected
	stateRequesting // sending requests
	stateResponding // challenged, sending responses
	stateConnected
)

// An attempt is the failure of one of the servers in a connect token.
type attempt struct {
	server  netip.AddrPort
	state   state         // negative: the failure; otherwise how far it got
	elapsed time.Duration // since the first request to this server
	err     error         // of the network or the context, if that was the failure
}

func newClient(cfg clientConfig) *client { return &client{cfg: cfg} }

// connect begins with the first server of a fresh token, whose keys are good for one counter.
func (c *client) connect(now time.Time, t *Token) {
	*c = client{
		cfg:      c.cfg,
		state:    stateRequesting,
		token:    t,
		lifetime: t.lifetime(),
		start:    now,
		session:  session{client: true, confirmed: true, strict: 1, interval: c.cfg.interval, timeout: secondsToTimeout(t.timeout)},
	}
	c.send.cipher = newPacketCipher(&t.clientKey, t.protocolID)
	if t.lasts() && !c.cfg.fromZero {
		c.send.startAnywhere(0, randomUint64())
	}
	c.recv.cipher = newPacketCipher(&t.serverKey, t.protocolID)
	c.recv.window = newReplayWindow(c.cfg.window)
	c.begin(now)
}

// begin begins with the server in use. The counter goes on: a token's servers share keys.
func (c *client) begin(now time.Time) {
	c.state = stateRequesting
	c.addr = unmap(c.serverAddr())
	c.began = now
	c.refused = time.Time{}
	c.recv.last = now
	c.recv.window.reset()
	c.due = true
	c.leaving = false
	c.challenge = [challengeBodySize]byte{}
}

func (c *client) serverAddr() netip.AddrPort { return c.token.servers[c.server] }

// receive handles a datagram. It returns a payload, part of the datagram, or nil.
func (c *client) receive(now time.Time, from netip.AddrPort, b []byte) (payload []byte) {
	if c.state <= stateDisconnected {
		return nil
	}
	p, reason := c.open(b)
	switch {
	case reason != dropNone:
	case from != c.addr:
		reason = dropSource
	case !c.handle(now, p):
		reason = dropState
	}
	if reason != dropNone {
		c.recv.drop(reason)
		return nil
	}
	if p.typ == packetPayload {
		return p.body
	}
	return nil
}

// handle does what an authentic packet asks for and reports whether it was of any use.
func (c *client) handle(now time.Time, p packet) bool {
	switch {
	case c.state == stateConnected:
		if p.typ == packetDisconnect {
			c.leave(stateDisconnected)
		}
		return c.accept(now, p) == dropNone
	case c.leaving:
		return false
	case c.state == stateRequesting && p.typ == packetChallenge:
		copy(c.challenge[:], p.body)
		c.state = stateResponding
		c.due = !c.cfg.paced
	case c.state == stateResponding && p.typ == packetKeepAlive:
		c.slot, c.slots = readKeepAlive(p.body)
		c.state = stateConnected
	case p.typ == packetDenied:
		c.leave(stateDenied)
		return true
	default:
		return false
	}
	c.recv.last = now
	return true
}

// leave marks that the next advance leaves the server.
func (c *client) leave(s state) {
	c.leaving = true
	c.leaveWith = s
}

// advance sends what is due and returns its next time, zero for never. out is for the old server.
func (c *client) advance(now time.Time, out *wire.Batch) (next time.Time) {
	if c.state <= stateDisconnected {
		return time.Time{}
	}
	c.sendDue(now, out)
	switch connecting := c.state != stateConnected; {
	case connecting && c.lifetime > 0 && now.Sub(c.start) >= c.lifetime:
		c.end(now, stateTokenExpired)
	case c.leaving && c.leaveWith == stateDenied:
		c.tryNext(now, stateDenied)
	case c.leaving:
		c.end(now, c.leaveWith)
	case c.timedOut(now):
		c.silence(now)
	}
	return c.next(now)
}

// sendDue sends the packet of the present state if it is time.
func (c *client) sendDue(now time.Time, out *wire.Batch) {
	if c.state == stateConnected {
		c.keepAlive(now, out)
		return
	}
	if !c.due && now.Before(c.sendAt()) {
		return
	}
	c.due = false
	switch c.state {
	case stateRequesting:
		putRequest(out.Extend(requestSize), c.token)
		// A request has no sequence on the wire but uses one up.
		c.send.seq++
		c.send.last = now
	case stateResponding:
		c.send.send(now, packetResponse, c.challenge[:], out)
	}
}

// sendAt returns when the next request or response is due.
func (c *client) sendAt() time.Time { return c.send.last.Add(sendInterval + c.strict) }

func (c *client) silence(now time.Time) {
	switch c.state {
	case stateRequesting:
		c.tryNext(now, stateRequestTimedOut)
	case stateResponding:
		c.tryNext(now, stateResponseTimedOut)
	case stateConnected:
		c.end(now, stateTimedOut)
	}
}

// tryNext turns to the next server of the token, or ends in state s after the last.
func (c *client) tryNext(now time.Time, s state) {
	if c.server+1 >= len(c.token.servers) {
		c.end(now, s)
		return
	}
	c.noteAttempt(now, s)
	c.server++
	c.begin(now)
}

func (c *client) noteAttempt(now time.Time, s state) {
	c.attempts = append(c.attempts, attempt{server: c.serverAddr(), state: s, elapsed: now.Sub(c.began)})
}

// end ends the connect or the session in state s and forgets the keys.
func (c *client) end(now time.Time, s state) {
	if c.state != stateConnected && s != stateDisconnected {
		c.noteAttempt(now, s)
	}
	c.state = s
	c.send.cipher.wipe()
	c.recv.cipher.wipe()
	c.challenge = [challengeBodySize]byte{}
}

// next returns when advance has something to do.
func (c *client) next(now time.Time) time.Time {
	if c.state <= stateDisconnected {
		return time.Time{}
	}
	if c.due {
		return now
	}
	next := c.sendAt()
	if c.state == stateConnected {
		next = c.keepAliveAt()
	}
	if c.timeout > 0 {
		next = earlier(next, c.deadline())
	}
	if c.state != stateConnected && c.lifetime > 0 {
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

// abandon gives up the server in use after an error below. After the last one, all is over.
func (c *client) abandon(now time.Time, err error) {
	if c.state <= stateDisconnected {
		return
	}
	c.tryNext(now, stateRequestTimedOut)
	c.attempts[len(c.attempts)-1].err = err
}

// refusalPatience is how long a server may take to answer after the network first said that
// it does not listen: such messages may be forged.
const refusalPatience = time.Second

// refuse notes that nobody listens at the server, and gives it up if that lasts.
func (c *client) refuse(now time.Time) {
	switch {
	case c.state != stateRequesting || c.leaving:
	case c.refused.IsZero():
		c.refused = now
	case now.Sub(c.refused) >= refusalPatience:
		c.abandon(now, errRefused)
	}
}

// disconnect ends the session or the attempt and tells the server.
func (c *client) disconnect(now time.Time, out *wire.Batch) {
	if c.state > stateDisconnected {
		c.send.disconnect(now, out)
		c.end(now, stateDisconnected)
	}
}
