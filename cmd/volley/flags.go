package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"volley/simnet"
)

// options are the flags of the demo.
type options struct {
	rtt, jitter                       time.Duration
	loss, duplicate, reorder, corrupt percent
	bandwidth                         bitrate
	script                            string
	seed                              number

	rate             float64
	duration         time.Duration
	minSize, maxSize int
	plain            bool
}

// The sizes of messages. The limit is that of the wire format, 256 fragments
// of 1024 bytes.
const (
	defaultMaxSize = 16 << 10
	limitSize      = 256 << 10
)

const demoLong = `Demo opens a listener and a dialed connection on loopback, with a simulated
bad link between them, sends messages from one to the other, and checks each
one that arrives.

It sends 60 messages of 1 byte to 16 KiB each second, for 10 seconds. A message
of up to 1 KiB is one datagram. A larger one is several, which all have to arrive,
so more messages are lost than datagrams.

A script changes the link over time. Each step is a time, settings and perhaps a
duration. Semicolons separate steps:

  3s loss=40% for 2s; 6s blackout for 500ms; 8s latency=80ms

The settings are latency, jitter (of one direction), loss, burst (as in
"2%/8": 2 % lost, 8 in a row on average), duplicate, reorder, reorder-by,
corrupt, bandwidth, queue, mtu, ordered and blackout.

The exit status is 1 if a message arrived corrupt or twice, or was acknowledged
but not received. It is 2 if the demo could not run.`

const demoExample = `  volley demo
  volley demo --loss 20% --rtt 200ms --duration 30s
  volley demo --script "3s loss=40% for 2s; 6s blackout for 500ms"`

func newDemoCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Send messages over a bad link and show what becomes of them",
		Long:    demoLong,
		Example: demoExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), &o, cmd.OutOrStdout())
		},
	}
	o.loss, o.seed, o.duration = 0.05, 1, 10*time.Second
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&o.rtt, "rtt", 40*time.Millisecond, "round trip time of the link")
	f.DurationVar(&o.jitter, "jitter", 10*time.Millisecond, "how far the round trip time varies up and down")
	f.Var(&o.loss, "loss", "share of datagrams lost, each way")
	f.Var(&o.duplicate, "duplicate", "share of datagrams that arrive twice")
	f.Var(&o.reorder, "reorder", "share of datagrams held back by 10 ms, to be overtaken")
	f.Var(&o.corrupt, "corrupt", "share of datagrams with a flipped bit; the wire has no checksum")
	f.Var(&o.bandwidth, "bandwidth", "rate of the link each way, such as 2Mbit; 0 is no limit")
	f.StringVar(&o.script, "script", "", "changes of the link over time, see above")
	f.Var(&o.seed, "seed", "decides which datagrams meet what")
	f.Float64Var(&o.rate, "rate", 60, "messages a second")
	f.Var((*span)(&o.duration), "duration", "how long to send")
	f.IntVar(&o.minSize, "min-size", 1, "smallest message in bytes")
	f.IntVar(&o.maxSize, "max-size", defaultMaxSize, "largest message in bytes")
	f.BoolVar(&o.plain, "plain", false, "print lines even on a terminal")
	return cmd
}

// link returns the description of the link, the same for each direction.
func (o *options) link() simnet.Link {
	return simnet.Link{
		Latency:   o.rtt / 2,
		Jitter:    o.jitter / 2,
		Loss:      float64(o.loss),
		Duplicate: float64(o.duplicate),
		Reorder:   float64(o.reorder),
		Corrupt:   float64(o.corrupt),
		Bandwidth: int64(o.bandwidth),
	}
}

// check reports the first value out of range.
func (o *options) check() error {
	switch {
	case o.rtt < 0 || o.jitter < 0:
		return errors.New("--rtt and --jitter must not be negative")
	case !(o.rate > 0 && o.rate <= 1e6):
		return fmt.Errorf("--rate must be more than 0 and at most 1,000,000, not %v", o.rate)
	case o.duration <= 0:
		return fmt.Errorf("--duration must be more than 0, not %v", o.duration)
	case o.minSize < 1 || o.minSize > o.maxSize:
		return fmt.Errorf("--min-size must be from 1 to --max-size, not %d", o.minSize)
	case o.maxSize > limitSize:
		return fmt.Errorf("--max-size must be at most %d, not %d", limitSize, o.maxSize)
	}
	return nil
}

// A percent is a flag that takes "5%", and is kept as a fraction. A bare 5 would
// be a fraction in settings of links.
type percent float64

func (p *percent) String() string { return strconv.FormatFloat(100*float64(*p), 'g', 4, 64) + "%" }
func (p *percent) Type() string   { return "percent" }

func (p *percent) Set(s string) error {
	num, unit := strings.CutSuffix(strings.TrimSpace(s), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	switch {
	case err != nil || !(x >= 0 && x <= 100):
		return errors.New("must be a percentage from 0% to 100%")
	case !unit && x != 0:
		return fmt.Errorf("%s has no unit: it is a percentage, such as 5%%", num)
	}
	*p = percent(x / 100)
	return nil
}

// A number is a flag that takes a whole number, with 0x in hexadecimal.
type number uint64

func (n *number) String() string { return strconv.FormatUint(uint64(*n), 10) }
func (n *number) Type() string   { return "uint" }

func (n *number) Set(s string) error {
	x, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return fmt.Errorf("must be a whole number from 0 to %d", uint64(math.MaxUint64))
	}
	*n = number(x)
	return nil
}
