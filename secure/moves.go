package secure

import (
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"volley/internal/handover"
	"volley/internal/sideband"
	"volley/netcode"
)

// A session survives its path: its client has spare tokens, by which it makes a new session
// of package netcode from another address, and the Conns of both ends go on as that. The
// Listener tells such a token by its generation. A token of the generation at which the
// session is, or of a lower one, is spent.

const (
	movePace  = 500 * time.Millisecond // between two moves of a session
	sparePace = 250 * time.Millisecond // between two spare tokens for a session, on average
	spareRoom = 4                      // that may come at once

	// So many tokens of a session may have been shown and not used, because each takes a place
	// in the memory of netcode until it expires.
	maxShown = 8

	// Of a request: the session that goes on with the token. Of a reply to others: the session
	// that begins with it.
	sessionHeader = "Volley-Session"
)

var errSessionOver = errors.New("the session is over")

// begin takes note of a session, from its first token.
func (s *seats) begin(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[c.session] = c
}

// ask decides about a request with a token. A session that another server has handed over
// begins here as that of a new client.
func (s *seats) ask(now time.Time, t *ticket) (moves, refused, early bool) {
	if t.generation <= 1 {
		return false, false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.sessions[t.session]
	switch {
	case c == nil:
		return false, !t.handed || s.yieldedLocked(now, t), false
	case t.generation <= c.generation:
		return true, true, false
	case now.Sub(c.moved) < movePace && now.After(c.moved):
		return true, false, true
	}
	return true, !c.showLocked(now, t.generation), false
}

// A shown is a token that was shown and not used.
type shown struct {
	generation uint64
	until      time.Time
}

// showLocked takes note of a token that is shown. It reports false if too many were.
func (c *Conn) showLocked(now time.Time, generation uint64) bool {
	if slices.ContainsFunc(c.shown, func(x shown) bool { return x.generation == generation }) {
		return true
	}
	c.shown = slices.DeleteFunc(c.shown, func(x shown) bool { return !now.Before(x.until) })
	if len(c.shown) >= maxShown {
		return false
	}
	c.shown = append(c.shown, shown{generation, now.Add(spareLifetime)})
	return true
}

// goOnLocked has a session go on by a token.
func (c *Conn) goOnLocked(now time.Time, t *ticket) {
	c.generation, c.moved = t.generation, now
	c.foreign = c.foreign || t.handed
	c.shown = slices.DeleteFunc(c.shown, func(x shown) bool { return x.generation == t.generation })
	if len(c.shown) == 0 {
		c.shown = nil
	}
}

// A yielded is a session that is at another server, or over.
type yielded struct {
	generation uint64
	until      time.Time
}

// yieldedLocked reports whether a token is of no use any more, because the session has been at
// another server since.
func (s *seats) yieldedLocked(now time.Time, t *ticket) bool {
	y, ok := s.elsewhere[t.session]
	return ok && now.Before(y.until) && t.generation <= y.generation
}

// yield notes that a session is at another server with a generation, or over with the highest.
// It returns the Conn that has to end here.
func (s *seats) yield(now time.Time, id sessionID, generation uint64) (former *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.sessions[id]; c != nil && c.generation < generation {
		former = c
	}
	s.yieldLocked(now, id, generation)
	return former
}

func (s *seats) yieldLocked(now time.Time, id sessionID, generation uint64) {
	if now.Sub(s.swept) > spareLifetime {
		s.swept = now
		maps.DeleteFunc(s.elsewhere, func(_ sessionID, y yielded) bool { return !now.Before(y.until) })
	}
	if y := s.elsewhere[id]; generation > y.generation || !now.Before(y.until) {
		if s.elsewhere == nil {
			s.elsewhere = make(map[sessionID]yielded)
		}
		s.elsewhere[id] = yielded{generation, now.Add(spareLifetime + time.Second)}
	}
}

// succeed returns the Conn that goes on by a token, nil if none does. Begins: the session is
// from another server.
func (s *seats) succeed(now time.Time, t *ticket) (c *Conn, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.sessions[t.session]
	switch {
	case c == nil:
		return nil, t.handed && !s.yieldedLocked(now, t)
	case t.generation <= c.generation:
		return nil, false
	}
	c.goOnLocked(now, t)
	return c, false
}

// next returns the ticket of the next token for a session. The grant, if not nil, is for the
// same client.
func (s *seats) next(c *Conn, grant *Grant) (t ticket, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.sessions[c.session] != c:
		return ticket{}, errSessionOver
	case grant != nil && !c.anonymous && grant.ClientID != c.clientID:
		return ticket{}, errSessionOver
	}
	c.issued++
	return ticket{clientID: c.clientID, serial: c.serial, expires: c.expires, session: c.session, generation: c.issued}, nil
}

// takeSpare reports whether a session may have one more spare token by now.
func (s *seats) takeSpare(now time.Time, c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if least := now.Add(-spareRoom * sparePace); c.wanted.Before(least) {
		c.wanted = least
	}
	if c.wanted.After(now) {
		return false
	}
	c.wanted = c.wanted.Add(sparePace)
	return true
}

// Ask implements sideband.Owner.
func (a *accepted) Ask(now time.Time, userData []byte) (moves, refused, early bool) {
	t, ok := parseTicket(userData)
	if !ok {
		return false, false, false // see Admit
	}
	return a.seats.ask(now, &t)
}

// move has the session of a ticket go on as a newer one. It returns false if the session comes
// from another server, and begins here.
func (a *accepted) move(newer *netcode.Conn, t *ticket) bool {
	now := time.Now()
	c, begins := a.seats.succeed(now, t)
	switch {
	case begins:
		return false
	case c == nil:
		// The client tries several tokens at once, also at several servers, and this one was
		// overtaken a moment ago, or Ask would have refused it. The client must not hear that its
		// session is over: if it goes on by this one, it finds silence, and moves again.
		sideband.Of(newer).End(net.ErrClosed, nil)
		newer.Close()
	case sideband.Of(c.Conn).Move(newer) == nil:
		(*Listener)(a).tell(handover.Moved, c)
	}
	return true
}

// giveSpare sends a spare token to a client that wants one.
func (l *Listener) giveSpare(now time.Time, c *Conn) {
	if !l.seats.takeSpare(now, c) {
		return
	}
	t, err := l.seats.next(c, nil)
	if err != nil {
		return
	}
	// The client knows where we are.
	tok, err := l.keys.issue(&t, internalAddress, spareLifetime)
	if err != nil {
		return
	}
	defer wipeToken(tok)
	var b [1 + len(t.session) + 8 + sideband.SpareSize]byte
	defer clear(b[:])
	sideband.Of(c.Conn).Send(appendSpare(b[:0], &t, tok))
}

// goesOn returns the Conn of the session that a request for a token names; nil: it names none.
func (l *Listener) goesOn(r *http.Request) (*Conn, error) {
	text := r.Header.Get(sessionHeader)
	if text == "" {
		return nil, nil
	}
	id, ok := parseSessionID(text)
	if !ok {
		return nil, errors.New("the header " + sessionHeader + " is not 16 bytes in base64")
	}
	l.seats.mu.Lock()
	defer l.seats.mu.Unlock()
	if c := l.seats.sessions[id]; c != nil {
		return c, nil
	}
	return nil, errSessionOver
}

// A spare is a token that a client keeps for a move, in the form in which it came, which takes
// less memory than a Token.
type spare struct {
	generation uint64
	since      time.Time
	packed     *[sideband.SpareSize]byte
}

// token returns the Token, for a server at an address, and overwrites the other form.
func (s *spare) token(protocolID uint64, server netip.AddrPort) (*netcode.Token, bool) {
	defer s.wipe()
	tok, ok := sideband.ParseSpare(s.packed[:], protocolID, server)
	if !ok {
		return nil, false
	}
	return tok.(*netcode.Token), true
}

// wipe overwrites the keys.
func (s *spare) wipe() { clear(s.packed[:]) }

// appendSpare appends the message that brings a spare token.
func appendSpare(b []byte, t *ticket, tok *netcode.Token) []byte {
	b = append(b, controlSpare)
	b = append(b, t.session[:]...)
	b = binary.LittleEndian.AppendUint64(b, t.generation)
	return sideband.AppendSpare(b, tok)
}

// parseSpare reads such a message.
func parseSpare(now time.Time, b []byte) (s spare, session sessionID, ok bool) {
	const head = 1 + len(session) + 8
	if len(b) != head+sideband.SpareSize {
		return spare{}, session, false
	}
	copy(session[:], b[1:])
	s.generation, s.since = binary.LittleEndian.Uint64(b[head-8:]), now
	packed := [sideband.SpareSize]byte(b[head:])
	s.packed = &packed
	return s, session, true
}
