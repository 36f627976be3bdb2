package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"volley"
)

// pingOptions are the flags of ping.
type pingOptions struct {
	wireOptions
	count    int
	interval span
	deadline span
	timeout  span
	size     size
	json     bool
	plain    bool
	quiet    bool

	// Of the demo.
	title string
	notes <-chan string
}

const pingLong = `Ping sends messages to "volley serve", or to any server that echoes. It shows how
long answers take, and how many are missing. On a terminal it draws the
round-trip time; otherwise, and with --plain, it prints a line for each answer.
It ends with a summary: after --count, at the --deadline, or at Ctrl-C.

A message counts as lost if its answer has not come within --timeout. "volley
serve" counts messages, so ping can tell lost messages from lost answers.

The times include both programs and machines, but not the waits that
acknowledgements of volley may add.

The exit status is 1 if there was no answer at all, and 2 if ping could not run.`

const pingExample = `  volley ping example.com:7777
  volley ping -c 100 -i 0.1 example.com:7777
  volley ping --json -c 10 example.com:7777
  volley ping "$URL" # as volley serve --secure prints it
  volley ping --key @game.key example.com:7777
  volley ping --token 42.token example.com:7777`

func newPingCommand() *cobra.Command {
	o := pingOptions{interval: span(time.Second), timeout: span(2 * time.Second), size: 64}
	cmd := &cobra.Command{
		Use:     "ping HOST:PORT|URL",
		Short:   "Measure round-trip time, jitter and loss to a server",
		Long:    pingLong,
		Example: pingExample,
		Args:    oneAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVarP(&o.count, "count", "c", 0, "how many messages to send; 0: until Ctrl-C")
	f.VarP(&o.interval, "interval", "i", "time from one message to the next")
	f.VarP(&o.deadline, "deadline", "w", "end after this time; 0: no deadline")
	f.Lookup("deadline").DefValue = ""
	f.VarP(&o.timeout, "timeout", "W", "time after which an answer counts as lost")
	f.VarP(&o.size, "size", "s", "bytes in a message, 32 to 64KiB")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print the summary only")
	f.BoolVar(&o.plain, "plain", false, "print lines even on a terminal")
	f.BoolVar(&o.json, "json", false, "print lines of JSON: one for each answer or loss, and the summary")
	o.registerClient(cmd)
	return cmd
}

// minInterval keeps ping from being a flood; that is for bench.
const minInterval = time.Millisecond

func (o *pingOptions) check(address string) error {
	switch {
	case o.count < 0:
		return fmt.Errorf("--count must not be negative, but is %d", o.count)
	case time.Duration(o.interval) < minInterval:
		return fmt.Errorf("--interval must be at least %v; to send faster, use volley bench", minInterval)
	case o.timeout <= 0:
		return errors.New("--timeout must be more than 0")
	case o.size < probeSize || o.size > maxProbe:
		return fmt.Errorf("--size must be from %d to %d bytes, not %d", probeSize, maxProbe, o.size)
	}
	return o.wireOptions.check(address)
}

// A pinger is a run of ping. One goroutine owns it, except for conn.
type pinger struct {
	opts    *pingOptions
	address string
	view    pingView
	begin   time.Time
	conn    messageConn
	answers chan answer
	stopped chan struct{} // closed when nobody takes answers any more

	figures *pingFigures
	buf     []byte
}

// An answer is what a reader has got.
type answer struct {
	conn  messageConn
	probe probe
	size  int
	at    time.Duration // since begin
	err   error         // in place of all this
}

// run pings until it is over.
func (o *pingOptions) run(ctx context.Context, address string, stdout io.Writer) error {
	if err := o.check(address); err != nil {
		return err
	}
	p := &pinger{
		opts: o, address: address, begin: time.Now(),
		answers: make(chan answer, 64), stopped: make(chan struct{}),
		figures: newPingFigures(time.Duration(o.timeout)),
	}
	defer close(p.stopped)
	if o.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(o.deadline))
		defer cancel()
	}
	if err := p.connect(ctx); err != nil {
		return err
	}
	p.view = newPingView(stdout, o, cmp.Or(o.title, fmt.Sprintf("ping %s: %s each %v over %s", p.conn.RemoteAddr(), formatSize(int(o.size)), &o.interval, o.name())))
	p.view.begin()
	err := p.loop(ctx)
	p.figures.expire(time.Since(p.begin), p.view)
	p.view.finish(place(address), p.figures, p.advice())
	bye(p.conn)
	if err == nil && p.figures.answered == 0 {
		return errNoAnswer
	}
	return err
}

// connect dials, and reads what comes.
func (p *pinger) connect(ctx context.Context) error {
	conn, err := p.opts.dial(ctx, p.address)
	if err != nil {
		return err
	}
	p.conn = conn
	go p.read(conn)
	return nil
}

// read hands what comes over a connection on, until that ends.
func (p *pinger) read(conn messageConn) {
	var buf []byte
	for {
		b, err := conn.ReadMessage(context.Background(), buf[:0])
		a := answer{conn: conn, at: time.Since(p.begin), size: len(b), err: err}
		if err == nil {
			buf = b
			var ok bool
			if a.probe, ok = parseProbe(b); !ok || a.probe.kind != probePing {
				continue
			}
		}
		select {
		case p.answers <- a:
		case <-p.stopped:
			return
		}
		if err != nil && !passing(err) {
			return
		}
	}
}

// redrawEvery is how often a picture is drawn anew.
const redrawEvery = 200 * time.Millisecond

// loop sends and takes answers until all is over.
func (p *pinger) loop(ctx context.Context) error {
	start := time.Since(p.begin)
	send := time.NewTimer(0)
	defer send.Stop()
	redraw := time.NewTicker(redrawEvery)
	defer redraw.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-p.answers:
			if err := p.take(ctx, a); err != nil {
				return err
			}
		case text := <-p.opts.notes:
			p.view.show(noteEvent(time.Since(p.begin), text))
		case <-send.C:
			if err := p.send(ctx); err != nil {
				return err
			}
			if !p.allSent() {
				next := start + time.Duration(p.figures.sent)*time.Duration(p.opts.interval)
				send.Reset(max(0, next-time.Since(p.begin)))
			}
		case <-redraw.C:
			p.figures.expire(time.Since(p.begin), p.view)
			p.view.redraw(time.Since(p.begin), p.figures)
		}
		if p.allSent() && p.figures.open() == 0 {
			return nil
		}
	}
}

func (p *pinger) allSent() bool { return p.opts.count > 0 && p.figures.sent >= uint64(p.opts.count) }

func (p *pinger) send(ctx context.Context) error {
	now := time.Since(p.begin)
	m := probe{kind: probePing, number: p.figures.sent, sent: now}
	p.buf = m.append(p.buf[:0], int(p.opts.size))
	p.figures.send(now)
	_, err := p.conn.Write(p.buf)
	switch {
	case errors.Is(err, volley.ErrPeerRestarted):
		return p.again(ctx, restarted)
	case errors.Is(err, io.ErrClosedPipe):
		return p.again(ctx, closed)
	}
	return err
}

func (p *pinger) take(ctx context.Context, a answer) error {
	switch {
	case a.conn != p.conn:
	case a.err == nil:
		p.figures.answer(a, p.view)
	case passing(a.err):
		p.figures.refused++
		p.view.show(noteEvent(a.at, fmt.Sprintf("the machine of %s says that nobody listens on that port", p.conn.RemoteAddr())))
	case errors.Is(a.err, volley.ErrPeerRestarted):
		return p.again(ctx, restarted)
	case errors.Is(a.err, io.EOF):
		return p.again(ctx, closed)
	default:
		if e, ok := errors.AsType[*volley.RefusedError](a.err); !ok || e.Reason != "closing" {
			return a.err
		}
		return p.again(ctx, closing) // it may be back soon
	}
	return nil
}

// Why ping connects anew.
const (
	restarted = "the server does not know the connection, as after a restart"
	closed    = "closed by the peer"
	closing   = "refused: closing"
)

// again dials anew after the end of a connection.
func (p *pinger) again(ctx context.Context, why string) error {
	p.view.show(noteEvent(time.Since(p.begin), why+"; connecting anew"))
	p.conn.Close()
	p.figures.restart()
	return p.connect(ctx)
}

// advice says why there may be no answer, or what the connection itself has noticed.
func (p *pinger) advice() []string {
	if p.figures.answered > 0 || p.figures.sent == 0 {
		return ownTrouble(p.conn)
	}
	if p.figures.refused > 0 {
		return []string{`start "volley serve" there, or look whether the port is right`}
	}
	return []string{fmt.Sprintf(`nothing has come back: is "volley serve%s" running there, and does UDP pass the firewalls on the way?`, p.opts.serveFlags())}
}

// errNoAnswer makes the exit status 1.
var errNoAnswer = errors.New("no answer")
