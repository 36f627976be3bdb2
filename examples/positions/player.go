package main

import (
	"context"
	"encoding/binary"
	"math"

	"volley"
)

// positionSize is the size of a position on the wire.
const positionSize = 4

// A position is a place on a map of 65536 by 65536.
type position struct{ x, y uint16 }

func (p position) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, p.x)
	return binary.LittleEndian.AppendUint16(b, p.y)
}

func parsePosition(b []byte) (p position, ok bool) {
	if len(b) != positionSize {
		return position{}, false
	}
	return position{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])}, true
}

// A view is what a player has seen of the world.
type view struct {
	states  int // used
	late    int // states that a newer one had overtaken
	players int // in the newest state
	err     error
}

// play moves in a circle until ctx ends, and returns what it has seen.
func play(ctx context.Context, c *volley.Conn, angle float64) view {
	defer c.Close()
	ctx, end := context.WithCancel(ctx)
	seen := make(chan view, 1)
	go func() {
		seen <- watch(ctx, c)
		end()
	}()
	tick(ctx, func() {
		angle += 0.05
		p := position{uint16(32768 + 30000*math.Cos(angle)), uint16(32768 + 30000*math.Sin(angle))}
		c.Write(p.append(nil)) // an error ends watch, too
	})
	return <-seen
}

// watch reads states of the world, until the connection or ctx ends.
func watch(ctx context.Context, c *volley.Conn) (v view) {
	var newest uint64
	buf := make([]byte, 0, c.MaxMessageSize())
	for {
		state, id, err := c.ReadMessageID(ctx, buf[:0])
		if err != nil {
			v.err = err
			return v
		}
		if id <= newest {
			v.late++
			continue
		}
		newest = id
		v.states++
		v.players = len(state) / positionSize
	}
}
