package netcode

import (
	"iter"

	"volley/internal/datagram"
)

// Conns returns an iterator over the sessions that Accept has returned and that
// have not ended, in no order. It may be used at any time and by several
// goroutines at once. The body of the loop may do anything, also accept and close
// sessions: no lock is held meanwhile. Only what has been put on top of a session,
// such as a volley.Conn, may read, write and close it; the methods that only ask,
// such as [Conn.ClientID], are for everybody.
//
// Each session that is open during the whole loop comes once. One that ends
// before its turn does not come, though it may end right after; one that is
// accepted during the loop may come or not. After Close of the Listener, those
// come that live on.
func (l *Listener) Conns() iter.Seq[*Conn] { return l.side.Each(acceptedConn) }

// acceptedConn returns the session of a Handler if it is one for Conns.
func acceptedConn(h datagram.Handler) (*Conn, bool) {
	c := (*Conn)(h.(*handler))
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c, c.accepted && c.out.Err() == nil
}

func (c *Conn) markAccepted() {
	c.sendMu.Lock()
	c.accepted = true
	c.sendMu.Unlock()
}
