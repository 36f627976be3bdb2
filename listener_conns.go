package volley

import (
	"iter"

	"volley/internal/datagram"
)

// Conns returns an iterator over the connections that Accept and Dial have
// returned and that have not ended, in no order. It may be used at any time and by
// several goroutines at once. The body of the loop may do anything, also accept,
// close connections and write for as long as it takes: no lock is held meanwhile.
//
// Each connection that is open during the whole loop comes once. One that ends
// before its turn does not come, though it may end right after; one that is
// accepted during the loop may come or not. After Close of the Listener, those
// come that live on.
func (l *Listener) Conns() iter.Seq[*Conn] {
	if l.over != nil {
		return l.over.Each()
	}
	return l.side.Each(acceptedConn)
}

// acceptedConn returns the connection of a Handler if it is one for Conns.
func acceptedConn(h datagram.Handler) (*Conn, bool) {
	hc, ok := h.(*handler)
	if !ok {
		return nil, false
	}
	c := (*Conn)(hc)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, c.accepted && c.out.Err() == nil
}

func (c *Conn) markAccepted() {
	c.mu.Lock()
	c.accepted = true
	c.mu.Unlock()
}
