package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A bencher is a run of bench.
type bencher struct {
	opts    *benchOptions
	address string
	conn    messageConn
	begin   time.Time
	view    *benchView

	replies chan reply     // what the server tells of, when this side sends
	own     *benchReceiver // what has come, when the server sends

	alive    []byte // shows the server that this side is there, and at its own address
	reported bool   // the server has told something of what it has received
}

// A reply is a message of the server's that is no data.
type reply struct {
	probe probe
	body  []byte
	err   error
}

// open connects, and agrees with the server on what there is to do.
func (b *bencher) open(ctx context.Context) (err error) {
	if b.conn, err = b.opts.dial(ctx, b.address); err != nil {
		return err
	}
	go b.read()
	nonce, err := b.agree(ctx)
	if err != nil {
		return err
	}
	b.alive = (&probe{kind: probeGo, number: nonce}).append(nil, probeSize)
	return nil
}

// close ends the connection, if there is one.
func (b *bencher) close() {
	if b.conn != nil {
		bye(b.conn)
	}
}

// measure sends or receives.
func (b *bencher) measure(ctx context.Context) (err error) {
	pinging, stop := context.WithTimeout(ctx, time.Duration(b.opts.duration))
	defer stop()
	go b.ping(pinging)
	if b.opts.reverse {
		err = b.receive(ctx)
	} else {
		err = b.send(ctx)
	}
	b.view.note(ownTrouble(b.conn)...)
	return err
}

// pingEvery is the time between the messages that measure the round trip.
const pingEvery = 50 * time.Millisecond

// ping sends messages that come back, beside the others.
func (b *bencher) ping(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	var m []byte
	for n := uint64(0); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p := probe{kind: probePing, number: n, sent: time.Since(b.begin)}
		m = p.append(m[:0], probeSize)
		b.conn.Write(m) // if it fails, one is missing
	}
}

// read takes what the server sends.
func (b *bencher) read() {
	defer close(b.replies)
	var buf []byte
	for {
		m, err := b.conn.ReadMessage(context.Background(), buf[:0])
		if err != nil && !passing(err) {
			b.tell(reply{err: err})
			return
		}
		if err != nil {
			b.tell(reply{err: err})
			continue
		}
		buf = m
		p, ok := parseProbe(m)
		switch {
		case !ok:
		case p.kind == probeData:
			b.own.take(p, len(m), time.Now())
		case p.kind == probePing:
			b.answered(p, time.Since(b.begin))
		default:
			b.tell(reply{probe: p, body: append([]byte(nil), m[probeSize:]...)})
		}
	}
}

// answered takes a message that has come back, unless the time in it cannot be.
func (b *bencher) answered(p probe, now time.Duration) {
	if p.sent >= 0 && p.sent <= now {
		b.view.roundTrip(now - p.sent)
	}
}

// tell hands a reply on. Of those that nobody takes the newest count, and come again.
func (b *bencher) tell(r reply) {
	select {
	case b.replies <- r:
	default:
	}
}

// again is how often what gets no answer is said again.
const again = 250 * time.Millisecond

// agreeTime is how long a server may take to answer.
const agreeTime = 5 * time.Second

// agree asks the server for a measurement, and returns the number that shows we are there.
func (b *bencher) agree(ctx context.Context) (nonce uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, agreeTime)
	defer cancel()
	tick := time.NewTicker(again)
	defer tick.Stop()
	o := b.opts
	start := appendJSON(nil, probe{kind: probeStart}, benchRequest{
		Reverse: o.reverse, Duration: time.Duration(o.duration), Interval: time.Duration(o.interval), Size: int(o.size), Rate: float64(o.rate)})
	refused := false
	for {
		if _, err := b.conn.Write(start); err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, b.noServer(ctx, refused)
		case r, ok := <-b.replies:
			switch {
			case !ok:
				return 0, fmt.Errorf("%s has closed the connection", place(b.address))
			case r.err != nil && !passing(r.err):
				return 0, r.err
			case r.err != nil:
				refused = true
			case r.probe.kind == probeAccept:
				return r.probe.number, nil
			case r.probe.kind == probeRefused:
				return 0, fmt.Errorf("%s refuses to measure: %s", place(b.address), harmless(string(r.body)))
			case r.probe.kind == probeStart:
				return 0, fmt.Errorf("%s echoes, but is not \"volley serve\", which bench needs", place(b.address))
			}
		case <-tick.C:
		}
	}
}

// noServer says what may be wrong where nobody answers.
func (b *bencher) noServer(ctx context.Context, refused bool) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return errNothingArrived
	case refused:
		return fmt.Errorf("the machine of %s says that nobody listens on that port: start \"volley serve%s\" there, or look whether the port is right",
			place(b.address), b.opts.serveFlags())
	}
	return b.opts.unreachable(fmt.Errorf("no answer from %s within %v", place(b.address), agreeTime), place(b.address), b.opts.serveFlags())
}

// send sends, and shows what the server reports.
func (b *bencher) send(ctx context.Context) error {
	o := b.opts
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.duration))
	defer cancel()
	sent := make(chan benchSent, 1)
	go func() {
		sent <- sendData(ctx, b.conn, int(o.size), float64(o.rate), nil)
	}()
	tick := time.NewTicker(again)
	defer tick.Stop()
	for b.prove(); ; {
		select {
		case s := <-sent:
			return b.settle(s)
		case <-tick.C:
			b.prove()
		case r, ok := <-b.replies:
			if !ok || r.err != nil && !passing(r.err) {
				cancel()
				return errors.Join(r.err, b.settle(<-sent))
			}
			b.report(r)
		}
	}
}

// prove shows the server that our address is our own, until it has reported something.
func (b *bencher) prove() {
	if !b.reported {
		b.conn.Write(b.alive) // and again, if this fails
	}
}

// report shows what the server has received.
func (b *bencher) report(r reply) {
	var got benchFigures
	if r.err == nil && r.probe.kind == probeReport && json.Unmarshal(r.body, &got) == nil {
		if !got.plausible() {
			b.view.note("the server has sent reports that cannot be true; they are left out")
			return
		}
		b.reported = true
		b.view.show(got)
	}
}

// settleTime is how long the last report may take, after a flood whose end got lost.
const settleTime = 12 * time.Second

// settle tells the server that all has been sent, and waits for the last report.
func (b *bencher) settle(s benchSent) error {
	b.view.sent(s.count)
	end := (&probe{kind: probeEnd, number: s.count}).append(nil, probeSize)
	timeout := time.After(settleTime)
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		b.prove()
		if _, err := b.conn.Write(end); err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-timeout:
				b.view.note("the server's last report is missing; the figures are those of the one before")
				return nil
			case <-tick.C:
				waiting = false
			case r, ok := <-b.replies:
				if !ok {
					return nil
				}
				b.report(r)
				if r.probe.kind == probeReport && b.view.final() {
					return s.err
				}
			}
		}
	}
}

// receive shows what comes, and tells the server that this side is there.
func (b *bencher) receive(ctx context.Context) error {
	o := b.opts
	tick := time.NewTicker(again)
	defer tick.Stop()
	interval := time.NewTicker(time.Duration(o.interval))
	defer interval.Stop()
	begun := b.own.begun
	silence := time.After(time.Duration(o.duration) + settleTime)
	b.conn.Write(b.alive)
	for {
		select {
		case <-ctx.Done():
			b.view.show(b.own.figures(true))
			return nil
		case <-silence:
			b.view.show(b.own.figures(true))
			b.view.note("the server has not said how much it has sent; the figures are of what has come")
			return nil
		case <-tick.C:
			if _, err := b.conn.Write(b.alive); err != nil {
				return err
			}
		case <-begun:
			begun = nil
			interval.Reset(time.Duration(o.interval)) // since the first message, as the server does
		case <-interval.C:
			b.view.show(b.own.figures(false))
		case r, ok := <-b.replies:
			if !ok || r.err != nil && !passing(r.err) {
				b.view.show(b.own.figures(true))
				return r.err
			}
			if r.err == nil && r.probe.kind == probeEnd && r.probe.number <= mostMessages {
				b.own.end(r.probe.number)
				b.view.show(b.own.figures(true))
				b.view.sent(r.probe.number)
				return nil
			}
		}
	}
}
