package core

import (
	"math"
	"time"
)

// receiving is the receiving half of a Peer.
type receiving struct {
	p        *Peer
	window   frameWindow
	acks     ackList
	channels []*receiver // made with the first message of each
	pool     pool
	scratch  []byte // a packet of several fragments is put together here
	held     int    // bytes held by all channels
	reserved int    // of them, what Config.Reserve was asked for
	frames   uint64 // of which admit has decided
	tight    bool   // the last of them had to be looked into
	lent     bool   // some of reserved may be what packets that wait for others do not get
	dirty    bool   // a channel is to be scanned
}

func (r *receiving) init(p *Peer) {
	r.p = p
	r.acks.init(p.cfg.MTU, p.cfg.AckRepeats)
}

// channel returns the receiving half of a channel; nil: there is no such one.
func (r *receiving) channel(n int) *receiver {
	if n < len(r.channels) && r.channels[n] != nil {
		return r.channels[n]
	}
	c := r.p.cfg
	if n >= c.Channels {
		return nil
	}
	if r.channels == nil {
		r.channels = make([]*receiver, c.Channels)
	}
	r.channels[n] = new(receiver)
	r.channels[n].init(&r.pool, FragmentSize(c.MTU), c.MaxPacket, c.Packets, c.ReceiveGroup, 0)
	return r.channels[n]
}

func (p *Peer) receiveData(now Clock, b []byte) bool {
	id, n, body, ok := ParseData(b)
	if !ok || p.state != Connected {
		return ok
	}
	r := &p.recv
	if !r.window.accepts(id) && !p.beginsOther(id) {
		p.stats.OutOfWindow++
		return true
	}
	if r.acks.full() || p.flushing && r.refuses(n, body) || !r.admit(now, n, body) {
		p.stats.Refused++
		r.takeWindowAcks(n, body)
		return true
	}
	var m Message
	for range n {
		size := messageSize(body)
		m.parse(body[:size:size])
		body = body[size:]
		if v := r.message(&m); v != taken {
			p.stats.count(v)
		}
	}
	if r.tight {
		r.deliver() // what the next frame must not take the place of
	}
	p.otherID = p.ownID
	r.window.move(id)
	r.acks.add(id)
	p.stats.Accepted++
	return true
}

// refuses reports whether our close has left nobody to read the frame.
func (r *receiving) refuses(n int, body []byte) bool {
	var m Message
	for range n {
		m, body, _ = NextMessage(body)
		if m.Type == MessageWindowAck {
			continue
		}
		if c := r.channel(int(m.Channel)); c != nil && c.lies(m.Packet) == taken {
			r.acks.none = true
			return true
		}
	}
	return false
}

// takeWindowAcks takes them from a refused frame, so that a program that never reads can write.
func (r *receiving) takeWindowAcks(n int, body []byte) {
	var m Message
	for range n {
		m, body, _ = NextMessage(body)
		if m.Type == MessageWindowAck {
			r.p.send.handleWindowAck(int(m.Channel), m.Packet)
		}
	}
}

// admit reports whether a frame's messages have room (R11). Otherwise it comes again.
func (r *receiving) admit(now Clock, n int, body []byte) bool {
	r.frames++
	if r.tight = !r.ample(n, len(body)); !r.tight {
		return true
	}
	most, lacks := 0, lacksNothing
	for rest := body; len(rest) > 0; {
		var m Message
		m, rest, _ = NextMessage(rest)
		if m.Type == MessageWindowAck || int(m.Channel) >= r.p.cfg.Channels {
			continue
		}
		c := r.channel(int(m.Channel))
		if c.lies(m.Packet) != taken {
			continue
		}
		if m.Type == MessageFragment {
			switch c.check(&m) {
			case malformed:
				continue
			case tooLarge:
				m.Type, m.Data = MessageSentinel, nil // it takes as much
			}
			if c.has(&m) {
				c.pass(&m, r.frames)
				continue
			}
		}
		cost := c.cost(&m, r.frames)
		if c.asking != r.frames {
			c.asking, c.asked = r.frames, 0
		}
		c.asked += cost
		if most += cost; !r.fits(c, &m, most) {
			return r.skip(now, c, &m) && r.admit(now, n, body)
		}
		lacks = max(lacks, c.lacks(&m, r.frames))
		c.pass(&m, r.frames)
	}
	return most == 0 || r.reserve(most, lacks)
}

// ample reports whether there is twice the room of any frame, so none need be looked into.
func (r *receiving) ample(messages, size int) bool {
	cfg := r.p.cfg
	_, unread := r.p.h.Unread(0)
	cost := 3*size + messages*(entryCost+pieceCost+pageCost+bufferSizes[0]) + cfg.Channels*int(cfg.Packets)/pageSize*8
	return 2*(r.held+unread+cost) <= cfg.ReceiveBuffer && r.reserve(cost, lacksPackets)
}

// fits reports whether a message may be taken that brings a frame's cost to n
// bytes. A channel may hold its share. Beyond that:
//
//   - Packets that depend on no other may hold as much as one packet takes. They can
//     be delivered as soon as they are complete, and all others wait for such packets.
//   - The first packet of the window may hold as much again, because packets that are
//     never finished may have taken that. Once begun, it may be finished, or the peer
//     would send the rest in vain.
//   - A packet that waits for another one gets nothing, or it would take the place of
//     that one.
func (r *receiving) fits(c *receiver, m *Message, n int) bool {
	cfg := r.p.cfg
	unread, all := r.p.h.Unread(int(m.Channel))
	own := c.bytes + unread
	limit := bufferShare(cfg.ReceiveBuffer, r.held+all-own, cfg.Channels)
	if own+n <= limit {
		return true
	}
	one := MinReceiveBuffer(cfg)
	base := c.reach(r.frames)
	if m.Packet == base {
		first := 0
		if e := c.get(base); e != nil {
			first = e.bytes
		}
		if first+c.asked <= one && (first > 0 || unread+c.asked <= one) {
			return true
		}
	}
	if depends(m.Packet, m.Lead, base) || c.extra+c.asked > one ||
		own+c.asked > limit+one && unread+c.extra+c.asked > one {
		return false
	}
	c.over = r.frames
	return true
}

// skipAfter is how long a channel refuses everything before packets are skipped.
const skipAfter = 5 * time.Second

// skip gives up what a channel holds before a message without room, if everything was read
// but nothing taken for a while, and reports whether it did. Lost fragments of unreliable
// packets would keep the room for good. The message depends on none of them.
func (r *receiving) skip(now Clock, c *receiver, m *Message) bool {
	if unread, _ := r.p.h.Unread(int(m.Channel)); unread > 0 || !c.refusing {
		c.refusing, c.refusedAt = true, now
	}
	if now-c.refusedAt < skipAfter || c.dirty || depends(m.Packet, m.Lead, c.base) {
		return false
	}
	old, before := c.base, c.bytes
	c.advance(m.Packet)
	r.held += c.bytes - before
	r.moved(int(m.Channel), c, old)
	return c.bytes < before
}

// MinReceiveBuffer returns the least Config.ReceiveBuffer, in bytes: what the largest
// packet counts, or a frame of the smallest ones, which is taken as a whole or not at all.
func MinReceiveBuffer(c *Config) int {
	n := c.MaxPacket/FragmentSize(c.MTU) + 1
	packet := n*bufferCost(FragmentSize(c.MTU)) + entryCost + pageCost
	frame := c.MTU/FragmentHeaderSize*(bufferCost(0)+entryCost) + 2*pageCost
	return max(packet, frame) + int(c.Packets)/pageSize*8
}

// reserve asks for memory for n bytes beside what is held, in steps. Where little is left for
// all connections, packets that wait for others get none. Otherwise they could take all of it,
// and no connection would get the packets that they wait for.
func (r *receiving) reserve(n int, lacks lack) bool {
	if r.p.cfg.Reserve == nil {
		return true
	}
	missing := r.held + n - r.reserved
	if missing <= 0 {
		return true
	}
	_, unread := r.p.h.Unread(0)
	step := (missing + reserveStep - 1) / reserveStep * reserveStep
	own := r.reserved + unread
	switch lacks {
	case lacksNothing:
		own = r.firsts() + unread
	case lacksPackets:
		own = math.MaxInt - step
	}
	if !r.p.cfg.Reserve(step, own) {
		return false
	}
	r.reserved += step
	r.lent = r.lent || lacks != lacksPackets
	return true
}

// firsts returns the bytes of the first packets of all windows.
func (r *receiving) firsts() (n int) {
	for _, c := range r.channels {
		if c == nil {
			continue
		}
		if e := c.get(c.base); e != nil {
			n += e.bytes
		}
	}
	return n
}

const reserveStep = 4096

// settle gives memory back that is not needed.
func (r *receiving) settle() {
	if r.p.cfg.Reserve == nil {
		return
	}
	spare := r.reserved - r.held
	if r.held > 0 {
		spare -= spare % reserveStep
	}
	if spare >= 4*reserveStep || (r.lent || r.held == 0) && spare > 0 {
		r.p.cfg.Reserve(-spare, 0)
		r.reserved -= spare
	}
	r.lent = false
}

// Keep keeps a packet in n bytes of what it was granted, within HandlePacket.
func (p *Peer) Keep(n int) { p.recv.reserved -= n }

// Unfinished returns the bytes of packets that wait for others, or for their fragments.
func (p *Peer) Unfinished() int { return p.recv.held }

// message handles one message of an accepted frame.
func (r *receiving) message(m *Message) verdict {
	if m.Type == MessageWindowAck {
		return r.p.send.handleWindowAck(int(m.Channel), m.Packet)
	}
	c := r.channel(int(m.Channel))
	if c == nil {
		return outOfReach // Q14
	}
	if c.count == 0 && c.next(m) {
		// As nearly always where nothing is lost: nothing is queued, nor will be.
		r.p.stats.Delivered++
		c.base = nextPacket(m.Packet)
		c.dirty, c.refusing = false, false
		if c.base%c.group == 0 {
			r.p.send.mark(int(m.Channel), m.Packet)
		}
		r.p.h.HandlePacket(int(m.Channel), m.Data)
		return taken
	}
	before := c.bytes
	v := taken
	if m.Type == MessageFragment {
		v = c.check(m)
	}
	switch {
	case m.Type == MessageSentinel:
		v = c.sentinel(m)
	case v == malformed:
		return v
	case v == tooLarge:
		v = c.large(m)
	case c.immediate(m):
		old := c.base
		r.p.stats.Delivered++
		c.advance(nextPacket(m.Packet))
		r.moved(int(m.Channel), c, old)
		c.dirty = c.count > 0
		r.p.h.HandlePacket(int(m.Channel), m.Data)
	default:
		v = c.fragment(m)
	}
	if grown := c.bytes - before; grown > 0 && c.over == r.frames {
		c.get(m.Packet).extra += grown
		c.extra += grown
	}
	r.held += c.bytes - before
	r.dirty = r.dirty || c.dirty
	c.refusing = c.refusing && v != taken
	return v
}

// moved sends a window acknowledgement if one is due.
func (r *receiving) moved(number int, c *receiver, old uint32) {
	if id, ok := c.due(old); ok {
		r.p.send.mark(number, id)
	}
}

func (r *receiving) deliver() {
	if !r.dirty {
		r.settle()
		return
	}
	r.dirty = false
	for n, c := range r.channels {
		if c != nil && c.dirty {
			r.drain(n, c)
			r.dirty = r.dirty || c.dirty
		}
	}
	r.settle()
}

// drain delivers the packets of a channel that may be delivered.
func (r *receiving) drain(n int, c *receiver) {
	old, before := c.base, c.bytes
	for {
		e := c.scan()
		if e == nil {
			break
		}
		if !e.large {
			r.p.stats.Delivered++
			r.p.h.HandlePacket(n, r.assemble(e))
		}
		c.advance(nextPacket(e.id))
	}
	r.held += c.bytes - before
	r.moved(n, c, old)
}

// assemble returns the whole packet.
func (r *receiving) assemble(e *incoming) []byte {
	if len(e.pieces) == 1 {
		return e.pieces[0].data
	}
	r.scratch = r.scratch[:0]
	for i := range e.pieces {
		r.scratch = append(r.scratch, e.pieces[i].data...)
	}
	return r.scratch
}

// compact gives memory back that only a busy connection needs.
func (r *receiving) compact() { r.scratch, r.pool = nil, pool{} }

// free gives all memory back.
func (r *receiving) free() {
	r.channels, r.held, r.dirty = nil, 0, false
	r.compact()
	if r.reserved > 0 {
		r.p.cfg.Reserve(-r.reserved, 0)
		r.reserved = 0
	}
}

// MessageCost returns what a packet of n bytes counts at least, while it is queued.
func MessageCost(c *Config, n int) int {
	cost, piece := entryCost, FragmentSize(c.MTU)
	for ; n > piece; n -= piece {
		cost += bufferCost(piece)
	}
	return cost + bufferCost(n)
}

// MinReserve returns how much Config.Reserve has to grant for one such message.
func MinReserve(c *Config) int {
	return (MinReceiveBuffer(c) + reserveStep - 1) / reserveStep * reserveStep
}
