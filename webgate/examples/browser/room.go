package main

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"volley"
)

// tickTime is the time between two states of the room.
const tickTime = time.Second / 30

// A place is where a player is, 0 to 1 from the left and from the top. On the wire it
// takes four bytes.
type place struct{ x, y float64 }

const placeSize = 4

func (p place) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(p.x*65535))
	return binary.BigEndian.AppendUint16(b, uint16(p.y*65535))
}

func parsePlace(b []byte) place {
	return place{float64(binary.BigEndian.Uint16(b)) / 65535, float64(binary.BigEndian.Uint16(b[2:])) / 65535}
}

// A player is a connection with a place.
type player struct {
	conn *volley.Conn
	id   byte
	at   place
	seen bool
}

// kinds are the networks of connections, as the page knows them.
var kinds = map[string]byte{"udp": 0, "webtransport": 1, "websocket": 2}

// A room has up to 256 players.
type room struct {
	mu      sync.Mutex
	players map[byte]*player
}

func newRoom() *room { return &room{players: make(map[byte]*player)} }

// accept lets players in.
func (r *room) accept(ctx context.Context, ln *volley.Listener) {
	for {
		c, err := ln.AcceptConn(ctx)
		if err != nil {
			return
		}
		if p := r.enter(c); p != nil {
			go r.read(ctx, p)
		} else {
			c.CloseWithReason("the room is full")
		}
	}
}

func (r *room) enter(c *volley.Conn) *player {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range 256 {
		if r.players[byte(id)] == nil {
			p := &player{conn: c, id: byte(id)}
			r.players[p.id] = p
			return p
		}
	}
	return nil
}

// read takes the places that a player sends. Messages may overtake each other: the
// larger number is the later one.
func (r *room) read(ctx context.Context, p *player) {
	var newest uint64
	var buf []byte
	for {
		m, id, err := p.conn.ReadMessageID(ctx, buf[:0])
		if err != nil {
			break
		}
		if buf = m; len(m) == placeSize && id > newest {
			newest = id
			r.mu.Lock()
			p.at, p.seen = parsePlace(m), true
			r.mu.Unlock()
		}
	}
	p.conn.Close()
	r.mu.Lock()
	delete(r.players, p.id)
	r.mu.Unlock()
}

// run sends everybody the state of the room, until ctx is done.
func (r *room) run(ctx context.Context) {
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	for ctx.Err() == nil {
		r.tell()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// tell sends the state: the receiver's number, and then for each player the number, the
// kind of its network and its place.
func (r *room) tell() {
	r.mu.Lock()
	state := []byte{0}
	conns := make(map[byte]*volley.Conn)
	for id, p := range r.players {
		conns[id] = p.conn
		if p.seen {
			state = p.at.append(append(state, id, kinds[p.conn.RemoteAddr().Network()]))
		}
	}
	r.mu.Unlock()
	for id, c := range conns {
		state[0] = id
		c.Write(state) // what is wrong, Read tells
	}
}

// countPlayers returns how many players a state has.
func countPlayers(state []byte) int { return (len(state) - 1) / (2 + placeSize) }
