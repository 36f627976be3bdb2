package netcode

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
)

// A session that has an owner can move: it goes on with the keys and the addresses of a
// newer session of the same client, whose handshake has shown that the client is there.

// goesOn is what a Conn with an owner needs to move.
type goesOn struct {
	heard atomic.Int64 // when the peer was heard last, in nanoseconds since born
	asked int64        // when a message was sent after that; guarded by sendMu
	moved uint64       // how often; guarded by sendMu
	place *session     // that the Listener has in its core; guarded by the Listener's mu
}

// noteHeard notes that the peer lives.
func (c *Conn) noteHeard(now time.Time) { c.on.heard.Store(int64(now.Sub(c.born))) }

// noteAskedLocked notes that a message is on its way, which the peer might answer.
func (c *Conn) noteAskedLocked(now time.Time) {
	if c.on.asked <= c.on.heard.Load() {
		c.on.asked = int64(now.Sub(c.born))
	}
}

// moves returns how often the session has moved.
func (c *Conn) moves() uint64 {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.on.moved
}

// takeOver has c go on as n, a session that nobody has been given yet, and which is over then.
// If c has ended, n ends, too, and tells its peer.
func (c *Conn) takeOver(now time.Time, n *Conn) error {
	former, early, err := c.swap(now, n)
	if err != nil {
		n.Close()
		return err
	}
	former.Close()
	c.seat.Moved(c.dc.Features().After)
	c.recvMu.Lock()
	upper := c.upper
	if upper == nil && len(early) > 0 {
		c.queueLocked(early)
	}
	c.recvMu.Unlock()
	if upper != nil {
		if m, ok := upper.(datagram.Mover); ok {
			m.HandleMove(now)
		}
		if len(early) > 0 {
			c.deliver(now, upper, early)
		}
	}
	c.dc.Schedule(now)
	return nil
}

// swap gives c the halves and the path of n. It returns the former path, and what n has received.
func (c *Conn) swap(now time.Time, n *Conn) (former datagram.Conn, early [][]byte, err error) {
	c.recvMu.Lock()
	defer c.recvMu.Unlock()
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	switch err := c.out.Err(); {
	case err == io.EOF:
		return nil, nil, datagram.ErrPeerClosed
	case err != nil:
		return nil, nil, err
	case c.ended:
		return nil, nil, net.ErrClosed
	}
	n.recvMu.Lock()
	defer n.recvMu.Unlock()
	n.sendMu.Lock()
	defer n.sendMu.Unlock()
	if err := n.out.Err(); err != nil {
		return nil, nil, err
	}
	if n.listener != nil {
		n.listener.leaveFor(n, c)
	}
	n.ended = true
	n.out.End(net.ErrClosed)
	early = n.early()
	n.user.In.Fail(net.ErrClosed)
	c.exchangeLocked(now, n)
	if c.out.Pending() {
		c.out.Batch(0).Reset() // nobody could open that any more
	}
	return c.dc.(*datagram.Moving).Move(n.dc.(*datagram.Moving)), early, nil
}

// exchangeLocked takes over the halves of n's session, and goes on counting.
func (c *Conn) exchangeLocked(now time.Time, n *Conn) {
	sess, next := c.sess, n.sess
	packets := sess.send.packets()
	sess.send.cipher.wipe()
	sess.recv.cipher.wipe()
	drops := sess.recv.drops
	sess.send, sess.recv = next.send, next.recv
	next.send, next.recv = sender{}, receiver{}
	sess.send.start -= packets
	sess.recv.addDrops(drops)
	sess.confirmed, sess.spoken = next.confirmed, next.spoken
	sess.addr = next.addr
	c.alive = n.alive
	c.on.moved++
	c.on.asked = 0
	c.noteHeard(now)
}

// addDrops adds the counters of the time before.
func (r *receiver) addDrops(before *dropCounts) {
	switch {
	case before == nil:
	case r.drops == nil:
		r.drops = before
	default:
		for reason, n := range before {
			r.drops[reason] += n
		}
	}
}

// leaveFor has the session of n in the core take the place of c's. The locks of both are held.
func (l *Listener) leaveFor(n, c *Conn) {
	l.mu.Lock()
	l.core.replace(c.on.place, n.on.place)
	c.on.place, n.on.place = n.on.place, nil
	l.mu.Unlock()
	l.side.Gone(n, false)
}

// replace removes a session for which a newer one of its client stands, and which keeps its
// index.
func (s *server) replace(old, newer *session) {
	if s.sessions[old.addr] == old {
		delete(s.sessions, old.addr)
		delete(s.ids, old.id)
	}
	s.slots.put(newer.index)
	newer.index = old.index
	s.counts.accepted-- // it is the same client
}
