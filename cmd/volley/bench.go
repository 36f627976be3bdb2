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

const benchLong = `Bench sends messages to "volley serve" for --time. Each --interval it prints how
many bits have arrived, and how many messages were lost. With --reverse the
server sends. The figures are the receiver's. After --time, or at Ctrl-C, it prints
a summary.

Over volley it sends at --rate, like the UDP mode of iperf3, so the loss shows what
the path can carry. Over porous it sends as fast as congestion control allows, like
the TCP mode, unless a rate is given. Bits are those of messages, without headers.
Jitter is the smoothed change of the transit time (RFC 3550).

Beside these messages, bench sends 20 small ones a second, which measure the round
trip under load. It shows how long queues on the path are. Over porous these messages also
wait for all that were written before.

The exit status is 1 if nothing has arrived, and 2 if bench could not run.`

const benchExample = `  volley bench example.com:7777
  volley bench -b 50Mbit -t 30s example.com:7777
  volley bench -b 0 -l 16KiB example.com:7777
  volley bench --reverse -b 20Mbit --json example.com:7777
  volley bench --protocol porous example.com:7777`

func newBenchCommand() *cobra.Command {
	o := benchOptions{duration: span(10 * time.Second), interval: span(time.Second), rate: 1e6, size: 1200}
	cmd := &cobra.Command{
		Use:     "bench HOST:PORT|URL",
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

func (o *benchOptions) check(address string) error {
	switch {
	case o.duration <= 0 || time.Duration(o.duration) > maxBenchTime:
		return fmt.Errorf("--time must be more than 0 and at most %v, not %v", maxBenchTime, &o.duration)
	case time.Duration(o.interval) < minBenchInterval:
		return fmt.Errorf("--interval must be at least %v, not %v", minBenchInterval, &o.interval)
	case o.size < probeSize || o.size > maxProbe:
		return fmt.Errorf("--length must be from %d to %d bytes, not %d", probeSize, maxProbe, o.size)
	}
	return o.wireOptions.check(address)
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
	if err := o.check(address); err != nil {
		return err
	}
	b := &bencher{opts: o, address: address, begin: time.Now(), view: newBenchView(stdout, o),
		replies: make(chan reply, 64), own: newBenchReceiver()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return err
	}
	b.view.begin(b.conn.RemoteAddr().String())
	err := b.measure(ctx)
	b.view.finish(place(address))
	if err == nil && b.view.now.Received == 0 {
		return errNothingArrived
	}
	return err
}

// errNothingArrived makes the exit status 1.
var errNothingArrived = errors.New("nothing has arrived")
