package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"volley/bench/internal/cputime"
	"volley/simnet"
)

const (
	tunMTU     = 1500            // of the packets of TCP
	settle     = 2 * time.Second // between the handshake and the measurement
	bulkTime   = 10 * time.Second
	bulkSize   = 16 << 10
	streamSize = 200
	streamRate = 60
)

// A path is a link, the same both ways.
type path struct {
	name  string
	loss  float64
	delay time.Duration
}

func (p path) link() simnet.Link {
	return simnet.Link{Latency: p.delay, Loss: p.loss, Bandwidth: 20e6, QueueBytes: 125_000}
}

// carrying returns a link that does with a full packet inside a datagram what
// link does with the packet: the headers of the datagram cost nothing.
func carrying(link simnet.Link) simnet.Link {
	link.Bandwidth = link.Bandwidth * (tunMTU + headers) / tunMTU
	link.QueueBytes = link.QueueBytes * (tunMTU + headers) / tunMTU
	return link
}

// A measure measures once over a connection.
type measure func(c *connection) result

// A result is what one run measures.
type result struct {
	mbits float64       // goodput
	cpu   time.Duration // of the process, for each message
	p99   time.Duration // one way
	bytes uint64        // from the sender onto the wire
	err   error
}

// run measures once, in a bubble of its own if the peer can live in one.
func run(t *testing.T, p *peer, seed uint64, link simnet.Link, f measure) (r result) {
	body := func() {
		n := simnet.New(seed)
		defer n.Close()
		n.SetDefault(link)
		c, err := p.connect(n, seed, link)
		if err != nil {
			r.err = err
			return
		}
		time.Sleep(settle)
		r = f(c)
		c.close()
		if p.virtual {
			time.Sleep(time.Minute) // what lingers ends
		}
	}
	if !p.virtual {
		body()
		return r
	}
	if !t.Run(p.name, func(t *testing.T) { synctest.Test(t, func(*testing.T) { body() }) }) && r.err == nil {
		r.err = fmt.Errorf("%s: the bubble failed", p.name)
	}
	return r
}

// bulk sends as fast as the peer takes it.
func bulk(c *connection) (r result) {
	done := make(chan struct{})
	var bytes atomic.Int64
	start, before := time.Now(), cputime.Process()
	go func() {
		defer close(done)
		buf := make([]byte, bulkSize)
		for {
			b, err := c.at.ReadMessage(buf)
			if err != nil || time.Since(start) > bulkTime {
				return
			}
			bytes.Add(int64(len(b)))
		}
	}()
	go func() {
		msg := make([]byte, bulkSize)
		for time.Since(start) < bulkTime+time.Minute {
			if _, err := c.from.Write(msg); err != nil {
				return
			}
		}
	}()
	time.Sleep(bulkTime)
	n := bytes.Load()
	r.mbits = float64(n) * 8e-6 / bulkTime.Seconds()
	r.cpu = (cputime.Process() - before) / time.Duration(max(1, n/bulkSize))
	c.close()
	<-done
	return r
}

// stream sends small messages at regular times, for a duration.
func stream(length time.Duration) measure {
	return func(c *connection) (r result) {
		total := int(length.Seconds() * streamRate)
		late := make([]time.Duration, 0, total)
		start, before := time.Now(), c.sent()
		done := make(chan error, 1)
		go func() {
			buf := make([]byte, streamSize)
			for range total {
				b, err := c.at.ReadMessage(buf)
				if err != nil {
					done <- err
					return
				}
				late = append(late, time.Since(start)-time.Duration(binary.BigEndian.Uint64(b)))
			}
			done <- nil
		}()
		msg := make([]byte, streamSize)
		for i := range total {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / streamRate)))
			binary.BigEndian.PutUint64(msg, uint64(time.Since(start)))
			if _, r.err = c.from.Write(msg); r.err != nil {
				return r
			}
		}
		if r.err = <-done; r.err != nil {
			return r
		}
		r.bytes = c.sent() - before
		slices.Sort(late)
		r.p99 = late[total*99/100]
		return r
	}
}
