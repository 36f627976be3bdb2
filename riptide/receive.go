package riptide

import (
	"time"

	"volley/internal/wire"
)

// receive handles a datagram of the other side. The datagram may be overwritten afterwards.
func (c *connection) receive(now time.Time, b []byte, out *wire.Batch) {
	if c.state == stateClosed {
		return
	}
	if len(b) > c.set.maxPayload+maxHeaderSize {
		c.counts.PacketsInvalid++
		return
	}
	p, ok := c.set.parse(1-c.side, b)
	if !ok {
		c.counts.PacketsInvalid++
		return
	}
	if p.typ != typeConnect {
		c.restart = time.Time{}
	}
	handled := false
	switch {
	case p.typ == typeUnreliable:
		handled = c.receiveUnreliable(now, &p, b)
	case p.typ == typeNotify:
		handled = c.receiveNotify(now, &p, b)
	case p.typ.reliable():
		handled = c.receiveReliable(now, &p, len(b), out)
	case p.typ == typeAck:
		handled = c.receiveAck(now, p.ack, out)
	case p.typ == typeHeartbeat:
		handled = c.receiveHeartbeat(now, &p, out)
	case c.side == clientSide:
		handled = c.receiveFromServer(now, &p)
	default:
		handled = c.receiveFromClient(now, &p)
	}
	if !handled {
		c.counts.PacketsInvalid++
	}
}

func (c *connection) receiveUnreliable(now time.Time, p *packet, b []byte) bool {
	if c.state != stateConnected {
		return false
	}
	c.handOnce(now, Unreliable, p, b)
	return true
}

// handOnce gives a message without an id to the application, unless it seems a copy.
func (c *connection) handOnce(now time.Time, m Mode, p *packet, b []byte) {
	window := c.set.dupWindow
	if window == 0 {
		c.hand(m, p, len(b))
		return
	}
	hash, seen := c.recent.has(now, b, window)
	switch {
	case seen:
		c.counts.UnreliableDuplicates++
	case c.hand(m, p, len(b)):
		c.recent.note(now, hash)
	}
}

// hand gives a user message to the application, which may refuse it.
func (c *connection) hand(m Mode, p *packet, size int) bool {
	if !c.events.received(m, p.body) {
		c.counts.MessagesRefused++
		return false
	}
	c.counts.MessagesReceived[m]++
	c.counts.BytesReceived[m] += uint64(size)
	return true
}

func (c *connection) receiveNotify(now time.Time, p *packet, b []byte) bool {
	if c.state != stateConnected {
		return false
	}
	if c.set.layout == notes { // no sequence, no acks
		c.handOnce(now, Notify, p, b)
		return true
	}
	c.notify.acked(p.ack, notifySink{c})
	switch {
	case c.state != stateConnected: // poor connection
	case !c.notify.isNew(p.seq):
		c.counts.Late++
	case c.hand(Notify, p, len(b)):
		c.notify.received(p.seq)
	}
	return true
}

// A notifySink judges the quality by fates before it passes them on.
type notifySink struct{ *connection }

func (s notifySink) notifyFate(id uint16, delivered, known bool) {
	s.events.notifyFate(id, delivered, known)
	if known && s.quality.notified(delivered, s.set.maxNotifyLoss) && s.set.quality {
		s.end(endPoor, 0, nil)
	}
}

// takes reports whether a reliable type is expected. Others get no acknowledgement.
func (c *connection) takes(t packetType) bool {
	switch t {
	case typeReliable:
		return c.state == stateConnected
	case typeWelcome:
		return c.side == clientSide || c.set.layout == packed && c.state != statePending
	}
	return c.side == clientSide && c.state == stateConnected
}

func (c *connection) receiveReliable(now time.Time, p *packet, size int, out *wire.Batch) bool {
	if !c.takes(p.typ) {
		return false
	}
	if c.history.has(p.seq) {
		c.counts.Duplicates++
		c.set.appendAck(out, c.history.ack(p.seq))
		return true
	}
	if !c.handReliable(p, size) {
		return true
	}
	c.history.add(p.seq)
	c.set.appendAck(out, c.history.ack(p.seq))
	if p.typ == typeWelcome {
		c.welcome(now, p.client, out)
	}
	return true
}

// handReliable gives what a reliable message says to the application, which may refuse it.
func (c *connection) handReliable(p *packet, size int) bool {
	switch p.typ {
	case typeReliable:
		return c.hand(Reliable, p, size)
	case typeClientConnected, typeClientDisconnected:
		if !c.events.client(p.client, p.typ == typeClientConnected) {
			c.counts.MessagesRefused++
			return false
		}
	}
	return true
}

func (c *connection) welcome(now time.Time, id uint16, out *wire.Batch) {
	if c.state == stateConnected {
		return
	}
	c.heard = now
	c.state = stateConnected
	if c.side == serverSide { // a wrong id does not matter
		c.events.connected(c.id)
		return
	}
	c.id, c.data = id, nil
	if c.set.layout == packed {
		c.sendID(now, typeWelcome, id, out)
	}
	c.events.connected(id)
}

// receiveAck handles an acknowledgement: its id, then what else it says.
func (c *connection) receiveAck(now time.Time, a ack, out *wire.Batch) bool {
	if c.state == statePending {
		return false
	}
	first := a.newest
	if a.has {
		first = a.id
	}
	// In the notes layout that for an old id names the newest one, too.
	c.acked(now, first, c.set.layout == packed)
	news := a.bits
	moved := true
	if c.set.layout == packed {
		news, moved = c.acks.update(a)
	}
	for id := a.newest - 1; news != 0; id-- {
		if news&1 == 1 {
			c.acked(now, id, false)
		}
		news >>= 1
	}
	if moved {
		c.acked(now, a.newest, false)
	}
	if c.state != stateClosed {
		p := c.pace()
		c.sender.hasten(p)
		c.sender.fill(now, p, out)
	}
	return true
}

// An ackRecord remembers the other side's acknowledgements. As in the released library, only
// a newer id is believed beyond itself.
type ackRecord struct {
	newest uint16
	bits   uint16 // bit i: newest-1-i was acknowledged; the last is gone with the next id
}

// update takes an acknowledgement, and returns the bits that are news, if its id is newer.
func (r *ackRecord) update(a ack) (news uint16, moved bool) {
	g := gap(a.newest, r.newest)
	if g <= 0 {
		r.bits |= a.bits<<-g | 1<<-g>>1
		return 0, false
	}
	r.bits = r.bits<<g | 1<<(g-1)
	news = a.bits &^ r.bits
	r.bits |= a.bits
	r.newest = a.newest
	return news, true
}

// acked takes an id as delivered, if it was pending.
func (c *connection) acked(now time.Time, id uint16, prompt bool) {
	if c.state == stateClosed {
		return
	}
	sends := c.sender.acked(now, id, prompt)
	if sends == 0 {
		return
	}
	c.counts.MessagesDelivered++
	c.events.delivered(id)
	if c.quality.delivered(sends, c.set.maxMeanSends) && c.set.quality && c.state == stateConnected {
		c.end(endPoor, 0, nil)
	}
}

func (c *connection) receiveHeartbeat(now time.Time, p *packet, out *wire.Batch) bool {
	if c.state != stateConnected {
		return false
	}
	c.recent.rest(now, max(idleMemory, c.set.dupWindow))
	if c.side == clientSide {
		c.answered(now, p.pingID)
		return true
	}
	c.heard = now
	if p.rtt >= 0 {
		c.rtt.measured(p.rtt)
	}
	c.set.appendHeartbeat(out, serverSide, p.pingID, c.rtt.last)
	return true
}

func (c *connection) answered(now time.Time, ping uint8) {
	if back := c.ping - ping; back == 0 || back > 16 { // not asked, or long ago
		return
	}
	c.heard = now
	if ping == c.ping-1 && !c.pinged.IsZero() {
		c.rtt.measured(toMillis(now.Sub(c.pinged)))
		c.pinged = time.Time{}
	}
}

// receiveFromServer handles what only servers send.
func (c *connection) receiveFromServer(now time.Time, p *packet) bool {
	switch {
	case p.typ == typeDisconnect:
		c.end(endReason(p.reason), 0, c.dataOf(p, uint8(endKicked)))
		return true
	case c.state == stateConnected:
		return false
	case p.typ == typeReject && p.reason == rejectPending:
		c.state = statePending
		c.heard = now
	case p.typ == typeReject:
		c.end(endRejected, rejectReason(p.reason), c.dataOf(p, uint8(rejectData)))
	case p.typ == typeConnect && c.state == stateConnecting:
		c.state = statePending
		c.heard = now
	}
	return true
}

// dataOf returns the data that accompanies one reason only.
func (c *connection) dataOf(p *packet, reason uint8) []byte {
	if p.reason != reason {
		return nil
	}
	return p.body
}

// restartAfter is the least time between two connects that shows a restarted client on its
// old port. A repeated connect of the network comes once.
const restartAfter = 400 * time.Millisecond

// receiveFromClient handles what only clients send.
func (c *connection) receiveFromClient(now time.Time, p *packet) bool {
	switch p.typ {
	case typeDisconnect:
		c.end(endLeft, 0, nil)
	case typeConnect: // a repeated one brings no answer
		switch {
		case !c.asked:
			c.asked = true
			c.events.request(p.body)
		case c.state != stateConnected:
		case c.restart.IsZero():
			c.restart = now
		case now.Sub(c.restart) >= restartAfter:
			c.end(endLeft, 0, nil)
		}
	default:
		return false
	}
	return true
}
