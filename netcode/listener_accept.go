package netcode

import (
	"net/netip"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
)

// An acceptor is a Listener as its socket sees it.
type acceptor Listener

var _ datagram.Acceptor = (*acceptor)(nil)

// HandleUnknown handles the datagrams of an address without a session. Once a
// client has proved its address, the rest of its datagrams are for the
// session; those before are emptied.
func (a *acceptor) HandleUnknown(now time.Time, from netip.AddrPort, bufs [][]byte, out *wire.Batch) (create bool) {
	l := (*Listener)(a)
	if l.cfg.Filter != nil && !l.cfg.Filter(from) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, b := range bufs {
		if l.closed {
			return false
		}
		sess, reason := l.core.receive(now, from, b, out)
		if reason != DropNone {
			l.shared.drop(reason, from)
		}
		bufs[i] = b[:0]
		if sess != nil {
			return true
		}
	}
	l.sweepLocked(now)
	return false
}

// sweepLocked arranges for the core to forget what expires.
func (l *Listener) sweepLocked(now time.Time) {
	if l.armed || l.core.idle() {
		return
	}
	l.armed = true
	if l.sweeper == nil {
		l.sweeper = time.AfterFunc(tickInterval, l.sweep)
	} else {
		l.sweeper.Reset(tickInterval)
	}
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

// HandlePeer makes the Conn of a client that was let in, and queues it for
// Accept.
func (a *acceptor) HandlePeer(now time.Time, dc datagram.Conn) {
	l := (*Listener)(a)
	l.mu.Lock()
	sess := l.core.sessions[dc.(*datagram.Peer).AddrPort()]
	l.mu.Unlock()
	if sess == nil {
		dc.Close()
		return
	}
	c := &Conn{shared: &l.shared, slot: sess.index, slots: sess.maxClients}
	c.init(dc, sess, l.set, l.shared.reserve)
	c.onClose = func() { l.forget(c) }
	l.shared.conns.Add(1)
	dc.Attach((*handler)(c))
	dc.Schedule(sess.keepAliveAt())
	if !l.queue.Push(c) {
		l.refused.Add(1)
		c.Close()
	}
}

// forget frees the slot of a session that is over, and its place in the backlog
// if it is still there. While it has something to read, it keeps that until a
// new one needs it.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	l.core.remove(c.sess)
	l.mu.Unlock()
	l.shared.conns.Add(-1)
	if c.in.Len() > 0 {
		l.queue.Ended(c)
	} else {
		l.queue.Remove(c)
	}
}
