package secure

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"volley/internal/sideband"
	"volley/netcode"
)

// keepOther keeps a spare token for another server, if it is newer.
func (r *roamer) keepOther(now time.Time, msg []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, id, ok := parseElsewhere(now, msg[1:])
	if !ok || r.ended || s.generation <= r.used || r.other != nil && s.generation <= r.other.generation {
		return
	}
	if r.other != nil {
		r.other.wipe()
	}
	r.knowLocked(id)
	r.other, r.others = &s, true
}

// otherLocked returns the spare token for another server, nil if there is none that still holds.
func (r *roamer) otherLocked() *elsewhere {
	if r.other == nil || time.Since(r.other.since) >= spareLifetime {
		return nil
	}
	return r.other
}

// leave goes to another server, or ends the session for the application to dial again.
func (r *roamer) leave(elsewhere bool) {
	if !elsewhere {
		r.mu.Lock()
		c := r.conn
		r.mu.Unlock()
		if c != nil {
			r.endBy(c, nil, ErrMoved)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.takeTurnLocked() { // the server says it again
		return
	}
	life := r.moves.life
	go func() {
		defer r.moved()
		r.goElsewhere(life)
	}()
}

// goElsewhere begins the session that follows this one at another server. The caller has the
// turn of a move.
func (r *roamer) goElsewhere(ctx context.Context) error {
	r.mu.Lock()
	s, c := r.otherLocked(), r.conn
	if s == nil || c == nil {
		r.mu.Unlock()
		return errNoWay
	}
	r.other = nil
	tok, ok := s.token(r.protocol, s.server)
	if !ok {
		r.mu.Unlock()
		return errNoWay
	}
	a := r.address()
	if r.byTCP() {
		a.at = s.server.String()
	}
	next := newRoamer(r.dialer, a)
	next.knowLocked(r.session)
	next.used, next.from = s.generation, s.server.String()
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, maxJoin)
	defer cancel()
	following, err := r.dialer.begin(ctx, a, tok, next)
	if err != nil {
		return err
	}
	r.yieldToOwn(ctx)
	if ctx.Err() != nil { // it has gone on by a token of a higher generation
		following.Close()
		return ctx.Err()
	}
	r.endBy(c, following, ErrMoved)
	return nil
}

var errSameServer = errors.New("secure: the URL leads to the server that does not answer")

// dialAnew dials the URL until that gives a session at another server. It gives the other ways
// some time before, or until the token for another server has failed.
func (r *roamer) dialAnew(ctx context.Context, failed <-chan struct{}) error {
	r.mu.Lock()
	others := r.others
	r.mu.Unlock()
	if !others {
		return errNoWay // the URL leads to the same server
	}
	if !otherHadItsTime(ctx, failed) {
		return errNoWay
	}
	a := r.address()
	a.at = ""
	for wait := redialFirst; ; wait = min(2*wait, 4*moveStep) {
		err := r.dialOther(ctx, a)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if again, _ := retry(err); !again && err != errSameServer {
			return err
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return err
		}
	}
}

// otherHadItsTime waits until the token for another server has failed, or has had some time. It
// returns false if ctx ends before.
func otherHadItsTime(ctx context.Context, failed <-chan struct{}) bool {
	select {
	case <-failed:
	case <-time.After(otherStep):
	case <-ctx.Done():
		return false
	}
	return true
}

// dialOther dials, and ends the session for the new one. The server of the session has better
// ways, by which it goes on.
func (r *roamer) dialOther(ctx context.Context, a address) error {
	w, err := r.dialer.token(ctx, a)
	if err != nil {
		return err
	}
	r.mu.Lock()
	c := r.conn
	r.mu.Unlock()
	if slices.ContainsFunc(w.Info().Servers, func(s netip.AddrPort) bool { return s.String() == c.RemoteAddr().String() }) {
		wipeToken(w.Token)
		return errSameServer
	}
	following, err := r.dialer.join(ctx, a, w)
	if err != nil {
		return err
	}
	r.yieldToOwn(ctx)
	if ctx.Err() != nil { // another way was found meanwhile
		following.Close()
		return ctx.Err()
	}
	r.endBy(c, following, netcode.ErrIdleTimeout)
	return nil
}

// endBy ends a session for the following one, if any, and tells its server.
func (r *roamer) endBy(c, following *Conn, why error) {
	r.mu.Lock()
	first := r.next == nil
	if first && following != nil {
		r.next = newSuccessor(following)
	}
	r.mu.Unlock()
	if first {
		sideband.Of(c.Conn).End(why, []byte{controlGone})
	}
	if following != nil && (!first || c.Err() != why) { // the application has closed it meanwhile
		following.Close()
	}
}

// nextTime is how long a session that follows another one waits for Next.
const nextTime = 30 * time.Second

// A successor is a session that follows another one. If nobody asks for it, it is closed,
// because it would live for good.
type successor struct {
	conn  *Conn
	lapse *time.Timer

	mu              sync.Mutex
	claimed, lapsed bool
}

func newSuccessor(c *Conn) *successor {
	s := &successor{conn: c}
	s.lapse = time.AfterFunc(nextTime, s.drop)
	return s
}

func (s *successor) drop() {
	s.mu.Lock()
	s.lapsed = !s.claimed
	lapsed := s.lapsed
	s.mu.Unlock()
	if lapsed {
		s.conn.Close()
	}
}

// claim returns the session, or nil if it was closed.
func (s *successor) claim() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lapsed {
		return nil
	}
	s.claimed = true
	s.lapse.Stop()
	return s.conn
}

// Next waits until the session of a client is over, and returns the one that follows:
//   - after [ErrMoved], the session at the server to which the client was sent, which is
//     closed if nobody has asked for it within 30 s;
//   - after silence, or if the server has closed the session or does not know it any more,
//     a session by [Dialer.Redial].
//
// It returns the error of the end if the application has called Close, or if the server has
// said why it has closed the session, as to a client that it does not want. The other errors
// are those of Redial, and errors.ErrUnsupported at the server. So a client is one loop:
//
//	c, err := secure.Dial(ctx, url)
//	for err == nil {
//		talk(c) // until Read fails
//		c, err = c.Next(ctx)
//	}
func (c *Conn) Next(ctx context.Context) (*Conn, error) {
	r := c.roamer
	if r == nil {
		return nil, errors.ErrUnsupported
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.mu.Lock()
	s := r.next
	r.mu.Unlock()
	if s != nil {
		if next := s.claim(); next != nil {
			return next, nil
		}
	}
	switch err := c.Err(); {
	case err == net.ErrClosed, err != io.EOF && errors.As(err, new(*CloseError)):
		return nil, err
	}
	addresses := []address{r.address()}
	if r.at != "" { // that server may be gone for good
		there := r.address()
		there.at = ""
		addresses = append(addresses, there)
	}
	return r.dialer.redial(ctx, addresses)
}

const (
	redialFirst   = 250 * time.Millisecond
	redialLongest = 15 * time.Second
)

// Redial is Dial, again and again. It waits for 250 ms, and twice as long after each failure, up
// to 15 s, less a random part of up to a half. It waits longer if the server asks for that. It
// returns an error if ctx ends, if the server refuses the client for good, if it has
// another key or speaks another version, or if the URL is wrong.
func (d *Dialer) Redial(ctx context.Context, url string) (*Conn, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return d.redial(ctx, []address{a})
}

// redial is Redial by several addresses in turn.
func (d *Dialer) redial(ctx context.Context, addresses []address) (*Conn, error) {
	for wait := redialFirst; ; wait = min(2*wait, redialLongest) {
		var asked time.Duration
		for _, a := range addresses {
			c, err := d.dial(ctx, a)
			if err == nil {
				return c, nil
			}
			if ctx.Err() != nil {
				return nil, err
			}
			again, after := retry(err)
			if !again {
				return nil, err
			}
			asked = max(asked, after)
		}
		select {
		case <-time.After(max(wait/2+rand.N(wait/2), asked)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// retry reports whether an error of Dial may pass, and how long the server asks to wait.
func retry(err error) (again bool, after time.Duration) {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return refused.RetryAfter > 0, refused.RetryAfter
	}
	if failed := (*DialError)(nil); errors.As(err, &failed) {
		switch failed.Step {
		case "tls", "clock", "version":
			return false, 0
		}
		return true, 0
	}
	return false, 0
}
