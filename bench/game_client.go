package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A game is the clients' side of modes game and fan-out: many links of few
// messages each. One goroutine sends for all of them. Their messages are due at
// regular times, one client after the other, and the j-th of all is the
// (j / clients)-th of client j % clients. So what belongs to the time that is
// measured is known by its number, whatever becomes of it.
type game struct {
	c        *client
	clients  uint64
	origin   time.Time
	interval time.Duration // between two messages of all clients
	first    uint64        // the messages first <= j < last are measured
	last     uint64

	sent atomic.Uint64
	done chan struct{} // closed when nothing is sent any more

	mu      sync.Mutex // guards what follows
	err     error
	latency histogram // of messages that are measured
	inTime  uint64
	sum     uint64 // of their numbers
	all     uint64 // messages received
	bad     uint64 // corrupt, or another client's
}

// settleTime is given to messages that are on their way when sending ends.
const settleTime = 4 * answerLimit

func (c *client) game() (*result, error) {
	j := c.job
	total := uint64(j.Clients * j.Rate)
	g := &game{
		c: c, clients: uint64(j.Clients), origin: time.Now(),
		interval: time.Second / time.Duration(total), done: make(chan struct{}),
	}
	g.first = uint64(j.Warmup / g.interval)
	g.last = g.first + uint64(j.Duration/g.interval)
	for i, l := range c.links {
		go g.read(l, uint64(i))
	}
	if j.Style == styleFanOut {
		close(g.done)
	} else {
		go g.pace()
	}
	r := g.measure()
	select {
	case <-g.done:
	case <-time.After(5 * time.Second): // stuck; what is missing shows in the figures
	}
	time.Sleep(settleTime)
	return r, g.report(r)
}

// dueAt returns when message j is due.
func (g *game) dueAt(j uint64) time.Time { return g.origin.Add(time.Duration(j) * g.interval) }

// pace sends what is due, once a millisecond, for some time longer than what is
// measured.
func (g *game) pace() {
	defer close(g.done)
	msg := newMessage(g.c.job.Size)
	end := g.last + uint64(2*answerLimit/g.interval)
	giveUp := g.dueAt(end).Add(4 * time.Second)
	for j := uint64(0); j < end; {
		now := time.Now()
		for ; j < end; j++ {
			due := g.dueAt(j)
			if due.After(now) {
				now = time.Now()
				if due.After(now) {
					break
				}
			}
			if err := g.send(msg, j, due); err != nil {
				g.fail(fmt.Errorf("send: %w", err))
				return
			}
		}
		if now.After(giveUp) || g.c.stop.Load() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (g *game) send(msg []byte, j uint64, due time.Time) error {
	i := j % g.clients
	number(msg, int(i), j/g.clients)
	stampAt(msg, paceStamp(due, time.Now()))
	if err := g.c.links[i].WriteMessage(msg); err != nil {
		return err
	}
	g.sent.Add(1)
	return nil
}

// read takes the messages to client i.
func (g *game) read(l link, i uint64) {
	buf := make([]byte, g.c.job.Size)
	for {
		msg, err := l.ReadMessage(buf)
		if err != nil {
			g.fail(fmt.Errorf("receive: %w", err))
			return
		}
		client, n, sent, ok := inspect(msg, g.c.job.Size)
		ok = ok && (uint64(client) == i || g.c.job.Style == styleFanOut)
		g.count(n, i, ok, time.Duration(time.Now().UnixNano()-int64(sent)))
	}
}

func (g *game) count(n, i uint64, ok bool, latency time.Duration) {
	counts := ok && g.counts(n, i)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !ok:
		g.bad++
		return
	case counts:
		g.latency.add(latency)
		g.sum += n
		if latency <= answerLimit {
			g.inTime++
		}
	}
	g.all++
}

// counts tells whether message n to client i is among those measured.
func (g *game) counts(n, i uint64) bool {
	if g.c.job.Style == styleEcho {
		j := n*g.clients + i
		return g.first <= j && j < g.last
	}
	from, until := g.ticks()
	return from <= n && n < until
}

// ticks returns which ticks of the server are measured.
func (g *game) ticks() (from, until uint64) {
	period := int64(time.Second) / int64(g.c.job.Rate)
	origin := g.c.board.tickOrigin.Load()
	k := func(t time.Time) uint64 { return uint64((max(0, t.UnixNano()-origin) + period - 1) / period) }
	return k(g.dueAt(g.first)), k(g.dueAt(g.last))
}

// due returns how many messages to the clients are measured, and the sum of
// their numbers.
func (g *game) due() (n, sum uint64) {
	if g.c.job.Style == styleEcho {
		for j := g.first; j < g.last; j++ {
			sum += j / g.clients
		}
		return g.last - g.first, sum
	}
	from, until := g.ticks()
	for k := from; k < until; k++ {
		sum += k * g.clients
	}
	return (until - from) * g.clients, sum
}

// measure takes the usage of the time that counts.
func (g *game) measure() *result {
	c, r := g.c, new(result)
	time.Sleep(time.Until(g.dueAt(g.first)))
	sent, packets := g.messages(), datagramsSent()
	c.board.phase.Store(phaseMeasure)
	c.meter.start()
	time.Sleep(time.Until(g.dueAt(g.last)))
	c.meter.stop()
	c.board.phase.Store(phaseDone)
	r.Messages = g.messages() - sent
	if packets != 0 && r.Messages > 0 {
		r.Packets = float64(datagramsSent()-packets) / float64(r.Messages)
	}
	c.meter.report(r)
	return r
}

// messages returns how many both sides have written.
func (g *game) messages() uint64 { return g.sent.Load() + g.c.board.written() }

// report takes down what came of the messages.
func (g *game) report(r *result) error {
	g.c.stop.Store(true)
	received, bad := g.c.board.total()
	g.mu.Lock()
	defer g.mu.Unlock()
	due, sum := g.due()
	sent := g.sent.Load()
	r.Due, r.InTime = due, g.inTime
	r.Sent, r.Bad = due, bad+g.bad
	r.Lost = due - min(due, g.latency.n)
	if g.c.job.Style == styleTick {
		r.Sent += sent
		r.Lost += sent - min(sent, received)
	}
	r.latency(&g.latency)
	g.c.figures(r)
	switch {
	case g.err != nil:
		return g.err
	case g.latency.n > due || g.latency.n == due && r.Bad == 0 && g.sum != sum:
		return errors.New("the numbers of the received messages are not those of the sent ones")
	}
	return nil
}

// fail notes the first error before the end.
func (g *game) fail(err error) {
	if g.c.stop.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
}
