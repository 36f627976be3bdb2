package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"volley"
	"volley/capture"
	"volley/porous"
)

const replayLong = `Replay gives the recorded input of connections to fresh protocol cores, and
compares their answers with the recording: what they send, deliver and decide. A
program makes such a file with Config.Capture and package capture.

It prints a line for each connection, with the digest of all answers, or the
first answer that differs. The exit status is 1 if one differs. A connection
cannot be replayed if a ring has forgotten its beginning.`

// errDiverges is returned when a replay was not the same, which has been said.
var errDiverges = errors.New("the answers of the replay differ from the recording")

// replays are the protocols' ways to replay a capture.
var replays = []func(io.Reader) (*capture.Report, error){volley.Replay, porous.Replay}

func newReplayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay what was captured of connections",
		Long:  replayLong,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" {
				return errors.New("a capture is read more than once, so it must be a file")
			}
			in, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			return replay(in, cmd.OutOrStdout())
		},
	}
}

// replay replays a file for all protocols.
func replay(in io.ReadSeeker, out io.Writer) error {
	var all []*capture.Replayed
	var end *capture.End
	var header capture.Header
	others, broken := 0, error(nil)
	for i, f := range replays {
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return err
		}
		report, err := f(in)
		if report == nil {
			return err
		}
		all = append(all, report.Connections...)
		end, header = report.End, report.Header
		if broken == nil {
			broken = err
		}
		if i == 0 {
			others = len(report.Connections) + report.Others
		}
		others -= len(report.Connections)
	}
	slices.SortFunc(all, func(a, b *capture.Replayed) int { return cmp.Compare(a.ID, b.ID) })
	printCaptured(out, &header)
	for _, c := range all {
		printReplay(out, c)
	}
	printEnd(out, end, others)
	return judge(all, broken)
}

// judge says what the replays come to, given what was wrong with the file.
func judge(all []*capture.Replayed, broken error) error {
	done := 0
	for _, c := range all {
		if c.Divergence != nil {
			return errDiverges
		}
		if !c.Incomplete {
			done++
		}
	}
	if broken == nil && done == 0 {
		return errors.New("no connection in the capture can be replayed")
	}
	return broken
}

func printCaptured(out io.Writer, h *capture.Header) {
	fmt.Fprintf(out, "captured %s with volley %s, %s, %s\n",
		h.Created.UTC().Format(time.RFC3339), printable(h.Library), printable(h.Go), printable(h.Platform))
	if h.Omitted {
		fmt.Fprintln(out, "the contents of messages were left out")
	}
}

func printReplay(out io.Writer, c *capture.Replayed) {
	fmt.Fprintf(out, "connection %d, %s, %s to %s: %s in %v, %d datagrams sent, %d received, %s\n", c.ID,
		printable(c.Protocol), printable(c.Local), printable(c.Remote),
		plural(c.Calls, "call", "calls"), c.Elapsed.Round(time.Microsecond), c.Sent, c.Received,
		plural(c.Messages, "message delivered", "messages delivered"))
	switch {
	case c.Incomplete:
		fmt.Fprintln(out, "  not replayed: calls are missing")
	case c.Divergence != nil:
		d := c.Divergence
		fmt.Fprintf(out, "  DIVERGES at call %d (%s) after %v, at byte %d of the file\n    recorded  %s\n    replayed  %s\n",
			d.Call, d.Kind, d.At, d.Offset, d.Recorded, d.Replayed)
	default:
		fmt.Fprintf(out, "  the same, digest %x\n", c.Digest)
	}
}

func printEnd(out io.Writer, end *capture.End, others int) {
	switch {
	case end == nil:
		fmt.Fprintln(out, "the capture has no end: the program did not finish it")
	case end.Limit:
		fmt.Fprintf(out, "recording stopped at its limit of bytes; %s not recorded\n", plural(int(end.Dropped), "call was", "calls were"))
	case end.Failed:
		fmt.Fprintf(out, "recording stopped since the output failed; %s not recorded\n", plural(int(end.Dropped), "call was", "calls were"))
	case end.Dropped > 0:
		fmt.Fprintf(out, "%s not recorded\n", plural(int(end.Dropped), "call was", "calls were"))
	}
	if others > 0 {
		fmt.Fprintf(out, "%s of protocols that are not known here\n", plural(others, "connection is", "connections are"))
	}
}
