package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"volley/secure"
)

// A report is how the clients have fared since the last one.
type report struct {
	Gaps    []time.Duration // the longest silence of each client
	Moved   int             // sessions that went on at another node
	Redials int             // those that were lost, so that the client came anew
	Gone    int             // clients that have given up
	Silent  int             // those that heard nothing for a second
	Late    time.Duration   // the longest delay of a timer here, which makes gaps look longer
	Err     string
}

// A client sends messages, and takes the time between answers.
type client struct {
	conn atomic.Pointer[secure.Conn] // that of now

	mu      sync.Mutex
	last    time.Time
	gap     time.Duration
	moved   int
	redials int
	gone    bool
	since   time.Time // of the counts
}

// clients is a process with clients. It answers each line of its input with a report.
func clients(args []string) {
	fs := flag.NewFlagSet("clients", flag.ExitOnError)
	urls := fs.String("urls", "", "")
	count := fs.Int("count", 0, "")
	rate := fs.Float64("rate", 10, "")
	fs.Parse(args)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	at := strings.Split(*urls, ",")
	all := make([]*client, *count)
	joining := make(chan struct{}, 16)
	var joined sync.WaitGroup
	var lastErr atomic.Pointer[string]
	for i := range all {
		all[i] = new(client)
		joined.Add(1)
		go func() {
			joining <- struct{}{}
			c, err := new(secure.Dialer).Redial(ctx, at[i%len(at)])
			<-joining
			all[i].mark()
			joined.Done()
			all[i].run(ctx, c, err, time.Duration(float64(time.Second) / *rate), &lastErr)
		}()
	}
	joined.Wait()
	var late atomic.Int64
	go func() {
		for {
			begin := time.Now()
			time.Sleep(10 * time.Millisecond)
			late.Store(max(late.Load(), int64(time.Since(begin)-10*time.Millisecond)))
		}
	}()
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var r report
		for _, c := range all {
			c.report(&r, in.Text() != "look")
		}
		r.Late = time.Duration(late.Load())
		if in.Text() != "look" {
			late.Store(0)
		}
		if e := lastErr.Load(); e != nil {
			r.Err = *e
		}
		out.Encode(r)
	}
}

func (c *client) mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	c.since = c.last
}

// report adds how the client has fared, and begins anew if it is told so.
func (c *client) report(r *report, anew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	quiet := now.Sub(c.last)
	r.Gaps = append(r.Gaps, max(c.gap, min(quiet, now.Sub(c.since))))
	r.Moved += c.moved
	r.Redials += c.redials
	if c.gone {
		r.Gone++
	}
	if quiet > time.Second {
		r.Silent++
	}
	if anew {
		c.gap, c.moved, c.redials, c.since = 0, 0, 0, now
	}
}

// run talks until the end.
func (c *client) run(ctx context.Context, conn *secure.Conn, err error, interval time.Duration, lastErr *atomic.Pointer[string]) {
	go c.send(ctx, interval)
	for err == nil {
		c.conn.Store(conn)
		c.listen(conn)
		moved := errors.Is(conn.Err(), secure.ErrMoved)
		if !moved {
			text := conn.Err().Error()
			lastErr.Store(&text)
		}
		if conn, err = conn.Next(ctx); err == nil {
			c.mu.Lock()
			if moved {
				c.moved++
			} else {
				c.redials++
			}
			c.mu.Unlock()
		}
	}
	text := err.Error()
	lastErr.Store(&text)
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
}

// send sends messages at a steady rate, as a game does, whichever the session is.
func (c *client) send(ctx context.Context, interval time.Duration) {
	select {
	case <-time.After(rand.N(interval)):
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	msg := make([]byte, 64)
	for {
		if conn := c.conn.Load(); conn != nil {
			conn.Write(msg)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// listen hears answers until the session ends.
func (c *client) listen(conn *secure.Conn) {
	msg := make([]byte, 1200)
	for {
		if _, err := conn.Read(msg); err != nil {
			return
		}
		now := time.Now()
		c.mu.Lock()
		c.gap = max(c.gap, min(now.Sub(c.last), now.Sub(c.since)))
		c.last = now
		c.mu.Unlock()
	}
}
