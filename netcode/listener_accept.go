package netcode

import (
	"net/netip"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
)

// An acceptor is a Listener as its sockets see it.
type acceptor Listener

var _ datagram.Acceptor = (*acceptor)(nil)

// HandleUnknown handles and empties datagrams. After a proof, the rest is the session's.
func (a *acceptor) HandleUnknown(now time.Time, from netip.AddrPort, _ bool, bufs [][]byte, out *wire.Batch) datagram.Admit {
	l := (*Listener)(a)
	if l.cfg.Filter != nil && !l.cfg.Filter(from) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, b := range bufs {
		if l.closed {
			return nil
		}
		if l.shared.departed.takes(from, b) {
			bufs[i] = b[:0]
			continue
		}
		sess, reason := l.core.receive(now, from, b, out)
		if reason != dropNone {
			l.shared.drop(reason, from)
		}
		bufs[i] = b[:0]
		if sess != nil {
			return func(now time.Time, dc datagram.Conn) { l.admit(now, dc, sess) }
		}
	}
	l.sweepLocked()
	return nil
}

// sweepLocked schedules a tick of the core, if anything can expire.
func (l *Listener) sweepLocked() {
	if l.armed || l.core.idle() {
		return
	}
	l.armed = true
	l.sweeper = time.AfterFunc(tickInterval, l.sweep)
}

func (l *Listener) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.armed = false
	now := time.Now()
	l.core.tick(now)
	l.sweepLocked()
}

// admit makes the Conn of a client, and queues it for Accept.
func (l *Listener) admit(now time.Time, dc datagram.Conn, sess *session) {
	c := &Conn{listener: l, shared: &l.shared, slot: sess.index, slots: sess.maxClients}
	if l.set.owner != nil {
		dc = datagram.NewMoving(dc)
		c.on.place = sess
	}
	c.init(dc, sess, l.set, l.shared.memory.ReserveKnown)
	l.side.Add()
	dc.Attach((*handler)(c))
	dc.Schedule(sess.keepAliveAt())
	if c.owner != nil && c.owner.Admit(now, c) {
		return
	}
	if !l.side.Push(c) {
		l.refused.Add(1)
		c.Close()
	}
}

// forget frees the slot of a session that is over.
func (l *Listener) forget(c *Conn) {
	l.ended.Add((*handler)(c), (*listenerView)(l).ID())
	l.mu.Lock()
	sess := c.sess
	if c.owner != nil {
		sess = c.on.place
	}
	l.core.remove(sess)
	l.mu.Unlock()
	l.side.Gone(c, c.user.In.Len() > 0)
}
