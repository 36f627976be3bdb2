package simnet

import (
	"net"
	"net/netip"
	"time"
)

// now returns the time since the start of the network.
func (n *Network) now() time.Duration { return time.Since(n.start) }

// send takes a datagram from a socket into the network.
func (n *Network) send(c *Conn, b []byte, to netip.AddrPort) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.conns[c.public] != c {
		return net.ErrClosed
	}
	now := n.now()
	n.deliverDue(now)
	n.transmit(n.flow(c.public, to), b, now)
	n.arm(now)
	return nil
}

// transmit decides the fate of the next datagram of a flow and sends it on
// its way.
func (n *Network) transmit(f *flow, b []byte, now time.Duration) {
	index := f.index
	f.index++
	f.stats.Sent++
	f.stats.SentBytes += uint64(len(b))
	fate := f.desc.decide(f.key, index, &f.bad)
	switch size := packetSize(len(b), f.to.Addr()); {
	case f.desc.Blackout:
		f.stats.BlackoutDrops++
		return
	case f.desc.MTU > 0 && size > f.desc.MTU:
		f.stats.MTUDrops++
		return
	case fate.lost:
		f.stats.Lost++
		return
	}
	for i := range fate.copies {
		p := newPacket(b)
		p.flow, p.index, p.dup = f, index, i > 0
		if p.dup {
			f.stats.Duplicated++
		}
		n.forward(p, &fate.copy[i], now)
	}
}

// forward queues one copy of a datagram at its link, and schedules its arrival
// or, if nothing delays it, delivers it at once.
func (n *Network) forward(p *packet, c *copyFate, now time.Duration) {
	f := p.flow
	departs, ok := f.link.enqueue(&f.desc, p.size(), now)
	if !ok {
		f.stats.QueueDrops++
		p.free()
		return
	}
	if c.corrupt && len(p.buf) > 0 {
		f.stats.Corrupted++
		bit := c.bit % uint64(8*len(p.buf))
		p.buf[bit/8] ^= 1 << (bit % 8)
	}
	at := departs + c.delay
	if !c.held {
		if f.desc.Ordered {
			at = max(at, f.lastAt)
		}
		f.lastAt = max(at, f.lastAt)
	}
	if at <= now {
		n.deliver(p)
		return
	}
	n.events.push(event{at: at, order: f.key, index: p.index, pkt: p})
}

// enqueue gives a packet to the link. It returns when its last bit has left,
// or false if the queue has no room.
func (l *link) enqueue(desc *Link, size int, now time.Duration) (departs time.Duration, ok bool) {
	if desc.Bandwidth <= 0 {
		return now, true
	}
	backlog := max(0, l.busy-now)
	if limit := desc.queueBytes(); limit >= 0 {
		queued := int64(backlog.Seconds()*float64(desc.Bandwidth)/8 + 0.5)
		if queued+int64(size) > int64(limit) {
			return 0, false
		}
	}
	l.busy = now + backlog + desc.transmission(size)
	return l.busy, true
}

// deliver puts a packet into the receive buffer of its destination.
func (n *Network) deliver(p *packet) {
	f := p.flow
	size := uint64(len(p.buf))
	dst := n.conns[f.to]
	if dst == nil || !dst.accepts(f.from) {
		f.stats.Unreachable++
		p.free()
		return
	}
	late := !p.dup && p.index < f.newest
	f.newest = max(f.newest, p.index+1)
	if !dst.push(p) {
		f.stats.ReceiverDrops++
		p.free()
		return
	}
	f.stats.Delivered++
	f.stats.DeliveredBytes += size
	if late {
		f.stats.Reordered++
	}
}

// deliverDue handles the events that are due.
func (n *Network) deliverDue(now time.Duration) {
	for len(n.events) > 0 && n.events[0].at <= now {
		e := n.events.pop()
		if e.pkt != nil {
			n.deliver(e.pkt)
		} else {
			n.runStep(&e)
		}
	}
}

// arm sets the timer to the first event.
func (n *Network) arm(now time.Duration) {
	if len(n.events) == 0 {
		return
	}
	at := n.events[0].at
	if n.armed >= 0 && n.armed <= at {
		return
	}
	n.armed = at
	wait := max(0, at-now)
	if n.timer == nil {
		n.timer = time.AfterFunc(wait, n.fire)
	} else {
		n.timer.Reset(wait)
	}
}

// fire is called by the timer, in a goroutine of its own. It runs what is due
// and sets the timer again.
func (n *Network) fire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armed = -1
	now := n.now()
	n.deliverDue(now)
	n.arm(now)
}

// dropEvents empties the network.
func (n *Network) dropEvents() {
	for _, e := range n.events {
		if e.pkt != nil {
			e.pkt.free()
		}
	}
	n.events = nil
	n.steps = nil
	if n.timer != nil {
		n.timer.Stop()
	}
}
