package main

import (
	"context"
	"sync"

	"volley/porous"
)

// serve is the room: it passes on what each visitor says and where each visitor is,
// until ctx is done, and then sees the visitors out.
func serve(ctx context.Context, l *porous.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.AcceptConn(ctx)
		if err != nil {
			l.Close()
			for c := range l.Conns() {
				wg.Go(func() { c.Close() })
			}
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		wg.Go(func() {
			pass(l, c, talk)
			c.Close()
		})
		wg.Go(func() { pass(l, c, position) })
	}
}

// pass hands what comes on a channel to everybody else, until the visitor goes.
func pass(l *porous.Listener, from *porous.Conn, channel int) {
	ctx := context.Background()
	var msg []byte
	var err error
	for {
		if msg, err = from.Channel(channel).ReadMessage(ctx, msg[:0]); err != nil {
			return
		}
		for c := range l.Conns() {
			switch to := c.Channel(channel); {
			case c == from:
			case channel == position:
				to.SetHighPriority(true)
				to.WriteMessage(ctx, msg, porous.Unreliable)
			default:
				to.Write(msg)
			}
		}
	}
}
