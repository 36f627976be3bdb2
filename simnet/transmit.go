package simnet

import (
	"net"
	"net/netip"
	"syscall"
	"time"
)

func (n *Network) now() time.Duration { return time.Since(n.start) }

func (n *Network) send(c *Conn, b []byte, to netip.AddrPort) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.ends[c.ends[0].addr] != &c.ends[0] {
		return net.ErrClosed
	}
	e := n.source(c, to.Addr())
	if e == nil {
		return syscall.ENETUNREACH
	}
	now := n.now()
	n.deliverDue(now)
	from, ok := e.addr, true
	if e.nat != nil && !e.nat.inside.Contains(to.Addr()) {
		from, ok = e.nat.outward(e, to.Addr(), now)
		ok = ok && !n.down[from.Addr()]
	}
	f := n.flow(from, to)
	if !ok { // the NAT can't send it
		f.stats.Sent++
		f.stats.SentBytes += uint64(len(b))
		f.stats.Unreachable++
		return nil
	}
	n.transmit(f, b, now)
	n.arm(now)
	return nil
}

// source returns the endpoint of a socket from which it sends to a host, or nil. Only a socket with
// several addresses has to look at the family.
func (n *Network) source(c *Conn, to netip.Addr) *endpoint {
	for i := range c.ends {
		e := &c.ends[i]
		if host := e.addr.Addr(); !n.down[host] && (len(c.ends) == 1 || host.Is4() == to.Is4()) {
			return e
		}
	}
	return nil
}

// transmit decides the fate of the next datagram of a flow and sends it on its way.
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

// forward queues a copy at its link, and schedules its arrival, or delivers it at once.
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
		n.deliver(p, now)
		return
	}
	n.events.push(event{at: at, order: f.key, index: p.index, pkt: p})
}

// enqueue returns when the last bit of a packet leaves, or false if the queue is full.
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
func (n *Network) deliver(p *packet, now time.Duration) {
	f := p.flow
	size := uint64(len(p.buf))
	dst := n.destination(f, now)
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

// destination returns the socket at which a flow ends, or nil.
func (n *Network) destination(f *flow, now time.Duration) *Conn {
	if n.down[f.to.Addr()] {
		return nil
	}
	var e *endpoint
	if t := n.nats[f.to.Addr()]; t != nil {
		e = t.inward(f.from.Addr(), f.to.Port(), now)
		if e != nil && n.down[e.addr.Addr()] {
			return nil
		}
	} else if e = n.ends[f.to]; e != nil && e.nat != nil && !e.nat.inside.Contains(f.from.Addr()) {
		return nil // the outside knows the public address only
	}
	if e == nil {
		return nil
	}
	return e.conn
}

func (n *Network) deliverDue(now time.Duration) {
	for len(n.events) > 0 && n.events[0].at <= now {
		e := n.events.pop()
		if e.pkt != nil {
			n.deliver(e.pkt, now)
		} else {
			n.runStep(&e)
		}
	}
}

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

// fire runs what is due and sets the timer again. It has a goroutine of its own.
func (n *Network) fire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armed = -1
	now := n.now()
	n.deliverDue(now)
	n.arm(now)
}

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
