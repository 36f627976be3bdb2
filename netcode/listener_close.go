package netcode

import (
	"context"
	"iter"
	"net"

	"volley/internal/datagram"
)

// Close stops accepting clients, and ends sessions that Accept has not returned. The
// other sessions live on; the socket closes with the last of them. Later calls return
// the result of the first.
func (l *Listener) Close() error { return l.side.Close() }

// Shutdown ends the Listener as Close does, and waits for its sessions. It does not
// tell the clients that it waits for them.
//
//   - Accept ends at once, and so do the handshakes and the sessions that Accept has
//     not returned. The clients of these sessions are told and read io.EOF.
//   - The other sessions live on until the application or the client closes them,
//     their timeout ends them, or the socket breaks. After the last, Shutdown returns
//     nil or the error of Close.
//   - If ctx ends before, Shutdown closes the remaining sessions, as [Conn.Close]
//     does, and returns ctx's error. A connection on top of a session ends, too: its
//     received messages can be read, and then its calls fail with an error that
//     matches net.ErrClosed.
//
// It may be called after Close, more than once, and concurrently.
func (l *Listener) Shutdown(ctx context.Context) error { return l.side.Shutdown(ctx) }

func (l *Listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.core.stop()
	if l.sweeper != nil {
		l.sweeper.Stop()
	}
}

// endSession closes a session, and tells the layer above, which has not asked for it.
func endSession(h datagram.Handler) {
	c := (*Conn)(h.(*handler))
	c.recvMu.Lock()
	upper := c.upper
	c.recvMu.Unlock()
	c.Close()
	if upper != nil {
		upper.HandleClose(net.ErrClosed)
	}
}

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
