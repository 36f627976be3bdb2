package netcode

import (
	"iter"

	"volley/internal/datagram"
)

// Conns returns an iterator over the open sessions that Accept has returned, in no
// order. It holds no lock while the body of the loop runs, so that the body may accept
// and close sessions. A session with a connection on top, such as a volley.Conn, must
// be read, written and closed through that.
//
// Each session that is open during the whole loop comes once. A session that is
// accepted during the loop may come. After Close of the Listener, the sessions that
// live on come.
func (l *Listener) Conns() iter.Seq[*Conn] { return l.side.Each(acceptedConn) }

// acceptedConn returns the session of a Handler, and whether it is one for Conns.
func acceptedConn(h datagram.Handler) (*Conn, bool) {
	c := (*Conn)(h.(*handler))
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c, c.accepted && c.out.Err() == nil
}
