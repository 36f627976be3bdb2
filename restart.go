package volley

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// ErrPeerRestarted ends a connection whose peer does not know it any more: it
// has started again, has closed the connection, or hears us from another
// address than before. Only Config.RestartNotice, set on both sides, brings it
// about. Messages that arrived before are read first; then every call fails
// with it. It matches net.ErrClosed, and its Timeout is false; a new Dial to the
// same address makes a new connection at once.
var ErrPeerRestarted error = &closedError{"volley: the peer does not know the connection, as after a restart"}

// askEvery is the shortest time between two questions of a connection, which
// whoever forges notices makes it send.
const askEvery = 100 * time.Millisecond

// A suspicion is what a connection keeps once it was told that its peer does not
// know it: anybody may have said so.
type suspicion struct {
	token  uint64 // which only the owner of the peer's address gets to know
	asked  clock  // when it was sent last
	raised bool   // there is a token
	proved bool   // by an answer that had it
}

// raise notes that the token is sent.
func (s *suspicion) raise(now clock) {
	if !s.raised {
		s.raised, s.token = true, newToken()
	}
	s.asked = now
}

// check takes the token of an answer.
func (s *suspicion) check(token uint64) {
	if s.raised && token == s.token {
		s.proved = true
	}
}

// noticeLocked handles a datagram that is no packet, and may be a notice or an
// answer. A notice is believed to the point that a question is worth it: the
// peer must have known us once, and the packet must be one that it has not
// acknowledged.
func (c *Conn) noticeLocked(now clock, b []byte) {
	if token, ok := parseAnswer(b); ok {
		if c.rare != nil {
			c.rare.suspicion.check(token)
		}
		return
	}
	sequence, ok := parseNotice(b)
	if !ok || !c.endpoint.Acked() || !c.endpoint.Unacknowledged(sequence) {
		return
	}
	s := &c.rareLocked().suspicion
	if s.raised && now-s.asked < askEvery {
		return
	}
	s.raise(now)
	out := c.out.Batch(now)
	n := out.Len()
	putAsk(out.Extend(askSize), s.token)
	c.noteAside(now, out, n)
	c.out.Answered()
}

// restarted reports whether the peer is known to have lost the connection.
func (c *Conn) restarted() bool { return c.rare != nil && c.rare.suspicion.proved }

func newToken() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
