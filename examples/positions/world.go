package main

import (
	"context"
	"sync"
	"time"

	"volley"
)

// maxPlayers have room in one state of the world, which then is one datagram.
const maxPlayers = 200

// A world has the newest position of each player.
type world struct {
	ln *volley.Listener

	mu      sync.Mutex
	players map[*volley.Conn]position
	late    int // positions that a newer one had overtaken
}

func newWorld(ln *volley.Listener) *world {
	return &world{ln: ln, players: make(map[*volley.Conn]position)}
}

// run serves players until ctx ends, and prints figures each second.
func (w *world) run(ctx context.Context, print func(format string, args ...any)) error {
	var players sync.WaitGroup
	players.Go(func() {
		for {
			c, err := w.ln.AcceptConn(ctx)
			if err != nil {
				return
			}
			players.Go(func() { w.follow(ctx, c) })
		}
	})
	ticks := 0
	tick(ctx, func() {
		w.tell()
		if ticks++; ticks%rate == 0 {
			w.report(print)
		}
	})
	for c := range w.ln.Conns() {
		c.CloseWithReason("the server stops")
	}
	w.ln.Close()
	players.Wait()
	return nil
}

// follow takes the positions of a player until its connection ends.
func (w *world) follow(ctx context.Context, c *volley.Conn) {
	defer c.Close()
	defer func() {
		w.mu.Lock()
		delete(w.players, c)
		w.mu.Unlock()
	}()
	var newest uint64
	buf := make([]byte, 0, c.MaxMessageSize())
	for {
		msg, id, err := c.ReadMessageID(ctx, buf[:0])
		if err != nil {
			return
		}
		p, ok := parsePosition(msg)
		if !ok {
			return // not a player of ours
		}
		w.mu.Lock()
		if id > newest {
			newest = id
			w.players[c] = p
		} else {
			w.late++
		}
		w.mu.Unlock()
	}
}

// tell sends all positions to all players.
func (w *world) tell() {
	w.mu.Lock()
	state := make([]byte, 0, len(w.players)*positionSize)
	for _, p := range w.players {
		state = p.append(state)
	}
	w.mu.Unlock()
	// An error names the connections that have ended, which follow notices as well.
	volley.WriteAll(state, w.ln.Conns())
}

// report prints how the connections do.
func (w *world) report(print func(format string, args ...any)) {
	w.mu.Lock()
	players, late := len(w.players), w.late
	w.mu.Unlock()
	var rtt time.Duration
	var trouble string
	troubled := 0
	for c := range w.ln.Conns() {
		rtt = max(rtt, c.Stats().RTT)
		if e := c.Explain(); !e.OK() {
			troubled, trouble = troubled+1, ", such as: "+e.Findings[0].Text
		}
	}
	print("%d players, round trip at most %v, %d positions overtaken, %d players in trouble%s",
		players, rtt.Round(10*time.Microsecond), late, troubled, trouble)
}
