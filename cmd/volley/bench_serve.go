package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A benchServer is the far end of a measurement.
type benchServer struct {
	c       *client
	request benchRequest
	nonce   uint64 // by which the client shows that its address is its own
	data    *benchReceiver
	cancel  context.CancelFunc // ends its goroutine; nil before that runs
	heard   atomic.Int64       // when the client said that it is there, since c.begin
}

// goneAfter is how long a client is sent data that does not say that it is there.
const goneAfter = 2 * time.Second

func (c *client) measure(p probe) {
	body := c.buf[probeSize:]
	b := c.bench
	switch {
	case p.kind == probeStart:
		c.start(body)
	case b == nil:
	case p.kind == probeGo && p.number == b.nonce:
		c.proved.Store(true)
		b.heard.Store(int64(time.Since(c.begin)))
		if b.request.Reverse && b.cancel == nil {
			b.run(b.send)
		}
	case p.kind == probeData && !b.request.Reverse:
		b.data.take(p, len(c.buf), time.Now())
		if b.cancel == nil {
			b.run(b.report)
		}
	case p.kind == probeEnd && !b.request.Reverse:
		b.stop()
		b.data.end(p.number)
		c.write(appendJSON(nil, probe{kind: probeReport}, b.data.figures(true)))
	}
}

// start answers a client that wants to measure. It may ask again.
func (c *client) start(body []byte) {
	var r benchRequest
	err := json.Unmarshal(body, &r)
	if err == nil {
		err = r.check()
	}
	o := c.s.opts
	switch {
	case o.noBench:
		c.refuse("it was started with --no-bench")
		return
	case err != nil:
		c.refuse("it does not understand the request: " + err.Error())
		return
	}
	if c.bench == nil || c.bench.request != r {
		if c.bench != nil {
			c.bench.stop()
		}
		c.bench = &benchServer{c: c, request: r, nonce: rand.Uint64(), data: newBenchReceiver()}
	}
	c.write((&probe{kind: probeAccept, number: c.bench.nonce}).append(nil, probeSize))
}

func (c *client) refuse(why string) {
	c.write(append((&probe{kind: probeRefused}).append(nil, probeSize), why...))
}

// run starts a goroutine, the only one there ever is.
func (b *benchServer) run(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.c.s.wg.Go(func() { f(ctx) })
}

func (b *benchServer) stop() {
	if b.cancel != nil {
		b.cancel()
	}
}

// report tells the client each interval what has come, and a moment later again.
func (b *benchServer) report(ctx context.Context) {
	tick := time.NewTicker(b.request.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m := appendJSON(nil, probe{kind: probeReport}, b.data.figures(false))
		b.c.write(m)
		sleep(ctx, b.request.Interval/4)
		b.c.write(m)
	}
}

// ends is how often the client is told that all has been sent.
const ends = 20

// send sends data as long as the client says that it is there.
func (b *benchServer) send(ctx context.Context) {
	o := b.c.s.opts
	limit := b.request.Duration
	if d := time.Duration(o.maxTime); d > 0 {
		limit = min(limit, d)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			sleep(ctx, again)
			if time.Since(b.c.begin)-time.Duration(b.heard.Load()) > goneAfter {
				cancel()
			}
		}
	}()
	s := sendData(ctx, b.c.conn, b.request.Size, b.request.Rate, b.c.s.limit)
	end := (&probe{kind: probeEnd, number: s.count}).append(nil, probeSize)
	for range ends {
		if _, err := b.c.conn.Write(end); err != nil {
			return
		}
		time.Sleep(again / 2)
	}
}
