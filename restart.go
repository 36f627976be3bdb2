package volley

import "errors"

// ErrPeerRestarted ends a connection whose peer does not know it any more: it has
// started again, or hears us from another address than before. Messages that arrived
// before are read first; then every call fails with it. Its Timeout is false; a new
// Dial to the same address makes a new connection at once.
var ErrPeerRestarted = errors.New("volley: the peer does not know the connection, as after a restart")

// A suspicion is kept after a claim that the peer does not know us: anybody may make it.
type suspicion struct {
	token uint64 // of the question, which only the peer's path has seen; 0: there is none
	asked clock  // when it was sent last
}

// clear ends the suspicion with what answers its question, and reports whether that is so.
func (s *suspicion) clear(token uint64) bool {
	ok := s.token != 0 && s.token == token
	if ok {
		s.token = 0
	}
	return ok
}

// noticeLocked handles a notice. It is worth a question if the peer must have known us, and
// has not acknowledged the packet.
func (c *Conn) noticeLocked(now clock, b []byte) bool {
	sequence, ok := parseNotice(b)
	if !ok || !c.endpoint.Acked() || !c.endpoint.inner().Unacknowledged(sequence) {
		return ok
	}
	s := &c.extraLocked().suspicion
	if s.asked != 0 && now-s.asked < askEvery {
		return true
	}
	if s.asked = now; s.token == 0 {
		s.token = newToken()
	}
	out := c.out.Batch(now)
	n := out.Len()
	salute{token: s.token, protocol: c.set.protocol}.put(out.Extend(greetingSize), questionPrefix)
	c.noteAside(now, out, n)
	c.out.Answered()
	return true
}
