// Command soak runs many connections at the rates of games for a long time, over
// real sockets and links that lose, double and reorder. Meanwhile clients are
// killed, start again and change their addresses. The server closes connections,
// and starts again. It checks every message and every receipt, and ends
// with a verdict; the exit status is 1 if that is red, and 2 if there was no run:
//
//	go run ./bench/soak                      an hour, 200 connections at 60 messages a second each way
//	go run ./bench/soak -duration 2m -life 20s
//
// These must hold:
//
//   - No connection reads a message twice, changed, or of another client.
//   - Each message has exactly one receipt.
//   - No receipt says Delivered of a message that the other side has not read.
//   - No connection ends without a reason.
//   - Memory does not grow, and no goroutine or file is left behind.
//
// Loss, and messages that arrived though their receipt says Lost, are counted: both
// are as documented.
//
// An acknowledged message has been queued for Read, and is dropped if its reader
// then closes the connection. So Delivered messages of the last half minute may be
// unread: as many as the connection says it had queued. They are counted, too.
//
// It needs Linux, where each client has an address of 127.0.0.0/8 of its own, so
// that no connection ever follows another client's at the same address.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command is the program: it returns the exit status.
func command(args []string, out, errors io.Writer) int {
	o, err := parseOptions(args)
	if err != nil {
		fmt.Fprintln(errors, "soak:", err)
		return 2
	}
	fmt.Fprintln(out, o.describe())
	r, err := run(o, out)
	if r != nil {
		fmt.Fprint(out, r)
	}
	switch {
	case err != nil:
		fmt.Fprintln(errors, "soak:", err)
		return 2
	case len(r.red()) > 0:
		return 1
	}
	return 0
}

// maxConns is how many slots have addresses of their own.
const maxConns = 10_000

func parseOptions(args []string) (o options, err error) {
	fs := flag.NewFlagSet("soak", flag.ExitOnError)
	fs.DurationVar(&o.duration, "duration", time.Hour, "`time` in which messages are written")
	fs.IntVar(&o.conns, "conns", 200, "`number` of connections at a time")
	fs.IntVar(&o.rate, "rate", 60, "`messages` a second, of each side of each connection")
	fs.IntVar(&o.bytes, "bytes", 200, "`size` of a message in bytes")
	fs.IntVar(&o.large, "large", 3000, "`size` of some messages in bytes, which take several datagrams")
	fs.IntVar(&o.every, "every", 128, "one of so `many` messages is large; 0: none")
	fs.Uint64Var(&o.seed, "seed", 1, "`seed` of what chance does")
	fs.DurationVar(&o.link.Latency, "latency", 30*time.Millisecond, "`delay` one way")
	fs.DurationVar(&o.link.Jitter, "jitter", 5*time.Millisecond, "how far delays vary, up and down; messages overtake each other by it")
	fs.Float64Var(&o.link.Loss, "loss", 0.02, "`probability` that a datagram is lost")
	fs.Float64Var(&o.link.Duplicate, "duplicate", 0.01, "`probability` that a datagram arrives twice")
	fs.Float64Var(&o.link.Reorder, "reorder", 0.01, "`probability` that a datagram is held back")
	fs.DurationVar(&o.link.ReorderBy, "reorder-by", 50*time.Millisecond, "for how long")
	fs.DurationVar(&o.life, "life", 2*time.Minute, "mean `time` until a connection is killed, restarted, rebound or closed; 0: never")
	fs.DurationVar(&o.settled, "settled", 10*time.Second, "`time` that a connection has before")
	fs.DurationVar(&o.restart, "restart", 10*time.Minute, "`time` between two restarts of the server; 0: never")
	fs.DurationVar(&o.drain, "drain", 15*time.Second, "`time` for the last messages to be read and acknowledged")
	fs.DurationVar(&o.interval, "interval", 10*time.Second, "`time` between two lines")
	fs.Float64Var(&o.maxSlope, "max-slope", 1, "how much the heap may grow in an hour, in `MiB`")
	events := fs.String("events", strings.Join(eventNames[:], ","), "`what` happens to connections")
	_ = fs.Parse(args)
	for _, name := range strings.Split(*events, ",") {
		e := slices.Index(eventNames[:], name)
		if e < 0 {
			return o, fmt.Errorf("-events: %q is not one of %v", name, eventNames)
		}
		o.events = append(o.events, event(e))
	}
	o.away, o.linger, o.judged = 2*time.Second, 20*time.Second, 30*time.Minute
	return o, o.check()
}

func (o *options) check() error {
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{!supported, "needs Linux"},
		{o.duration <= 0, "-duration is not positive"},
		{o.interval <= 0, "-interval is not positive"},
		{o.conns < 1 || o.conns > maxConns, fmt.Sprintf("-conns is not 1 to %d", maxConns)},
		{o.rate < 1 || o.rate > 1000, "-rate is not 1 to 1000"},
		{o.bytes < headerSize || o.bytes > largestSize, fmt.Sprintf("-bytes is not %d to %d", headerSize, largestSize)},
		{o.every > 0 && (o.large < headerSize || o.large > largestSize), fmt.Sprintf("-large is not %d to %d", headerSize, largestSize)},
		{o.every < 0, "-every is negative"},
	} {
		if c.bad {
			return fmt.Errorf("%s", c.what)
		}
	}
	return nil
}
