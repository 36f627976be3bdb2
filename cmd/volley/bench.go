package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
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
	streams  int
	reverse  bool
	bidir    bool
	json     bool
}

const benchLong = `Bench sends messages to "volley serve" for --time. Each --interval it prints how
many bits have arrived, and how many messages were lost. With --reverse the
server sends, with --bidir both do. The figures are the receivers'. After --time,
or at Ctrl-C, it prints a summary.

Volley sends at --rate, like the UDP mode of iperf3, so the loss shows what the
path can carry. Porous sends as fast as its congestion control allows, like the
TCP mode, unless a rate is given. Bits are those of messages, without headers.
Jitter is the smoothed change of the transit time (RFC 3550).
--parallel opens several connections, each with the --rate.

The round trip under load is measured by 20 small messages a second beside the
others. It shows how long queues on the path are. Over porous these messages also
wait for all that were written before.

The exit status is 1 if nothing has arrived, and 2 if bench could not run.`

const benchExample = `  volley bench example.com:7777
  volley bench -b 50Mbit -t 30s example.com:7777
  volley bench -b 0 -l 16KiB example.com:7777
  volley bench --reverse -b 20Mbit --json example.com:7777
  volley bench --bidir -P 4 -b 5Mbit example.com:7777
  volley bench --protocol porous example.com:7777`

func newBenchCommand() *cobra.Command {
	o := benchOptions{duration: span(10 * time.Second), interval: span(time.Second), rate: 1e6, size: 1200, streams: 1}
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
	f.VarP(&o.rate, "rate", "b", "bits a second to send on each connection, such as 50Mbit; 0: as fast as it goes")
	f.VarP(&o.size, "length", "l", "bytes in a message, 32 to 64KiB")
	f.BoolVarP(&o.reverse, "reverse", "R", false, "the server sends, and this side receives")
	f.BoolVar(&o.bidir, "bidir", false, "both sides send, each on connections of its own")
	f.IntVarP(&o.streams, "parallel", "P", 1, "how many connections to send on at the same time, 1 to 128")
	f.BoolVarP(&o.json, "json", "J", false, "print lines of JSON: one for each interval, and the summary")
	o.registerClient(cmd)
	return cmd
}

const (
	minBenchInterval = 100 * time.Millisecond
	maxBenchTime     = 24 * time.Hour
	maxBenchStreams  = 128
)

func (o *benchOptions) check() error {
	switch {
	case o.duration <= 0 || time.Duration(o.duration) > maxBenchTime:
		return fmt.Errorf("--time must be more than 0 and at most %v, not %v", maxBenchTime, &o.duration)
	case time.Duration(o.interval) < minBenchInterval:
		return fmt.Errorf("--interval must be at least %v, not %v", minBenchInterval, &o.interval)
	case o.size < probeSize || o.size > maxProbe:
		return fmt.Errorf("--length must be from %d to %d bytes, not %d", probeSize, maxProbe, o.size)
	case o.streams < 1 || o.streams > maxBenchStreams:
		return fmt.Errorf("--parallel must be from 1 to %d, not %d", maxBenchStreams, o.streams)
	case o.reverse && o.bidir:
		return errors.New("--reverse and --bidir exclude each other: with --bidir both sides send")
	case o.token != "" && (o.bidir || o.streams > 1):
		return errors.New("--token opens one session, but --bidir and --parallel need several: use --key")
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
		return errors.New("the time is out of range")
	case r.Interval < minBenchInterval:
		return errors.New("the interval is out of range")
	case r.Size < probeSize || r.Size > maxProbe:
		return errors.New("the size is out of range")
	case !(r.Rate >= 0 && r.Rate <= 1e12):
		return errors.New("the rate is out of range")
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

// run measures until it is over.
func (o *benchOptions) run(ctx context.Context, address string, stdout io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	view := newBenchView(stdout, o)
	list := o.benchers(address, view)
	err := together(list, func(b *bencher) error { return b.open(ctx) })
	defer together(list, (*bencher).close)
	if err != nil {
		return err
	}
	view.begin(list[0].conn.RemoteAddr().String())
	err = together(list, func(b *bencher) error { return b.measure(ctx) })
	view.finish(address)
	if err == nil && !view.complete() {
		return errNothingArrived
	}
	return err
}

// benchers returns one for each connection that there is to be.
func (o *benchOptions) benchers(address string, view *benchView) (list []*bencher) {
	ways := []bool{o.reverse}
	if o.bidir {
		ways = []bool{false, true}
	}
	for _, reverse := range ways {
		way := view.addWay(reverse)
		for range o.streams {
			b := &bencher{opts: o, wire: o.wireOptions, address: address, reverse: reverse, begin: time.Now(), view: view,
				stream: way.add(), replies: make(chan reply, 64), own: newBenchReceiver(), pings: len(list) == 0}
			b.wire.clientID += number(len(list)) // a server has one session of each
			list = append(list, b)
		}
	}
	return list
}

// together calls f for all at the same time, and returns the first one's error
// that has any.
func together(list []*bencher, f func(*bencher) error) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, b := range list {
		wg.Go(func() { errs[i] = f(b) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// errNothingArrived makes the exit status 1.
var errNothingArrived = errors.New("nothing has arrived")
