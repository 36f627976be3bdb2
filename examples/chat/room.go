package main

import (
	"context"
	"errors"
	"net"
	"sync"

	"volley/porous"
)

// A room passes on what each visitor says and where each visitor is.
type room struct {
	mu       sync.Mutex
	visitors map[*porous.Conn]bool
}

func newRoom() *room { return &room{visitors: make(map[*porous.Conn]bool)} }

// serve lets visitors in until ctx is done, and then sees them out.
func (r *room) serve(ctx context.Context, l *porous.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.AcceptConn()
		if err != nil {
			r.closeAll()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		r.mu.Lock()
		r.visitors[c] = true
		r.mu.Unlock()
		wg.Go(func() {
			r.pass(c, talk)
			r.mu.Lock()
			delete(r.visitors, c)
			r.mu.Unlock()
			c.Close()
		})
		wg.Go(func() { r.pass(c, position) })
	}
}

func (r *room) closeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.visitors {
		go c.Close()
	}
}

// pass hands what comes on a channel to everybody else, until the visitor goes.
func (r *room) pass(from *porous.Conn, channel int) {
	var msg []byte
	var err error
	for {
		if msg, err = from.Channel(channel).ReadMessage(msg[:0]); err != nil {
			return
		}
		for _, c := range r.others(from) {
			to := c.Channel(channel)
			if channel == position {
				to.SetPriority(porous.High)
				to.Send(context.Background(), msg, porous.Unreliable)
			} else {
				to.Write(msg)
			}
		}
	}
}

func (r *room) others(than *porous.Conn) (list []*porous.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.visitors {
		if c != than {
			list = append(list, c)
		}
	}
	return list
}
