package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"volley"
)

const (
	loadEcho  = "echo"  // clients send at the rate of a game, and are answered
	loadFlood = "flood" // one client sends as fast as it goes

	echoRate     = 30  // messages a second of each client
	echoSize     = 200 // bytes
	floodSize    = 256 // bytes
	floodWindow  = 512 // messages that may be on the way
	floodAnswers = 64  // of so many messages one is answered
)

var loads = []string{loadFlood, loadEcho}

// drive starts clients, which end with the context; wait returns when they have.
func drive(ctx context.Context, load, addr string, clients int) (wait func() error, err error) {
	if load == loadFlood {
		clients = 1
	}
	var wg sync.WaitGroup
	var sent, answered atomic.Uint64
	for i := range clients {
		c, err := volley.Dial("udp4", addr)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { c.Close() })
		if load == loadFlood {
			wg.Go(func() { flood(c) })
			return func() error { wg.Wait(); return nil }, nil
		}
		wg.Go(func() { beat(c, i, clients, &sent) })
		wg.Go(func() {
			buf := make([]byte, 2048)
			for {
				if _, err := c.Read(buf); err != nil {
					return
				}
				answered.Add(1)
			}
		})
	}
	return func() error {
		wg.Wait()
		if s, a := sent.Load(), answered.Load(); a < s-s/20 {
			return fmt.Errorf("%d of %d messages were answered", a, s)
		}
		return nil
	}, nil
}

// beat sends at a steady rate; the clients do so at different moments.
func beat(c *volley.Conn, i, clients int, sent *atomic.Uint64) {
	const period = time.Second / echoRate
	msg := make([]byte, echoSize)
	due := time.Now().Add(period * time.Duration(i) / time.Duration(clients))
	for {
		time.Sleep(time.Until(due))
		if _, err := c.Write(msg); err != nil {
			return
		}
		sent.Add(1)
		due = due.Add(period)
	}
}

// flood sends as long as the server keeps pace.
func flood(c *volley.Conn) {
	var last atomic.Uint64 // the number of the last message that was answered
	moved := make(chan struct{}, 1)
	go func() {
		buf := make([]byte, 2048)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			last.Store(binary.LittleEndian.Uint64(buf))
			select {
			case moved <- struct{}{}:
			default:
			}
		}
	}()
	msg := make([]byte, floodSize)
	lost := time.NewTimer(time.Hour)
	for n := uint64(1); ; n++ {
		for n > last.Load()+floodWindow {
			lost.Reset(100 * time.Millisecond)
			select {
			case <-moved:
			case <-lost.C: // the answers, or what was to be answered
				last.Store(n)
			}
		}
		binary.LittleEndian.PutUint64(msg, n)
		if _, err := c.Write(msg); err != nil {
			return
		}
	}
}

// watch reads the stream of the debug page and scrapes once a second, until the
// function is called that it returns, which says whether there was something to see.
func watch(ctx context.Context, web string) func() error {
	ctx, cancel := context.WithCancel(ctx)
	begin := time.Now()
	var looks, scrapes int
	var failed [2]error
	var wg sync.WaitGroup
	wg.Go(func() {
		failed[0] = get(ctx, "http://"+web+"/volley/events", func(body io.Reader) error {
			lines := bufio.NewScanner(body)
			for lines.Buffer(nil, 64<<20); lines.Scan(); {
				if bytes.HasPrefix(lines.Bytes(), []byte("data: ")) {
					looks++
				}
			}
			return lines.Err()
		})
	})
	wg.Go(func() {
		for tick := time.NewTicker(time.Second); failed[1] == nil; {
			failed[1] = get(ctx, "http://"+web+"/metrics", func(body io.Reader) error {
				text, err := io.ReadAll(body)
				if bytes.Contains(text, []byte("volley_messages_received_total{")) {
					scrapes++
				}
				return err
			})
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() error {
		cancel()
		wg.Wait()
		if least := int(time.Since(begin).Seconds()); looks < least || scrapes < least {
			return errors.Join(fmt.Errorf("%d looks and %d scrapes in %v", looks, scrapes, time.Since(begin)), failed[0], failed[1])
		}
		return nil
	}
}

// get fetches something, as far as the context allows.
func get(ctx context.Context, url string, read func(io.Reader) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return read(resp.Body)
}
