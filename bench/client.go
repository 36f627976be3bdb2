package main

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A client is the sending side of a run.
type client struct {
	job   *job
	peer  *peer
	board *board
	bells [maxClients]chan struct{}
	links []link
	first func() // called when the first link has its answer; may be nil

	stop    atomic.Bool // set when the time is over
	meter   meter
	latency histogram
}

func newClient(j *job, p *peer, b *board) *client {
	c := &client{job: j, peer: p, board: b}
	for i := range c.bells {
		c.bells[i] = make(chan struct{}, 1)
	}
	return c
}

// ring wakes a client that waits for its window.
func (c *client) ring(i int) {
	select {
	case c.bells[i] <- struct{}{}:
	default:
	}
}

// connect dials all links and waits until the server has answered on each.
func (c *client) connect(addr string) error {
	buf := make([]byte, largestSize)
	for i := range c.job.Clients {
		l, err := c.peer.dial(addr, c.job.Size)
		if err != nil {
			return fmt.Errorf("dial: %w", err)
		}
		c.links = append(c.links, l)
		if err := c.greet(l, i, buf); err != nil {
			return err
		}
		if i == 0 && c.first != nil {
			c.first()
		}
	}
	return nil
}

func (c *client) close() {
	for _, l := range c.links {
		l.Close()
	}
}

// greet sends a first message and waits for its return in buf.
func (c *client) greet(l link, i int, buf []byte) error {
	msg := newMessage(c.job.Size)
	number(msg, i, helloNumber)
	if err := errors.Join(l.WriteMessage(msg), l.Flush()); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	watchdog := time.AfterFunc(20*time.Second, func() { l.Close() })
	defer watchdog.Stop()
	back, err := l.ReadMessage(buf)
	if err != nil {
		return fmt.Errorf("greeting: no answer: %w", err)
	}
	if _, n, _, ok := inspect(back, c.job.Size); !ok || n != helloNumber {
		return errors.New("greeting: came back corrupt")
	}
	return nil
}

// run sends messages the way the mode wants and reports.
func (c *client) run() (*result, error) {
	switch c.job.Mode {
	case modePingPong:
		return c.pingPong()
	case modeIdle:
		return c.idle()
	case modeGame, modeFanOut:
		return c.game()
	}
	senders := map[string]func(*window, link, int) error{
		modeOneWay: c.flood, modeFanIn: c.flood,
		modeBurst: c.bursts, modePaced: c.paced, modeHazard: c.hazard,
	}
	return c.send(senders[c.job.Mode])
}

// send has each link send messages by its own goroutine until the time is over.
func (c *client) send(sender func(w *window, l link, i int) error) (*result, error) {
	windows := make([]window, len(c.links))
	errs := make([]error, len(c.links))
	var wg sync.WaitGroup
	for i, l := range c.links {
		windows[i] = window{size: c.windowSize(), score: &c.board.clients[i], bell: c.bells[i]}
		wg.Go(func() { errs[i] = sender(&windows[i], l, i) })
	}
	r := c.measure()
	wg.Wait()
	c.settle(windows, r)
	return r, errors.Join(errs...)
}

// windowSize shares the window of a peer among its clients.
func (c *client) windowSize() uint64 {
	if c.peer.window == nil {
		return 0
	}
	return uint64(max(2, c.peer.window(c.job.Size)/len(c.links)))
}

// measure waits for the run to warm up, takes the figures of the time that
// counts, and stops the senders.
func (c *client) measure() *result {
	r := new(result)
	time.Sleep(c.job.Warmup)
	before, _ := c.board.total()
	c.board.phase.Store(phaseMeasure)
	c.meter.start()
	time.Sleep(c.job.Duration)
	after, _ := c.board.total()
	c.board.phase.Store(phaseDone)
	c.meter.stop()
	c.stop.Store(true)
	c.meter.report(r)
	r.Messages = after - before
	return r
}

// settle waits until all messages have come or no more come, and holds what
// was received against what was sent.
func (c *client) settle(windows []window, r *result) {
	var sent, sum uint64
	for i := range windows {
		n := windows[i].sent
		sent += n
		if n > 0 {
			sum += n * (n - 1) / 2
		}
	}
	received, bad := c.board.total()
	for quiet := 0; received+bad < sent && quiet < 10; quiet++ {
		time.Sleep(patience / 10)
		now, b := c.board.total()
		if now+b != received+bad {
			quiet = 0
		}
		received, bad = now, b
	}
	r.Sent, r.Bad = sent, bad
	r.Lost = sent - min(sent, received+bad)
	if c.board.sum() != sum && r.Lost == 0 && bad == 0 {
		r.Error = "the numbers of the received messages are not those of the sent ones"
	}
	c.figures(r)
}

// figures takes down what volley says of the run.
func (c *client) figures(r *result) {
	var delivered, decided uint64
	for _, l := range c.links {
		v, ok := l.(volleyLink)
		if !ok {
			return
		}
		d, lost, percent := v.figures()
		delivered += d
		decided += d + lost
		r.LossFigure = math.Max(r.LossFigure, percent)
	}
	if decided > 0 {
		r.Acked = 100 * float64(delivered) / float64(decided)
	}
}

// sum adds up the numbers of all received messages.
func (b *board) sum() (sum uint64) {
	for i := range b.clients {
		sum += b.clients[i].sum.Load()
	}
	return sum
}
