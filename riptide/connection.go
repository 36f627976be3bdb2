package riptide

import (
	"time"

	"volley/internal/wire"
)

// A connState is the stage of a connection.
type connState uint8

const (
	// stateConnecting: a client has sent connect; a server has accepted and
	// awaits the client's welcome.
	stateConnecting connState = iota
	// statePending: the application at the server has not decided yet.
	statePending
	stateConnected
	stateClosed
)

const (
	firstResend = 50 * time.Millisecond // while no round-trip time is known
	maxResend   = time.Second           // what slow acknowledgements can make of it
	firstLeast  = 5 * time.Second       // until then a round trip may take as long as all sends of a message
	rejectSends = 3
)

// events is told what happens on a connection, and must not call that.
type events interface {
	fateSink
	// received is given a user message and returns whether it is taken. A
	// reliable message that is not is not acknowledged either.
	received(mode Mode, body []byte) bool
	// delivered says that a reliable message was acknowledged. Ids of the
	// connection's own messages are among them.
	delivered(id uint16)
	// connected says that the connection stands, and the client's id.
	connected(id uint16)
	// client says that another client has come or gone, and returns whether
	// that is taken, like received.
	client(id uint16, here bool) bool
	// request says that a client has asked to be accepted; the data is a body.
	request(data []byte)
	// ended says that the connection is over; rejected is meant if the reason
	// is ConnectionRejected. The data is a body, empty if there is none.
	ended(reason endReason, rejected rejectReason, data []byte)
}

// A connection is one side of a connection. It has no clock and no socket: its
// caller passes the time and datagrams, and sends what it appends.
type connection struct {
	set    *settings
	events events
	side   side
	state  connState
	id     uint16 // the client's
	over   end    // once closed; without data

	heard    time.Time // the last sign of life that counts for the time-out
	beat     time.Time // client: the next heartbeat
	attempts int       // client: connects sent
	data     []byte    // client: goes with connects
	ping     uint8     // client: id of the next heartbeat
	pinged   time.Time // client: when the last one left; zero: it was answered
	restart  time.Time // server: a connect came, and nothing else since
	asked    bool      // server: the first connect has come

	rtt     roundTrip
	history history
	sender  sender
	acks    ackRecord // what the other side has said of the sender's messages
	notify  notifier
	recent  recent
	quality quality
	counts  Stats
}

// init makes c a new connection. A server's is pending until accept or reject.
func (c *connection) init(set *settings, s side, now time.Time, ev events) {
	*c = connection{set: set, side: s, events: ev, heard: now, rtt: newRoundTrip()}
	if s == serverSide {
		c.state = statePending
	}
	c.sender.init(set.codec)
	c.notify.init()
}

// connect begins a connection as a client. The data is kept.
func (c *connection) connect(now time.Time, data []byte, out *wire.Batch) {
	c.data = data
	c.clientBeat(now, out)
}

// pend tells the client that a decision is pending, if it still is.
func (c *connection) pend(out *wire.Batch) {
	if c.set.layout == packed && c.state == statePending {
		c.set.appendConnect(out, nil)
	}
}

func (c *connection) accept(now time.Time, id uint16, out *wire.Batch) {
	c.id, c.heard = id, now
	c.state = stateConnecting
	c.sendID(now, typeWelcome, id, out)
	if c.set.layout == notes { // no welcome comes back
		c.state = stateConnected
		c.events.connected(id)
	}
}

func (c *connection) reject(r rejectReason, data []byte, out *wire.Batch) {
	for range rejectSends {
		c.set.appendReject(out, r, data)
	}
	c.end(endRejected, r, nil)
}

// sendID sends a message that names a client, without regard to the limit of the queue.
func (c *connection) sendID(now time.Time, t packetType, id uint16, out *wire.Batch) {
	body := c.set.idBody(id)
	c.sender.send(now, t, body[:c.set.idBodySize()], c.pace(), out)
}

// send sends a user message. The id is that of delivery reports, 0 for unreliable messages.
func (c *connection) send(now time.Time, m Mode, body []byte, out *wire.Batch) (id uint16, err error) {
	if c.state != stateConnected {
		return 0, c.notConnected()
	}
	switch m {
	case Reliable:
		if !c.sender.fits(len(body), c.set.sendBuffer) {
			return 0, ErrSendBuffer
		}
		id = c.sender.send(now, typeReliable, body, c.pace(), out)
	case Notify:
		id = c.notify.send(c.set.codec, body, notifySink{c}, out)
	default:
		c.set.appendUnreliable(out, body)
	}
	c.counts.MessagesSent[m]++
	c.counts.BytesSent[m] += uint64(len(body) + c.set.layout.headerBits(m)/8)
	return id, nil
}

func (c *connection) leave(out *wire.Batch) {
	if c.state != stateClosed {
		for range c.set.repeats {
			c.set.appendLeave(out)
		}
		c.end(endLeft, 0, nil)
	}
}

// kick ends a connection as a server. What the client is told need not be the reason here.
func (c *connection) kick(local, told endReason, data []byte, out *wire.Batch) {
	if c.state != stateClosed {
		for range c.set.repeats {
			c.set.appendDisconnect(out, told, data)
		}
		c.end(local, 0, nil)
	}
}

func (c *connection) end(reason endReason, rejected rejectReason, data []byte) {
	if c.state == stateClosed {
		return
	}
	c.state, c.over = stateClosed, end{reason: reason, rejected: rejected}
	c.sender.slots, c.sender.spare, c.sender.queue, c.data = nil, nil, queue{}, nil
	c.recent = recent{}
	c.events.ended(reason, rejected, data)
}

// pace returns how long to wait for acknowledgements: the C# library's interval, with
// another minimum, and more if they take longer than heartbeats. First sends follow the time
// that they have taken.
func (c *connection) pace() pace {
	d := firstResend
	if c.rtt.smooth >= 0 {
		d = fromMillis(c.rtt.smooth) * 12 / 10
	}
	measured := min(c.sender.delay.limit(), maxResend)
	p := pace{full: max(d, measured, c.set.minResend)}
	p.quick = p.full
	if c.state == stateConnected && c.rtt.smooth < 0 && measured == 0 {
		p.least = firstLeast
	}
	if measured > 0 {
		if c.rtt.smooth < 0 {
			d = 0
		}
		p.quick = max(d, measured, leastQuick)
	}
	return p
}

// tick does what is due and returns the next time, zero for never. Unread: see resend.
func (c *connection) tick(now time.Time, unread bool, out *wire.Batch) time.Time {
	if c.state == stateClosed {
		return time.Time{}
	}
	if c.side == clientSide && !now.Before(c.beat) {
		c.clientBeat(now, out)
	}
	if at := c.deadline(); !at.IsZero() && !now.Before(at) {
		c.timeOut(out)
	}
	if c.state != stateClosed {
		c.resend(now, unread, out)
		c.sender.rest(now)
	}
	return c.next()
}

// next returns when tick is to be called.
func (c *connection) next() (at time.Time) {
	if c.state == stateClosed {
		return at
	}
	at = c.deadline()
	if c.side == clientSide {
		at = earliest(at, c.beat)
	}
	at = earliest(at, c.sender.due)
	if c.sender.slots != nil && c.sender.due.IsZero() {
		at = earliest(at, c.sender.used.Add(idleMemory))
	}
	return at
}

// earliest returns the earlier time; a zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// deadline returns when the connection times out; the zero time for never.
func (c *connection) deadline() time.Time {
	switch {
	case c.state == statePending:
		return c.heard.Add(c.set.pendingTimeout)
	case c.set.timeout < 0, c.side == clientSide && c.state == stateConnecting:
		return time.Time{}
	}
	return c.heard.Add(c.set.timeout)
}

// timeOut ends a connection of which nothing was heard, or decided, in time.
func (c *connection) timeOut(out *wire.Batch) {
	if c.side == serverSide && c.state == statePending {
		c.reject(rejectPlain, nil, out)
		return
	}
	c.end(endTimeout, 0, nil)
}

// clientBeat is what a client does once in each heartbeat interval.
func (c *connection) clientBeat(now time.Time, out *wire.Batch) {
	switch c.state {
	case stateConnecting:
		if c.attempts >= c.set.attempts {
			c.end(endUnconnected, rejectNoAnswer, nil)
			return
		}
		c.attempts++
		c.set.appendConnect(out, c.data)
	case stateConnected:
		c.set.appendHeartbeat(out, clientSide, c.ping, c.rtt.last)
		c.ping++
		c.pinged = now
	}
	// Beats keep their rhythm, unless one was so late that the next would follow at once.
	c.beat = c.beat.Add(c.set.heartbeat)
	if !c.beat.After(now) {
		c.beat = now.Add(c.set.heartbeat)
	}
}

// resend sends again what was not acknowledged in time.
func (c *connection) resend(now time.Time, unread bool, out *wire.Batch) {
	limit := c.set.maxSends
	if c.state == stateConnected && !c.set.quality {
		limit = 0
	}
	n, ok := c.sender.resend(now, c.pace(), limit, unread, out)
	c.counts.MessagesResent += uint64(n)
	if !ok && c.state == stateConnected {
		c.end(endPoor, 0, nil)
	}
}

// stats returns the counters and the present figures.
func (c *connection) stats() Stats {
	s := c.counts
	s.NotifyDelivered, s.NotifyLost, s.NotifyUnknown = c.notify.fates.delivered, c.notify.fates.lost, c.notify.fates.beyond
	s.RTT, s.LastRTT = fromMillis(max(0, c.rtt.smooth)), fromMillis(max(0, c.rtt.last))
	s.Unacknowledged, s.QueuedBytes = c.sender.waiting(), c.sender.bytes
	s.MeanSends, s.NotifyLoss = c.quality.meanSends(), c.quality.notifyLoss()
	return s
}
