package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	wireOptions
	duration span
	interval span
	rate     bitrate
	size     size
	reverse  bool
	json     bool
}

const benchLong = `Bench sends messages to "volley serve" for --time and tells each --interval how
many bits have arrived, and how many messages have not; with --reverse the server
sends. The figures are the receiver's. It ends after --time, or by Ctrl-C, with a
summary.

Messages of volley are sent at --rate, whatever becomes of them, so that the loss
shows what the way takes: as the UDP mode of iperf3 does, it begins at 1 Mbit/s.
Those of porous are sent as fast as its congestion control lets them, unless a
rate is given, as in the TCP mode. Bits are those of messages, without headers.
Jitter is the smoothed change of the time that messages are under way (RFC 3550).

The exit status is 1 if nothing has arrived, and 2 if bench could not be carried
out.`

const benchExample = `  volley bench example.com:7777
  volley bench -b 50Mbit -t 30s example.com:7777
  volley bench -b 0 -l 16KiB example.com:7777
  volley bench --reverse -b 20Mbit --json example.com:7777
  volley bench --protocol porous example.com:7777`

func newBenchCommand() *cobra.Command {
	o := benchOptions{duration: span(10 * time.Second), interval: span(time.Second), rate: 1e6, size: 1200}
	cmd := &cobra.Command{
		Use:     "bench HOST:PORT",
		Short:   "Measure throughput and loss to or from a server",
		Long:    benchLong,
		Example: benchExample,
		Args:    oneAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.protocol == protocolPorous && !cmd.Flags().Changed("rate") {
				o.rate = 0
			}
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.VarP(&o.duration, "time", "t", "how long to send")
	f.VarP(&o.interval, "interval", "i", "time from one line to the next")
	f.VarP(&o.rate, "rate", "b", "bits a second to send, such as 50Mbit; 0: as fast as it goes")
	f.VarP(&o.size, "length", "l", "bytes in a message, 32 to 64KiB")
	f.BoolVarP(&o.reverse, "reverse", "R", false, "the server sends, and this side receives")
	f.BoolVarP(&o.json, "json", "J", false, "print lines of JSON: one for each interval, and the summary")
	o.registerClient(cmd)
	return cmd
}

const (
	minBenchInterval = 100 * time.Millisecond
	maxBenchTime     = 24 * time.Hour
)

func (o *benchOptions) check() error {
	switch {
	case o.duration <= 0 || time.Duration(o.duration) > maxBenchTime:
		return fmt.Errorf("--time must be more than 0 and at most %v, not %v", maxBenchTime, &o.duration)
	case time.Duration(o.interval) < minBenchInterval:
		return fmt.Errorf("--interval must be at least %v, not %v", minBenchInterval, &o.interval)
	case o.size < probeSize || o.size > maxProbe:
		return fmt.Errorf("--length must be from %d to %d bytes, not %d", probeSize, maxProbe, o.size)
	}
	return o.wireOptions.check()
}

// A benchRequest is what the client asks for, behind the head of probeStart.
type benchRequest struct {
	Reverse  bool          `json:"reverse"`
	Duration time.Duration `json:"duration_ns"`
	Interval time.Duration `json:"interval_ns"`
	Size     int           `json:"size"`
	Rate     float64       `json:"rate"` // bits a second, 0: no limit
}

func (r *benchRequest) check() error {
	switch {
	case r.Duration <= 0 || r.Duration > maxBenchTime:
		return errors.New("a time out of range")
	case r.Interval < minBenchInterval:
		return errors.New("an interval out of range")
	case r.Size < probeSize || r.Size > maxProbe:
		return errors.New("a size out of range")
	case !(r.Rate >= 0 && r.Rate <= 1e12):
		return errors.New("a rate out of range")
	}
	return nil
}

// appendJSON appends a probe with v behind its head.
func appendJSON(dst []byte, p probe, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return append(p.append(dst, probeSize), b...)
}

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

// run measures until it is over.
func (o *benchOptions) run(ctx context.Context, address string, stdout io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	conn, err := o.dial(ctx, address)
	if err != nil {
		return err
	}
	b := &bencher{opts: o, address: address, conn: conn, begin: time.Now(),
		view: newBenchView(stdout, o), replies: make(chan reply, 64), own: newBenchReceiver()}
	defer bye(conn)
	go b.read()
	nonce, err := b.agree(ctx)
	if err != nil {
		return err
	}
	b.alive = (&probe{kind: probeGo, number: nonce}).append(nil, probeSize)
	b.view.begin(conn.RemoteAddr().String())
	if o.reverse {
		err = b.receive(ctx)
	} else {
		err = b.send(ctx)
	}
	b.view.notes = append(b.view.notes, ownTrouble(conn)...)
	b.view.finish(address)
	if err == nil && b.view.total.Received == 0 {
		return errNothingArrived
	}
	return err
}

// errNothingArrived makes the exit status 1.
var errNothingArrived = errors.New("nothing has arrived")

// read takes what the server sends.
func (b *bencher) read() {
	defer close(b.replies)
	var buf []byte
	for {
		m, err := b.conn.ReadMessage(buf[:0])
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
		default:
			b.tell(reply{probe: p, body: append([]byte(nil), m[probeSize:]...)})
		}
	}
}

// tell hands a reply on. Of those that nobody takes the newest count, and come
// again.
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

// agree asks the server for a measurement, and returns the number by which this
// side shows that it is there.
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
				return 0, fmt.Errorf("%s has closed the connection", b.address)
			case r.err != nil && !passing(r.err):
				return 0, r.err
			case r.err != nil:
				refused = true
			case r.probe.kind == probeAccept:
				return r.probe.number, nil
			case r.probe.kind == probeRefused:
				return 0, fmt.Errorf("%s does not measure: %s", b.address, r.body)
			case r.probe.kind == probeStart:
				return 0, fmt.Errorf("%s echoes, but is no \"volley serve\", which bench needs", b.address)
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
			b.address, b.opts.serveFlags())
	}
	return b.opts.unreachable(fmt.Errorf("no answer from %s within %v", b.address, agreeTime), b.address, b.opts.serveFlags())
}

// send sends, and shows what the server reports.
func (b *bencher) send(ctx context.Context) error {
	o := b.opts
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.duration))
	defer cancel()
	sent := make(chan benchSent, 1)
	go func() {
		sent <- sendData(ctx, b.conn, int(o.size), float64(o.rate))
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

// prove shows the server that this side's address is its own, without which it
// sends no more than it gets, until it has reported something.
func (b *bencher) prove() {
	if !b.reported {
		b.conn.Write(b.alive) // and again, if this fails
	}
}

// report shows what the server has received.
func (b *bencher) report(r reply) {
	var got benchFigures
	if r.err == nil && r.probe.kind == probeReport && json.Unmarshal(r.body, &got) == nil {
		b.reported = true
		b.view.show(got)
	}
}

// settleTime is how long the last report may take. After a flood of which the end
// got lost, a peer believes the next sequence only after ten seconds.
const settleTime = 12 * time.Second

// settle tells the server that all has been sent, and waits for the last report.
func (b *bencher) settle(s benchSent) error {
	b.view.sent(s)
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
				if r.probe.kind == probeReport && b.view.last.Final {
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
		case <-interval.C:
			b.view.show(b.own.figures(false))
		case r, ok := <-b.replies:
			if !ok || r.err != nil && !passing(r.err) {
				b.view.show(b.own.figures(true))
				return r.err
			}
			if r.err == nil && r.probe.kind == probeEnd {
				b.own.end(r.probe.number)
				b.view.show(b.own.figures(true))
				b.view.sent(benchSent{count: r.probe.number})
				return nil
			}
		}
	}
}
