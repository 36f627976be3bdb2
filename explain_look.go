package volley

import (
	"cmp"

	"volley/internal/datagram"
	"volley/internal/socket"
)

// A look is what Explain goes by: how a connection stands at one moment. The zero
// look is that of the time before there was a connection.
type look struct {
	at    clock
	stats Stats

	writeErrors           uint64 // datagrams that the system has not taken
	ended                 error  // why, if it has
	refusal               error  // of the peer's machine, since the peer was heard
	silent                clock  // since anything was heard
	heard                 bool   // anything ever was
	open                  int    // messages whose fate is not known
	variation             clock  // of the latest round-trip times
	oldest                clock  // age of the oldest of them, 0 if it is not known
	forgotten             uint64
	undecided             uint64 // counted as lost by the end
	misfits               uint64 // datagrams refused for their size
	malformed             uint64 // and for another reason
	fragment, maxMessage  int    // sizes, here
	pendingFor            clock  // what is framed waits for that
	busy                  bool   // somebody transmits, or waits for room
	keepAlive, ackDelay   clock
	readBuffer, window    int
	socketBuffer          int    // asked for
	memoryUsed, memoryMax int64  // of all connections
	memoryRefused         uint64 // times
}

// look returns how the connection stands.
func (c *Conn) look() *look {
	stats, below := c.stats()
	l := &look{stats: stats, writeErrors: below.WriteErrors}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.set
	l.at = max(c.now(), 1)
	l.ended = c.out.Err()
	l.silent = l.at - c.lastHeard
	l.heard = c.lastHeard > 0
	l.keepAlive, l.ackDelay = s.keepAlive, s.reliable.AckDelay
	l.readBuffer, l.window, l.socketBuffer = s.readBuffer, s.window, s.socketBuffer
	l.fragment, l.maxMessage = s.reliable.FragmentSize, s.maxMessage
	if b := s.budget; b != nil {
		l.memoryUsed, l.memoryMax, l.memoryRefused = b.Used(), b.Limit(), b.Refused()
	}
	if r := c.rare; r != nil {
		l.forgotten, l.undecided = r.forgotten, r.undecided
		l.stats.Transport.Drops = since(r.earlier.drops, l.stats.Transport.Drops)
		if r.misfits != nil {
			l.misfits, l.malformed = r.misfits.sizes, r.misfits.malformed
		}
		l.writeErrors = since(r.earlier.writeErrors, l.writeErrors)
		l.memoryRefused = since(r.earlier.memoryRefused, l.memoryRefused)
	}
	if c.over() != nil {
		return l
	}
	l.open = c.endpoint.InFlight()
	l.variation = c.endpoint.Inner().RTTVariation()
	if wait, pending := c.endpoint.Inner().LossDue(c.at(l.at)); pending {
		l.oldest = cmp.Or(s.reliable.LostAfter, defaultLostAfter) - wait
	}
	l.pendingFor, l.busy = c.out.Waiting(l.at)
	if e := c.out.Below.Features().Errors; e != nil && socket.IsRefused(e.LastError()) {
		l.refusal = e.LastError()
	}
	return l
}

// An earlier is what had happened to the others that share a socket or a limit of
// memory before a connection began.
type earlier struct{ drops, writeErrors, memoryRefused uint64 }

// noteEarlier keeps what is not to be blamed for what happens from now on. Mostly
// that is nothing.
func (c *Conn) noteEarlier(s datagram.Stats) {
	e := earlier{drops: uint64(s.Socket.Drops), writeErrors: s.WriteErrors}
	if b := c.set.budget; b != nil {
		e.memoryRefused = b.Refused()
	}
	if e != (earlier{}) {
		c.mu.Lock()
		c.rareLocked().earlier = e
		c.mu.Unlock()
	}
}

// noteUndecidedLocked keeps, once the end has counted all that was not acknowledged
// as lost, how many of the messages these are: it does not mean that they are.
func (c *Conn) noteUndecidedLocked() {
	if n := c.counts.messagesLost - c.over().MessagesLost; n > 0 {
		c.rareLocked().undecided = n
	}
}

// since returns by how much a counter has grown. One that a late arrival has taken
// back a little has not.
func since(before, now uint64) uint64 { return now - min(before, now) }
