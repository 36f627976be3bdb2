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

// HandleUnknown handles the datagrams of an address without a session. It empties
// them. As soon as a client has proved its address, the remaining datagrams are for
// its session.
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
			return func(_ time.Time, dc datagram.Conn) { l.admit(dc, sess) }
		}
	}
	l.sweepLocked(now)
	return nil
}

// sweepLocked schedules a tick of the core, if anything can expire.
func (l *Listener) sweepLocked(now time.Time) {
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
	l.sweepLocked(now)
}

// admit makes the Conn of a client, and queues it for Accept.
func (l *Listener) admit(dc datagram.Conn, sess *session) {
	c := &Conn{shared: &l.shared, slot: sess.index, slots: sess.maxClients}
	c.init(dc, sess, l.set, l.shared.memory.ReserveKnown)
	c.onClose = func() { l.forget(c) }
	l.side.Add()
	dc.Attach((*handler)(c))
	dc.Schedule(sess.keepAliveAt())
	if !l.side.Push(c) {
		l.refused.Add(1)
		c.Close()
	}
}

// forget frees the slot of a session that is over.
func (l *Listener) forget(c *Conn) {
	l.ended.Add((*handler)(c), (*listenerView)(l).ID())
	l.mu.Lock()
	l.core.remove(c.sess)
	l.mu.Unlock()
	l.side.Gone(c, c.user.In.Len() > 0)
}
