package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"volley"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	wireOptions
	maxTime span
	maxRate bitrate
	noBench bool
}

const serveLong = `Serve answers "volley ping", "volley bench" and "volley check". It echoes every
other message, so that you can try your own clients.

It listens on UDP port 7777 of all addresses unless an address is given. It
prints a line when a connection comes or goes, and totals at the end. Ctrl-C ends
it.

It serves everybody who reaches the port. "bench --reverse" gets data only after
the client has proved its address, at --max-rate for all clients together, and
for --max-time at most. With --secure clients need the URL that it prints, and
with --key that key, or a token made with it.`

const serveExample = `  volley serve
  volley serve 127.0.0.1:9000
  volley serve --secure --key-file server.key
  volley serve --key @game.key`

func newServeCommand() *cobra.Command {
	o := serveOptions{maxTime: span(10 * time.Minute), maxRate: 1e9}
	cmd := &cobra.Command{
		Use:     "serve [ADDRESS]",
		Short:   "Echo messages, and answer ping, bench and check",
		Long:    serveLong,
		Example: serveExample,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address := ":7777"
			if len(args) > 0 {
				address = args[0]
			}
			return o.run(cmd.Context(), address, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&o.maxTime, "max-time", "longest time that a measurement may send to a client")
	f.Var(&o.maxRate, "max-rate", "most bits a second that all measurements together may send, such as 100Mbit; 0: no limit")
	f.BoolVar(&o.noBench, "no-bench", false, "refuse measurements of bench")
	o.registerServer(cmd)
	return cmd
}

// A server is a run of serve.
type server struct {
	opts  *serveOptions
	begin time.Time
	ln    net.Listener
	wg    sync.WaitGroup

	limit *rateLimit // of what measurements send; nil: none

	mu    sync.Mutex // of out, and conns
	out   io.Writer
	conns map[messageConn]bool

	served                    atomic.Int64
	received, answered, bytes atomic.Uint64
}

// run serves until ctx is done.
func (o *serveOptions) run(ctx context.Context, address string, stdout, stderr io.Writer) error {
	if err := o.check(""); err != nil {
		return err
	}
	ln, url, err := o.listen(ctx, address)
	if err != nil {
		return err
	}
	s := &server{opts: o, limit: newRateLimit(float64(o.maxRate)), begin: time.Now(), ln: ln, out: stdout, conns: make(map[messageConn]bool)}
	s.announce(url)
	stop := context.AfterFunc(ctx, s.stop)
	defer stop()
	err = s.accept(ctx, ln)
	s.stop()
	s.wg.Wait()
	s.summary()
	return err
}

// announce prints the address, and what clients dial if that is a URL.
func (s *server) announce(url string) {
	addr := s.ln.Addr().String()
	text := fmt.Sprintf("listening on %s, %s; Ctrl-C ends it", addr, s.opts.name())
	if url != "" {
		text += "\nclients dial " + url + "\nIf they know this machine by another name, the URL may have that in place of the address."
	}
	s.print(text)
}

// stop ends the listener and all connections.
func (s *server) stop() {
	s.ln.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		go c.Close() // which may wait for acknowledgements
	}
}

func (s *server) accept(ctx context.Context, ln net.Listener) error {
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			s.wg.Go(func() { s.serve(ctx, nc.(messageConn)) })
		case errors.Is(err, net.ErrClosed) || ctx.Err() != nil:
			return nil
		default:
			return err
		}
	}
}

// A client is one connection of a server.
type client struct {
	s     *server
	conn  messageConn
	begin time.Time
	buf   []byte
	stats clientStats
	bench *benchServer // nil before a measurement

	// An address may be forged until it has shown a number that was sent to
	// it. Until then it gets no more bytes than have come from it.
	proved atomic.Bool
	credit atomic.Int64 // in bytes of messages
}

// write sends a message that answers something, if the client may have it.
func (c *client) write(m []byte) error {
	if n := int64(len(m)); !c.proved.Load() && c.credit.Add(-n) < 0 {
		c.credit.Add(n)
		return errUnproved
	}
	_, err := c.conn.Write(m)
	return err
}

// unprovedBuffer is the most that is kept for the next message of an unproved address.
const unprovedBuffer = 2 << 10

// trim gives a large buffer back, unless the client has proved its address.
func (c *client) trim() {
	if cap(c.buf) > unprovedBuffer && !c.proved.Load() {
		c.buf = nil
	}
}

var errUnproved = errors.New("the client has to send more, or to prove its address")

type clientStats struct {
	messages, bytes uint64 // received, without headers
	pings, answered uint64
}

// serve reads what a client sends until its connection ends.
func (s *server) serve(ctx context.Context, conn messageConn) {
	s.mu.Lock()
	s.conns[conn] = true
	s.mu.Unlock()
	if ctx.Err() != nil {
		conn.Close()
	}
	s.served.Add(1)
	c := &client{s: s, conn: conn, begin: time.Now()}
	peer := conn.RemoteAddr().String()
	s.print(peer + " has connected")
	var err error
	for err == nil {
		if c.buf, err = conn.ReadMessage(context.Background(), c.buf[:0]); passing(err) {
			err = nil
		} else if err == nil && !c.handle() {
			break
		}
		c.trim()
	}
	if c.bench != nil {
		c.bench.stop()
	}
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
	notes := ownTrouble(conn)
	conn.Close()
	text := fmt.Sprintf("%s has gone after %.1f s: %s received (%s), %s answered%s", peer, time.Since(c.begin).Seconds(),
		plural(int(c.stats.messages), "message", "messages"), formatSize(int(c.stats.bytes)), fmt.Sprint(c.stats.answered), why(err))
	s.print(strings.Join(append([]string{text}, notes...), "\n  "))
}

// why says why a connection has ended, where that is not as usual.
func why(err error) string {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return ""
	case errors.Is(err, volley.ErrIdleTimeout):
		return "; nothing was heard of it for 30 s"
	case errors.Is(err, net.ErrClosed):
		return ""
	}
	return "; " + err.Error()
}

// handle answers the message in c.buf. It returns false if the client has said goodbye.
func (c *client) handle() bool {
	c.stats.messages++
	c.stats.bytes += uint64(len(c.buf))
	c.s.received.Add(1)
	c.s.bytes.Add(uint64(len(c.buf)))
	c.credit.Add(int64(len(c.buf)))
	p, ok := parseProbe(c.buf)
	switch {
	case !ok:
	case p.kind == probeBye:
		return false
	case p.kind == probeCheck:
		c.buf = appendCheckReply(c.buf[:0], p, c.conn.RemoteAddr(), time.Now())
	case p.kind == probePing:
		c.stats.pings++
		setSeen(c.buf, c.stats.pings)
	default:
		c.measure(p)
		return true
	}
	if c.write(c.buf) == nil {
		c.stats.answered++
		c.s.answered.Add(1)
	}
	return true
}

func (s *server) summary() {
	s.print(fmt.Sprintf("\nserved %s in %.1f s: %s received (%s), %s answered%s",
		plural(int(s.served.Load()), "connection", "connections"), time.Since(s.begin).Seconds(),
		plural(int(s.received.Load()), "message", "messages"), formatSize(int(s.bytes.Load())), fmt.Sprint(s.answered.Load()), s.refused()))
}

// refused tells of datagrams that the socket had no room for.
func (s *server) refused() string {
	ln, ok := s.ln.(*volley.Listener)
	if !ok {
		return ""
	}
	if n := ln.Stats().Transport.Drops; n > 0 {
		return fmt.Sprintf("; %d datagrams found the socket's receive buffer full", n)
	}
	return ""
}

// print prints a line.
func (s *server) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, text)
}

func printJSON(w io.Writer, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	w.Write(append(harmlessJSON(b), '\n'))
}
