package volley

import (
	"cmp"

	"volley/internal/datagram"
	"volley/internal/serve"
	"volley/internal/socket"
)

// A look is a connection at one moment, for Explain. The zero look is before its life.
type look struct {
	at    clock
	stats Stats

	writeErrors           uint64 // datagrams that the system has not taken
	ended                 error  // why, if it has
	refusal               error  // of the peer's machine, since the peer was heard
	silent                clock  // since anything was heard
	movedAt               clock  // when the peer came to be reached by another way
	heard                 bool   // anything ever was
	open                  int    // messages whose fate is not known
	variation             clock  // of the latest round-trip times
	oldest                clock  // age of the oldest of them, 0 if it is not known
	forgotten             uint64
	undecided             uint64 // counted as lost by the end
	rejected              uint64 // datagrams refused for their size
	malformed             uint64 // and for another reason
	fragment, maxMessage  int    // sizes, here
	pendingFor            clock  // what is framed waits for that
	busy                  bool   // somebody transmits, or waits for room
	keepAlive, ackDelay   clock
	readBuffer, window    int
	socketBuffer          int    // asked for
	memoryUsed, memoryMax int64  // of all connections
	memoryRefused         uint64 // times
	late                  serve.Late
}

func (c *Conn) look() *look {
	stats, below := c.stats()
	l := &look{stats: stats, writeErrors: below.WriteErrors, late: c.seat.Late()}
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
	if r := c.extra(); r != nil {
		l.forgotten, l.undecided, l.movedAt = r.forgotten, r.undecided, r.movedAt
		l.stats.Transport.Drops = since(r.earlier.drops, l.stats.Transport.Drops)
		if r.rejected != nil {
			l.rejected, l.malformed = r.rejected.sizes, r.rejected.malformed
		}
		l.writeErrors = since(r.earlier.writeErrors, l.writeErrors)
		l.memoryRefused = since(r.earlier.memoryRefused, l.memoryRefused)
		l.late.Times -= r.earlier.late.Times
		l.late.Total -= r.earlier.late.Total
	}
	if c.over() != nil {
		return l
	}
	l.open = c.endpoint.InFlight()
	l.variation = c.endpoint.inner().RTTVariation()
	if wait, pending := c.endpoint.inner().LossDue(c.at(l.at)); pending {
		l.oldest = cmp.Or(s.reliable.LostAfter, defaultLostAfter) - wait
	}
	l.pendingFor, l.busy = c.out.Waiting(l.at)
	if e := c.out.Below.Features().Errors; e != nil && socket.IsRefused(e.LastError()) {
		l.refusal = e.LastError()
	}
	return l
}

// An earlier is what others had met on the shared socket and memory before.
type earlier struct {
	drops, writeErrors, memoryRefused uint64

	late serve.Late
}

// noteEarlier keeps what was there before, which is mostly nothing.
func (c *Conn) noteEarlier(s datagram.Stats) {
	e := earlier{drops: uint64(s.Socket.Drops), writeErrors: s.WriteErrors}
	if b := c.set.budget; b != nil {
		e.memoryRefused = b.Refused()
	}
	if e != (earlier{}) {
		c.mu.Lock()
		c.extraLocked().earlier = e
		c.mu.Unlock()
	}
}

// noteUndecidedLocked keeps how many messages count as lost only because of the end.
func (c *Conn) noteUndecidedLocked() {
	if n := c.counts.messagesLost - c.over().MessagesLost; n > 0 {
		c.extraLocked().undecided = n
	}
}

// since returns by how much a counter has grown; 0 if a late arrival has taken some back.
func since(before, now uint64) uint64 { return now - min(before, now) }
