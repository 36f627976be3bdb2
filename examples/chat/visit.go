package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"volley/porous"
)

// A place is where somebody is.
type place struct{ x, y int16 }

// visit says the lines of in, and writes what others say to out, until in or
// the room ends.
func visit(ctx context.Context, address, name string, in io.Reader, out io.Writer) error {
	d := porous.Dialer{Config: config()}
	c, err := d.Dial(ctx, "udp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	v := &visitor{name: name, out: out, seen: make(map[string]place)}
	var wg sync.WaitGroup
	wg.Go(func() { v.listen(c) })
	wg.Go(func() { v.look(c.Channel(position)) })
	walk, stop := context.WithCancel(ctx)
	wg.Go(func() { v.walk(walk, c.Channel(position)) })

	for lines := bufio.NewScanner(in); lines.Scan(); {
		if _, err = fmt.Fprintf(c, "%s: %s", name, lines.Text()); err != nil {
			break
		}
	}
	stop()
	if closeErr := c.Close(); err == nil { // which waits until everything was heard
		err = closeErr
	}
	wg.Wait()
	if errors.Is(err, io.ErrClosedPipe) {
		return nil // the room is closed
	}
	return err
}

// A visitor is who sits at this terminal.
type visitor struct {
	name string
	mu   sync.Mutex // guards out and seen
	out  io.Writer
	seen map[string]place
}

// listen writes what is said, and where the others are by now.
func (v *visitor) listen(c *porous.Conn) {
	var msg []byte
	var err error
	for {
		if msg, err = c.ReadMessage(context.Background(), msg[:0]); err != nil {
			return
		}
		v.mu.Lock()
		fmt.Fprintf(v.out, "%s\n", msg)
		for who, at := range v.seen {
			fmt.Fprintf(v.out, "  (%s is at %d, %d)\n", who, at.x, at.y)
		}
		v.mu.Unlock()
	}
}

// look notes where the others are. Positions that were lost or overtaken do
// not matter: newer ones come.
func (v *visitor) look(ch *porous.Channel) {
	var msg []byte
	var err error
	for {
		if msg, err = ch.ReadMessage(context.Background(), msg[:0]); err != nil {
			return
		}
		if len(msg) > 4 {
			at := place{int16(binary.BigEndian.Uint16(msg)), int16(binary.BigEndian.Uint16(msg[2:]))}
			v.mu.Lock()
			v.seen[string(msg[4:])] = at
			v.mu.Unlock()
		}
	}
}

// walk takes a step twenty times a second and tells the others. A position that
// could not leave before the next one is due is of no use any more.
func (v *visitor) walk(ctx context.Context, ch *porous.Channel) {
	const step = 50 * time.Millisecond
	ch.SetHighPriority(true)
	tick := time.NewTicker(step)
	defer tick.Stop()
	for at := (place{}); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			at.x += int16(rand.IntN(3) - 1)
			at.y += int16(rand.IntN(3) - 1)
			msg := binary.BigEndian.AppendUint16(nil, uint16(at.x))
			msg = append(binary.BigEndian.AppendUint16(msg, uint16(at.y)), v.name...)
			if _, err := ch.WriteMessageUntil(ctx, msg, porous.Unreliable, now.Add(step)); err != nil {
				return
			}
		}
	}
}
