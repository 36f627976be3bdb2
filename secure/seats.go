package secure

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/sideband"
)

// seats are the sessions of a Listener that Accept has returned. A client has one seat, and
// its newest login takes it.
type seats struct {
	serial atomic.Uint64 // of the newest token

	mu       sync.Mutex
	clients  map[uint64]*Conn
	sessions map[sessionID]*Conn // also those that Accept has not returned

	elsewhere map[sessionID]yielded
	swept     time.Time // when those that are of no use were forgotten last

	// Tokens of these clients are void up to a serial, because we have closed a session.
	void  map[uint64]uint64
	voids []voided // oldest first
}

type voided struct {
	clientID, serial uint64
	at               time.Time
}

func (s *seats) init() {
	s.clients, s.void = make(map[uint64]*Conn), make(map[uint64]uint64)
	s.sessions = make(map[sessionID]*Conn)
}

// take gives a seat to a session. It returns the session that had the seat, or why the seat
// is not given.
func (s *seats) take(c *Conn) (former *Conn, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetVoidLocked(time.Now())
	if c.serial <= s.void[c.clientID] {
		return nil, "the session was closed by the server"
	}
	former = s.clients[c.clientID]
	if former != nil && former.serial > c.serial {
		return nil, anotherLogin
	}
	s.clients[c.clientID] = c
	return former, ""
}

const anotherLogin = "another login has taken the seat"

// leave takes the seat of a session. After a kick, what the client still holds is void.
func (s *seats) leave(c *Conn, kicked bool) (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was = s.sessions[c.session] == c; was {
		delete(s.sessions, c.session) // and so its spare tokens are void
		if c.foreign {                // those of other servers, too
			s.yieldLocked(time.Now(), c.session, c.generation)
		}
	}
	if s.clients[c.clientID] != c {
		return was // it has lost the seat to a newer login, which stays
	}
	delete(s.clients, c.clientID)
	if kicked && !c.anonymous {
		v := voided{c.clientID, s.serial.Load(), time.Now()}
		s.forgetVoidLocked(v.at)
		s.void[v.clientID] = v.serial
		s.voids = append(s.voids, v)
	}
	return was
}

// forgetVoidLocked forgets void tokens that have expired.
func (s *seats) forgetVoidLocked(now time.Time) {
	n := 0
	for ; n < len(s.voids) && now.Sub(s.voids[n].at) > tokenLifetime+time.Second; n++ {
		if v := s.voids[n]; s.void[v.clientID] == v.serial {
			delete(s.void, v.clientID)
		}
	}
	if s.voids = s.voids[n:]; len(s.voids) == 0 {
		s.voids = nil
	}
}

// connOf returns the Conn of a session, nil if it has no seat yet.
func connOf(session net.Conn) *Conn {
	c, _ := sideband.Of(session).Kept().(*Conn)
	return c
}
