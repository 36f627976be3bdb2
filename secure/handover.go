package secure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"time"

	"volley/internal/handover"
	"volley/internal/sideband"
)

// ErrMoved ends a session that goes on at another server, or after a restart of its own.
// [Conn.Next] returns the session that follows.
var ErrMoved = errors.New("secure: the session has moved to another server")

// Resumed returns what another server has said of the session when it sent the client here,
// at most 64 bytes, and whether one has.
func (c *Conn) Resumed() (state []byte, ok bool) {
	if c.handed == nil {
		return nil, false
	}
	return *c.handed, true
}

// A server is a Listener as a fleet sees it.
type server Listener

func init() {
	handover.Of = func(l any) handover.Server { return (*server)(l.(*Listener)) }
	handover.LoadKey = loadKey
}

// tell tells a fleet of a session.
func (l *Listener) tell(kind handover.Kind, c *Conn) {
	f := l.watch.Load()
	if f == nil {
		return
	}
	e := handover.Event{Kind: kind, Session: c.session}
	l.seats.mu.Lock()
	e.Generation = c.generation
	l.seats.mu.Unlock()
	if kind != handover.Over && kind != handover.Left {
		e.Conn = &seat{c, l}
	}
	(*f)(e)
}

func (s *server) Watch(f func(handover.Event)) {
	if f == nil {
		s.watch.Store(nil)
		return
	}
	s.watch.Store(&f)
}

func (s *server) Refuse(reason string) {
	if reason == "" {
		s.refusal.Store(nil)
		return
	}
	s.refusal.Store(&reason)
}

func (s *server) Sessions(f func(handover.Session)) {
	for c := range (*Listener)(s).all() {
		f(&seat{c, (*Listener)(s)})
	}
}

// all returns the sessions of now, also those that Accept has not returned.
func (l *Listener) all() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		l.seats.mu.Lock()
		all := make([]*Conn, 0, len(l.seats.sessions))
		for _, c := range l.seats.sessions {
			all = append(all, c)
		}
		l.seats.mu.Unlock()
		for _, c := range all {
			if !yield(c) {
				return
			}
		}
	}
}

func (s *server) Yield(id handover.SessionID, generation uint64) {
	if c := s.seats.yield(time.Now(), id, generation); c != nil {
		sideband.Of(c.Conn).End(ErrMoved, nil)
	}
}

var errTicket = errors.New("secure: the ticket is not one of another server's session")

func (s *server) Seal(id handover.SessionID, b []byte, public string) ([]byte, error) {
	if t, ok := parseTicket(b); !ok || t.session != id {
		return nil, errTicket
	}
	at, err := netip.ParseAddrPort(public)
	if err != nil || !ofServer(at) {
		return nil, fmt.Errorf("secure: %q is not the address of a server, with its port", public)
	}
	return (*Listener)(s).seal(b, at)
}

// seal returns a spare token for the client of another server's session.
func (l *Listener) seal(b []byte, public netip.AddrPort) ([]byte, error) {
	t, ok := parseTicket(b)
	if !ok || !t.handed || t.generation <= 1 {
		return nil, errTicket
	}
	t.serial = l.seats.serial.Add(1)
	tok, err := l.keys.issue(&t, public, spareLifetime)
	if err != nil {
		return nil, err
	}
	defer wipeToken(tok)
	out := make([]byte, 0, elsewhereSize)
	at := public.Addr().As16()
	out = append(out, at[:]...)
	out = binary.LittleEndian.AppendUint16(out, public.Port())
	return appendSpare(out, &t, tok), nil
}

// elsewhereSize is the size of a spare token with the address of its server.
const elsewhereSize = 16 + 2 + 1 + len(sessionID{}) + 8 + sideband.SpareSize

// An elsewhere is a spare token for another server.
type elsewhere struct {
	spare
	server netip.AddrPort
}

// parseElsewhere reads what seal has written.
func parseElsewhere(now time.Time, b []byte) (s elsewhere, id sessionID, ok bool) {
	if len(b) != elsewhereSize {
		return elsewhere{}, id, false
	}
	s.server = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b)).Unmap(), binary.LittleEndian.Uint16(b[16:]))
	if !ofServer(s.server) {
		return elsewhere{}, id, false
	}
	s.spare, id, ok = parseSpare(now, b[18:])
	return s, id, ok
}

// A seat is a Conn of a Listener as a fleet sees it.
type seat struct {
	*Conn
	listener *Listener
}

func (s *seat) Of() net.Conn { return s.Conn }

func (s *seat) ID() (handover.SessionID, uint64) {
	s.listener.seats.mu.Lock()
	defer s.listener.seats.mu.Unlock()
	return s.session, s.generation
}

func (s *seat) Ticket(state []byte) ([]byte, error) {
	if len(state) > maxState {
		return nil, fmt.Errorf("secure: the state of a session has %d bytes, more than %d", len(state), maxState)
	}
	t, err := s.listener.seats.next(s.Conn, nil)
	if err != nil {
		return nil, err
	}
	if s.anonymous {
		t.clientID = 0
	}
	t.identity, t.handed, t.state = s.identity, true, state
	return t.append(nil), nil
}

func (s *seat) Give(spare []byte) {
	sideband.Of(s.Conn.Conn).Send(append([]byte{controlElsewhere}, spare...))
}

func (s *seat) Go(elsewhere bool) {
	msg := []byte{controlGo, 0}
	if elsewhere {
		msg[1] = goElsewhere
	}
	sideband.Of(s.Conn.Conn).Send(msg)
}

// drainPace is how many sessions are told to go in a second, so that the other server is not
// flooded by handshakes.
const drainPace = 500

// Drain empties the server before it stops. New clients get no tokens any more. Each client is
// told to go to another server with the same key, which is reached by the URL to. There a new
// session begins for the client, with the same ClientID and Identity; state, if not nil, returns
// up to 64 bytes of the application's, which [Conn.Resumed] returns there.
// As soon as that session stands, this one ends with [ErrMoved] at both ends. If to is empty,
// the clients dial the URL again that they have dialed, as after a restart.
//
// Drain returns nil when all sessions have ended. Close or Shutdown follows. Else it returns
// the cause of ctx's end, or an error of the other server; then new clients can come again.
func (l *Listener) Drain(ctx context.Context, to string, state func(*Conn) []byte) error {
	reason := "the server is about to stop"
	l.refusal.Store(&reason)
	err := l.sendAll(ctx, to, state)
	if err != nil {
		l.refusal.CompareAndSwap(&reason, nil)
	}
	return err
}

// sendAll sends clients away until none is left.
func (l *Listener) sendAll(ctx context.Context, to string, state func(*Conn) []byte) error {
	var other *sibling
	if to != "" {
		var err error
		if other, err = l.sibling(to); err != nil {
			return err
		}
	}
	pace := time.NewTicker(time.Second / drainPace * drainBatch)
	defer pace.Stop()
	for {
		told := make(map[sessionID]bool)
		for batch := range l.batches(drainBatch) {
			if err := l.send(ctx, batch, other, state); err != nil {
				return err
			}
			for _, c := range batch {
				told[c.session] = true
			}
			select {
			case <-pace.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if len(told) == 0 {
			return nil
		}
		// What was lost is told again. The tokens are new ones: those before may be spent.
		if err := l.awaitEnds(ctx, told, 2*moveStep); err != nil {
			return err
		}
	}
}

const drainBatch = 50 // sessions

// batches returns the sessions of now, some at a time.
func (l *Listener) batches(n int) iter.Seq[[]*Conn] {
	return func(yield func([]*Conn) bool) {
		var batch []*Conn
		for c := range l.all() {
			if batch = append(batch, c); len(batch) == n {
				if !yield(batch) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// awaitEnds waits for the end of sessions, for some time at most.
func (l *Listener) awaitEnds(ctx context.Context, told map[sessionID]bool, most time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errMore)
	defer cancel()
	for c := range l.all() {
		if !told[c.session] {
			continue
		}
		select {
		case <-c.Done():
		case <-ctx.Done():
			if err := context.Cause(ctx); err != errMore {
				return err
			}
			return nil
		}
	}
	return nil
}

var errMore = errors.New("secure: some clients are still here")

// send sends clients away.
func (l *Listener) send(ctx context.Context, batch []*Conn, other *sibling, state func(*Conn) []byte) error {
	if other == nil {
		for _, c := range batch {
			(&seat{c, l}).Go(false)
		}
		return nil
	}
	var asked []*seat
	var tickets [][]byte
	for _, c := range batch {
		s := &seat{c, l}
		var of []byte
		if state != nil {
			of = state(c)
		}
		ticket, err := s.Ticket(of)
		switch {
		case err == errSessionOver:
			continue
		case err != nil:
			return err
		}
		asked, tickets = append(asked, s), append(tickets, ticket)
	}
	spares, err := other.seal(ctx, tickets)
	if err != nil {
		return err
	}
	for i, s := range asked {
		s.Give(spares[i])
		s.Go(true)
	}
	return nil
}
