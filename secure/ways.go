package secure

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"volley/internal/sideband"
	"volley/netcode"
)

var errNoWay = errors.New("secure: there is no token to move by")

// move tries the spare tokens, and then asks for a token by TCP. The caller has the turn.
func (r *roamer) move(ctx context.Context) error {
	first, ok := r.takeSpare()
	if ok {
		step, cancel := context.WithTimeout(ctx, r.step())
		err := r.moveBySpare(step, &first)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	// Another server is tried for as long as it takes, and TCP beside it, and the other spare. Where
	// there is another server, the spare waits for it, because the first one was not answered.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	own, stop := context.WithCancel(ctx)
	defer stop()
	away, end := r.awayFor(ctx)
	defer end()
	failed := make(chan struct{}) // the token for another server
	ways := []func() error{
		func() error {
			err := r.goElsewhere(away)
			if err != nil && err != errNoWay {
				close(failed)
			}
			return err
		},
		func() error { return r.dialAnew(own, failed) },
	}
	// Servers go by the highest generation, and so the client must not choose a lower one. A token
	// by TCP has a higher one than all before.
	elsewhere := r.generationElsewhere()
	if second, ok := r.takeSpareAbove(elsewhere); ok {
		ways = append(ways, func() error {
			if elsewhere > 0 && !otherHadItsTime(own, failed) {
				second.wipe()
				return errNoWay
			}
			return r.moveBySpare(own, &second)
		})
	}
	if r.byTCP() {
		ways = append(ways, func() error { return r.keepMovingByTCP(own) })
	}
	results := make(chan error, len(ways))
	for _, way := range ways {
		go func() { results <- way() }()
	}
	var over error // the server does not know the session any more
	err := errNoWay
	for range ways {
		switch e := <-results; {
		case e == nil:
			err = nil
			cancel()
		case r.isOver(e):
			over = e
			stop()
			time.AfterFunc(otherStep, end) // the other server has had its time then
		case err == errNoWay:
			err = e
		}
	}
	if err != nil && over != nil {
		sideband.Of(r.conn.Conn).End(over, nil)
		return over
	}
	return err
}

// yieldToOwn waits for a token that the client has shown to its own server, if there is one, until
// that has had time to answer. The caller has reached another server. After the client's network was
// away, both are reached again at the same moment, and the own server keeps the session.
func (r *roamer) yieldToOwn(ctx context.Context) {
	r.mu.Lock()
	shown, wait := r.shown > 0, moveMercy+2*r.rtt
	r.mu.Unlock()
	if !shown {
		return
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// awayFor returns the context of a way to another server beside a move. If the server is heard,
// the other one may have the session already, and this one be about to end it. So the way has
// some time more.
func (r *roamer) awayFor(move context.Context) (away context.Context, end func()) {
	r.mu.Lock()
	life := r.moves.life
	r.mu.Unlock()
	away, cancel := context.WithCancel(life)
	stop := context.AfterFunc(move, func() {
		if context.Cause(move) == errHeard {
			time.AfterFunc(otherStep, cancel)
		} else {
			cancel()
		}
	})
	return away, func() { stop(); cancel() }
}

// isOver reports whether the server does not know the session any more. The name in a URL can
// lead to another server of a fleet, which never knew it.
func (r *roamer) isOver(err error) bool {
	refused := (*RefusedError)(nil)
	if !errors.As(err, &refused) || refused.Reason != errSessionOver.Error() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.others || refused.server == r.from
}

// step returns how long a token is tried alone.
func (r *roamer) step() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.otherLocked() != nil {
		return max(shortStep, 4*r.rtt)
	}
	return max(moveStep, 4*r.rtt)
}

// takeSpare takes the spare token of the lowest generation.
func (r *roamer) takeSpare() (s spare, ok bool) { return r.takeSpareAbove(0) }

// takeSpareAbove takes that of the lowest generation above another.
func (r *roamer) takeSpareAbove(generation uint64) (s spare, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.spares) > 0 {
		s = r.spares[0]
		r.spares = slices.Delete(r.spares, 0, 1)
		if s.generation > max(r.used, generation) && time.Since(s.since) < spareLifetime {
			r.used = s.generation
			return s, true
		}
		s.wipe()
	}
	return spare{}, false
}

// generationElsewhere returns that of the token for another server, 0 if there is none.
func (r *roamer) generationElsewhere() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.otherLocked(); s != nil {
		return s.generation
	}
	return 0
}

// moveBySpare moves by a spare token, which it overwrites.
func (r *roamer) moveBySpare(ctx context.Context, s *spare) error {
	server, err := netip.ParseAddrPort(r.conn.RemoteAddr().String())
	if err != nil {
		return err
	}
	tok, ok := s.token(r.protocol, server)
	if !ok {
		return errNoWay
	}
	return r.moveBy(ctx, tok, s.generation)
}

// moveBy moves by a token, which it overwrites. A generation of 0 is that of a token by TCP,
// which is higher than those of all before.
func (r *roamer) moveBy(ctx context.Context, tok *netcode.Token, generation uint64) error {
	d := *r.dialer
	if udp, ok := d.NetDialer.LocalAddr.(*net.UDPAddr); ok {
		d.NetDialer.LocalAddr = &net.UDPAddr{IP: udp.IP, Zone: udp.Zone} // the port is in use
	}
	r.mu.Lock()
	r.shown++
	r.mu.Unlock()
	newer, err := d.joinAs(ctx, r.address(), tok, func(cfg *netcode.Config) { sideband.OwnMove(cfg, r) })
	r.mu.Lock()
	if err != nil {
		r.shown--
	}
	c, gone := r.conn, r.next != nil
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if gone { // the session goes on at another server, and is not over
		sideband.Of(newer).End(ErrMoved, []byte{controlGone})
		return ErrMoved
	}
	if err := sideband.Of(c.Conn).Move(newer); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation == 0 {
		r.wipeSparesLocked()
	}
	if r.asked, r.askAt = 0, time.Now(); !r.ended {
		r.timer.Reset(0)
	}
	return nil
}

// moveByTCP asks the server for a token by which the session goes on.
func (r *roamer) moveByTCP(ctx context.Context) error {
	r.mu.Lock()
	header := http.Header{}
	if r.dialer.Header != nil {
		header = r.dialer.Header.Clone()
	}
	header.Set(sessionHeader, r.session.String())
	r.mu.Unlock()
	w, err := r.dialer.tokenOfServer(ctx, r.address(), header)
	if err != nil {
		return err
	}
	if err := r.moveBy(ctx, w.Token, 0); err != nil {
		return err
	}
	r.mu.Lock()
	r.proved = time.Now()
	r.mu.Unlock()
	return nil
}

// keepMovingByTCP is moveByTCP, again and again, unless the server does not know the session
// any more.
func (r *roamer) keepMovingByTCP(ctx context.Context) error {
	for wait := moveStep; ; wait = min(2*wait, 4*moveStep) {
		err := r.moveByTCP(ctx)
		if err == nil || ctx.Err() != nil || r.isOver(err) {
			return err
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return err
		}
	}
}

// Rebind moves the session of a client to a fresh socket, as when the application knows that
// the network has changed. Read and Write go on meanwhile. The session stays as it is if an
// error comes: one of [Dialer.Dial], or that matches errors.ErrUnsupported at the server.
// Without a call, a session moves by itself once the server is silent.
func (c *Conn) Rebind(ctx context.Context) error {
	r := c.roamer
	if r == nil {
		return errors.ErrUnsupported
	}
	r.mu.Lock()
	m := r.movesLocked()
	r.mu.Unlock()
	select {
	case <-m.known: // else there is no token to move by
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.Done():
		return net.ErrClosed
	}
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.Done():
		return net.ErrClosed
	}
	defer r.moved()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	return r.move(ctx)
}
