package secure

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"volley/internal/sideband"
	"volley/netcode"
)

// A roamer keeps the session of a client alive when its way to the server ends. It holds
// spare tokens. When the server is silent, it asks whether the server is there, and then
// makes a new session from a fresh socket, beside the old way. The session goes on by
// whichever answers.
type roamer struct {
	dialer *Dialer
	url    string // that parseURL takes
	at     string // as that of an address
	from   string // as that of a welcome

	mu       sync.Mutex
	conn     *Conn // nil before Dial has it
	protocol uint64
	session  sessionID  // zero before a backend's client has a spare token
	moves    *moves     // nil before the first
	used     uint64     // the highest generation that was shown to the server
	spares   []spare    // of higher ones, in order
	other    *elsewhere // for another server; nil: there is none
	others   bool       // there was one
	ended    bool
	shown    int32      // tokens that its own server may be about to take
	next     *successor // which follows at another server
	asked    int32      // for spares, since one came
	otherAsk int32      // how often one for another server was asked for alone
	askAt    time.Time
	otherAt  time.Time // when it is asked for next
	rtt      time.Duration
	pinged   time.Time // in this silence
	pingID   uint64    // of the ping that is not answered; 0: there is none
	pingSent time.Time // when it left
	timer    *time.Timer

	cancel context.CancelFunc // of a move because of silence; nil: there is none
	proved time.Time          // when a token came by TLS last
}

const (
	spares       = 2
	spareRenewal = spareLifetime / 2
	askFirst     = 500 * time.Millisecond
	askLongest   = 30 * time.Second
	otherAsks    = 5 // which may be too many, because most servers have no others

	leastSilence = 250 * time.Millisecond  // until a ping, or three round trips
	leastAnswer  = 150 * time.Millisecond  // for its answer, or two round trips
	idleSilence  = 1250 * time.Millisecond // where nothing was asked: longer than between keep alives
	longestTrip  = time.Second
	moveJitter   = 200 * time.Millisecond
	moveStep     = time.Second            // for the challenge, before the next token is tried
	shortStep    = moveStep / 2           // the same, if one of them is for another server
	otherStep    = 3 * time.Second        // for another server, before the URL is dialed again
	moveMercy    = 250 * time.Millisecond // for a move once the old way is heard, or two round trips: the server may know of it

	// The keys of spare tokens come by the session that they follow. So every hour a session
	// goes on by keys from TLS, and nobody follows it for longer who has stolen older ones.
	proofPeriod = time.Hour
)

// moves are what the moves of a session need.
type moves struct {
	life  context.Context // of the session
	end   context.CancelFunc
	turn  chan struct{} // holds a token while a move is tried
	known chan struct{} // closed when the session is known
}

func newRoamer(d *Dialer, a address) *roamer {
	return &roamer{dialer: d, url: a.String(), at: a.at}
}

// address returns where the client asks for tokens.
func (r *roamer) address() address {
	a, _ := parseURL(r.url)
	a.at = r.at
	return a
}

// byTCP reports whether the server itself gives tokens.
func (r *roamer) byTCP() bool { return strings.HasPrefix(r.url, "volley:") }

// movesLocked returns what moves need.
func (r *roamer) movesLocked() *moves {
	if r.moves == nil {
		m := &moves{turn: make(chan struct{}, 1), known: make(chan struct{})}
		m.life, m.end = context.WithCancel(context.Background())
		if r.ended {
			m.end()
		}
		if r.session != (sessionID{}) {
			close(m.known)
		}
		r.moves = m
	}
	return r.moves
}

// takeTurnLocked takes the turn of a move, if nobody has it.
func (r *roamer) takeTurnLocked() bool {
	select {
	case r.movesLocked().turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// start begins to watch a session.
func (r *roamer) start(c *Conn, protocolID uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn, r.protocol, r.used, r.proved = c, protocolID, max(r.used, 1), time.Now()
	r.timer = time.AfterFunc(0, r.look)
}

// Protocol implements sideband.Owner, as the other methods do.
func (*roamer) Protocol() string { return "secure" }

func (*roamer) Label(net.Conn) string { return "" }

func (*roamer) Ask(time.Time, []byte) (moves, refused, early bool) { return false, false, false }

func (*roamer) Admit(time.Time, net.Conn) (kept bool) { return false }

// Ended ends the watch.
func (r *roamer) Ended(session net.Conn) {
	r.mu.Lock()
	c := r.conn
	mine := c != nil && net.Conn(c.Conn) == session
	if mine {
		r.ended = true
		r.timer.Stop()
		if r.moves != nil {
			r.moves.end()
		}
		r.wipeSparesLocked()
		if r.other != nil {
			r.other.wipe()
			r.other = nil
		}
	}
	r.mu.Unlock()
	if mine {
		c.over()
	}
}

// Broken has the session move at once. A session that is being dialed just fails.
func (r *roamer) Broken(session net.Conn, err error) (stays bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == io.EOF || r.conn == nil || net.Conn(r.conn.Conn) != session || r.session == (sessionID{}) || r.ended {
		return false
	}
	r.moveSoonLocked(false)
	return true
}

func (r *roamer) Control(now time.Time, session net.Conn, msg []byte) {
	switch {
	case handleControl(session, msg):
	case msg[0] == controlSpare:
		r.keepSpare(now, session, msg)
	case msg[0] == controlElsewhere:
		r.keepOther(now, msg)
	case msg[0] == controlGo:
		r.leave(len(msg) > 1 && msg[1] == goElsewhere)
	case msg[0] == controlPong:
		r.mu.Lock()
		if len(msg) == 1+8 && binary.LittleEndian.Uint64(msg[1:]) == r.pingID {
			r.pingID = 0
			r.sampleLocked(now.Sub(r.pingSent))
			r.pinged = time.Time{}
		}
		r.mu.Unlock()
	}
}

// keepSpare keeps a spare token, and forgets the oldest in its place.
func (r *roamer) keepSpare(now time.Time, session net.Conn, msg []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, id, ok := parseSpare(now, msg)
	if !ok || r.ended || s.generation <= r.used || slices.ContainsFunc(r.spares, func(x spare) bool { return x.generation == s.generation }) {
		return
	}
	r.knowLocked(id)
	if len(r.spares) == spares {
		if s.generation < r.spares[0].generation {
			return
		}
		r.spares[0].wipe()
		r.spares = slices.Delete(r.spares, 0, 1)
	}
	if r.spares == nil {
		r.spares = make([]spare, 0, spares)
	}
	i, _ := slices.BinarySearchFunc(r.spares, s.generation, func(x spare, g uint64) int { return cmp.Compare(x.generation, g) })
	r.spares = slices.Insert(r.spares, i, s)
	r.asked = 0
	r.otherAsk, r.otherAt = 0, now.Add(askFirst)
	if r.wantsLocked(now) {
		r.askAt = now
		r.timer.Reset(0)
	}
}

// knowLocked takes note of the session's number.
func (r *roamer) knowLocked(id sessionID) {
	if r.session == (sessionID{}) && r.moves != nil {
		close(r.moves.known)
	}
	r.session = id
}

func (r *roamer) wipeSparesLocked() {
	for i := range r.spares {
		r.spares[i].wipe()
	}
	r.spares = nil
}

// pingLocked asks whether the server is there.
func (r *roamer) pingLocked(now time.Time, session sideband.Session) {
	r.pingSent, r.pingID = now, max(rand.Uint64(), 1)
	session.Send(binary.LittleEndian.AppendUint64([]byte{controlPing}, r.pingID))
}

// sampleLocked takes a round-trip time. Those of silence are of a server that has stopped for a
// while, as often as not: so a longer one counts little, and none for more than a second.
func (r *roamer) sampleLocked(rtt time.Duration) {
	rtt = min(rtt, longestTrip)
	if r.rtt == 0 || rtt < r.rtt {
		r.rtt = rtt
	} else {
		r.rtt += (rtt - r.rtt) / 8
	}
}

// wantsLocked reports whether there is room for a spare token.
func (r *roamer) wantsLocked(now time.Time) bool {
	return len(r.spares) < spares || now.Sub(r.spares[0].since) >= spareRenewal
}

// wantsOtherLocked reports whether there is room for a spare token for another server.
func (r *roamer) wantsOtherLocked(now time.Time) bool {
	return r.other == nil || r.other.generation < r.used || now.Sub(r.other.since) >= spareRenewal
}

// look does what is due, and says when to look again.
func (r *roamer) look() {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	session := sideband.Of(r.conn.Conn)
	if now.Sub(session.Heard()) > sideband.Grace+time.Second { // its socket is gone, or that would have ended it
		go session.End(netcode.ErrIdleTimeout, nil)
		return
	}
	next := r.watchLocked(now, session)
	if r.wantsLocked(now) {
		if !r.askAt.After(now) {
			want := []byte{controlWant, 0}
			if r.wantsOtherLocked(now) {
				want[1] = wantElsewhere
			}
			session.Send(want)
			r.pingLocked(now, session) // a server that was asked in silence only would seem slow
			r.askAt = now.Add(min(askFirst<<min(r.asked, 16), askLongest))
			r.asked++
		}
		next = min(next, r.askAt.Sub(now))
	} else if r.otherAsk < otherAsks && r.wantsOtherLocked(now) {
		if !r.otherAt.After(now) {
			session.Send([]byte{controlWant, wantElsewhere | wantNoOwn})
			r.otherAt = now.Add(askFirst << r.otherAsk)
			r.otherAsk++
		}
		next = min(next, max(r.otherAt.Sub(now), 0))
	}
	if proof := r.proved.Add(proofPeriod).Sub(now); proof <= 0 {
		r.proveLocked(now)
	} else {
		next = min(next, proof)
	}
	r.timer.Reset(max(next, time.Millisecond))
}

// watchLocked looks for silence, and returns when to look again.
func (r *roamer) watchLocked(now time.Time, session sideband.Session) (next time.Duration) {
	since := session.Asked()
	patience, answer := max(leastSilence, 3*r.rtt), max(leastAnswer, 2*r.rtt)
	limit := patience
	if since.IsZero() {
		since, limit = session.Heard(), max(idleSilence, patience)
	}
	switch quiet := now.Sub(since); {
	case quiet < limit:
		r.pinged = time.Time{}
		if r.cancel != nil { // a new way may have been found all the same, and the server be there
			time.AfterFunc(max(moveMercy, 2*r.rtt), r.cancel)
			r.cancel = nil
		}
		return min(limit-quiet, leastSilence)
	case r.pinged.IsZero():
		r.pinged = now
		r.pingLocked(now, session)
	case now.Sub(r.pinged) >= answer && r.session != (sessionID{}):
		r.moveSoonLocked(true)
		return leastSilence
	}
	return max(answer-now.Sub(r.pinged), time.Millisecond)
}

// moveSoonLocked tries to move, unless that is tried already. If it doubts that, it gives up when
// the old way is heard.
func (r *roamer) moveSoonLocked(doubts bool) {
	if !r.takeTurnLocked() {
		return
	}
	ctx, cancel := context.WithCancelCause(r.moves.life)
	if doubts {
		r.cancel = func() { cancel(errHeard) }
	}
	go func() {
		defer cancel(nil)
		defer r.moved()
		// All clients of a server that was silent for a moment must not come at once.
		select {
		case <-time.After(rand.N(moveJitter)):
			r.move(ctx)
		case <-ctx.Done():
		}
	}()
}

// errHeard ends a move, because the server is heard on the old way.
var errHeard = errors.New("secure: the server is there")

// moved ends the turn of a move.
func (r *roamer) moved() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel, r.shown = nil, 0
	<-r.moves.turn
}

// proveLocked has the session go on by keys from TLS.
func (r *roamer) proveLocked(now time.Time) {
	r.proved = now.Add(askLongest - proofPeriod) // if it fails, soon again
	if !r.byTCP() || r.session == (sessionID{}) || !r.takeTurnLocked() {
		return
	}
	ctx, cancel := context.WithTimeout(r.moves.life, maxJoin)
	r.cancel = nil
	go func() {
		defer cancel()
		defer r.moved()
		r.moveByTCP(ctx)
	}()
}
