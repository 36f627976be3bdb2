package netcode

import (
	"context"
	"net"

	"volley/internal/datagram"
)

// Close stops accepting clients, and ends sessions that nobody has accepted.
// Those that were accepted live on; the socket closes with the last of them.
// Close may be called more than once and returns the first call's result.
func (l *Listener) Close() error { return l.side.Close() }

// Shutdown ends the Listener as Close does, and waits for its sessions.
//
//   - At once Accept ends, clients without a session are no longer answered,
//     those in the middle of a handshake included, and sessions that nobody has
//     accepted are ended: their clients are told and read io.EOF.
//   - Sessions that were accepted live on, in both directions, until the
//     application or the client closes them, the timeout of their token ends
//     them, or the socket breaks. When all have ended and the sockets are
//     closed, Shutdown returns nil, also if ctx is over by then, or the error of
//     Close.
//   - If ctx is over before, Shutdown closes the sessions that are left, as
//     [Conn.Close] does: their clients are told, what nobody has read is
//     dropped, and pending calls return an error that matches net.ErrClosed. A
//     connection that was put on top of a session ends with it: what it has
//     received can be read, and then its calls fail with such an error. Then
//     Shutdown returns an error that matches ctx's, which is context.Canceled
//     or context.DeadlineExceeded.
//
// It may be called after Close, more than once, and by several goroutines. The
// clients are not told that they are waited for: that is the application's
// affair, before or meanwhile.
func (l *Listener) Shutdown(ctx context.Context) error { return l.side.Shutdown(ctx) }

// stop ends the handshakes.
func (l *Listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.core.stop()
	if l.sweeper != nil {
		l.sweeper.Stop()
	}
}

// endSession closes a session other than by its user, or by the layer above: so
// that has to learn of it.
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
