package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"volley"
	"volley/simnet"
)

// A demo is one run: a listener, a proxy with the bad link in front of it, and
// a connection dialed through the proxy.
type demo struct {
	opts   *options
	src    *generator
	ledger *ledger
	proxy  *simnet.Proxy
	ln     *volley.Listener
	conn   *volley.Conn // the dialed one, which sends

	receiver sync.WaitGroup
	accepted chan *volley.Conn // gets the accepted one, or is closed if there is none
	receipts []volley.Receipt
}

// runDemo is the demo command.
func runDemo(ctx context.Context, o *options, stdout io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	script, err := simnet.ParseScript(o.script)
	if err == nil {
		err = needUnits(strings.FieldsFunc(o.script, isSeparator))
	}
	if err != nil {
		return fmt.Errorf("--script: %w", err)
	}
	d := &demo{opts: o, src: newGenerator(uint64(o.seed), o.minSize, o.maxSize), ledger: newLedger()}
	if err := d.open(ctx, o.link()); err != nil {
		return err
	}
	defer d.close()
	d.proxy.Play(script, script)
	view := newView(stdout, o)
	sendErr := d.watch(view, func() error { return d.send(ctx) })
	result := d.finish()
	result.print(stdout, textWidth(stdout))
	if !result.intact() {
		return errIntegrity
	}
	return sendErr
}

// open makes both ends and the link between them.
func (d *demo) open(ctx context.Context, link simnet.Link) error {
	cfg := &volley.Config{MaxMessageSize: d.opts.maxSize}
	lc := volley.ListenConfig{Config: cfg}
	var err error
	if d.ln, err = lc.Listen(ctx, "udp", "127.0.0.1:0"); err != nil {
		return err
	}
	d.proxy, err = simnet.NewProxy(simnet.ProxyConfig{
		Target: d.ln.Addr().String(),
		Up:     link,
		Down:   link,
		Seed:   uint64(d.opts.seed),
	})
	if err != nil {
		d.ln.Close()
		return err
	}
	dialer := volley.Dialer{Config: cfg}
	conn, err := dialer.Dial(ctx, "udp", d.proxy.Addr().String())
	if err != nil {
		d.proxy.Close()
		d.ln.Close()
		return err
	}
	d.conn = conn
	d.accepted = make(chan *volley.Conn, 1)
	d.receiver.Go(d.receive)
	return nil
}

func (d *demo) close() {
	d.conn.Close()
	d.ln.Close()
	d.proxy.Close()
}

// receive accepts the connection and checks what arrives on it, until its
// deadline or that of the listener has passed.
func (d *demo) receive() {
	conn, err := d.ln.AcceptConn(context.Background())
	if err != nil {
		close(d.accepted)
		return
	}
	defer conn.Close()
	d.accepted <- conn
	var buf []byte
	for {
		msg, err := conn.ReadMessage(context.Background(), buf[:0])
		switch {
		case err == nil:
			d.ledger.received(msg)
			buf = msg
		case errors.Is(err, os.ErrDeadlineExceeded) && conn.Stats().ReadQueue > 0:
			conn.SetReadDeadline(time.Now().Add(drainTime))
		default:
			return
		}
	}
}

// lateness is how much longer than its duration the sending may take. What is
// due before the end leaves even if the machine pauses for a moment, so that the
// number of messages is the same in each run.
var lateness = 100 * time.Millisecond // but in tests, whose machine may stand still

// send sends all messages, each at its time or as soon as it can.
func (d *demo) send(ctx context.Context) error {
	start := time.Now()
	ctx, cancel := context.WithDeadline(ctx, start.Add(d.opts.duration).Add(lateness))
	defer cancel()
	for i := 0; ; i++ {
		at := time.Duration(float64(i) / d.opts.rate * float64(time.Second))
		if at >= d.opts.duration || !d.pause(ctx, start.Add(at)) {
			return nil
		}
		if err := d.sendOne(d.src.next()); err != nil {
			return err
		}
	}
}

// pause waits until t, and collects receipts meanwhile. It returns false if the
// time is over or the user has had enough.
func (d *demo) pause(ctx context.Context, t time.Time) bool {
	for {
		d.collect()
		wait := min(time.Until(t), collectInterval)
		if wait <= 0 {
			return ctx.Err() == nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

// collectInterval is how often receipts are collected while nothing is sent.
const collectInterval = 20 * time.Millisecond

func (d *demo) sendOne(msg []byte) error {
	p := d.ledger.sending(msg)
	id, err := d.conn.WriteMessage(msg)
	if err != nil {
		d.ledger.unsent(p)
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("the connection has ended: %w", err)
		}
		return err
	}
	d.ledger.sent(p, id)
	return nil
}

// collect enters the receipts that have come into the ledger.
func (d *demo) collect() {
	d.receipts = d.conn.AppendReceipts(d.receipts[:0])
	for _, r := range d.receipts {
		d.ledger.receipt(r)
	}
}

// drainTime is how long the receiver waits for the last messages, beyond the
// round trip time of the link.
const drainTime = 300 * time.Millisecond

// finish waits for what is under way, ends the connection and sums up.
func (d *demo) finish() *result {
	until := time.Now().Add(drainTime + 2*(d.opts.rtt+d.opts.jitter))
	for d.ledger.open() > 0 && time.Now().Before(until) {
		d.pause(context.Background(), time.Now().Add(collectInterval))
	}
	stats := d.conn.Stats()
	d.conn.Close()
	d.collect() // closing has decided the fate of the rest
	d.ln.SetDeadline(time.Now())
	if conn := <-d.accepted; conn != nil {
		conn.SetReadDeadline(time.Now().Add(drainTime))
	}
	d.receiver.Wait()
	up, down := d.proxy.Stats()
	return &result{
		totals:   d.ledger.snapshot(),
		phantoms: d.ledger.phantoms(),
		stats:    stats,
		up:       up,
		down:     down,
	}
}

// watch shows the figures of the demo while f runs.
func (d *demo) watch(v view, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	m := newMeter(d)
	tick := time.NewTicker(v.interval())
	defer tick.Stop()
	v.begin()
	for {
		select {
		case err := <-done:
			v.finish(m.measure(time.Now()))
			return err
		case <-tick.C:
			v.show(m.measure(time.Now()))
		}
	}
}
