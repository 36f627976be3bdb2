package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"volley/capture"
)

const captureLong = `Capture shows what is in a file that a program has recorded with Config.Capture,
and turns it into pcapng for Wireshark and other tools.

The file was not taken from the network, so it has no headers of IP and UDP. The
pcapng gets headers with the addresses of the connections, true times and
directions. Connections without such addresses get some of 192.0.2.0/24, which
belong to nobody. Datagrams above a secure session are plain text. Times are those
at which the core received or made a datagram.`

const captureExample = `  volley capture bug.vcap
  volley capture bug.vcap --pcapng bug.pcapng
  volley capture bug.vcap --pcapng - | tshark -r -`

func newCaptureCommand(stdin *os.File) *cobra.Command {
	var pcapng string
	cmd := &cobra.Command{
		Use:     "capture FILE",
		Short:   "Show what was captured of connections, or turn it into pcapng",
		Long:    captureLong,
		Example: captureExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := stdin
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			if pcapng == "" {
				return showCapture(in, cmd.OutOrStdout())
			}
			return exportCapture(in, pcapng, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&pcapng, "pcapng", "", "write the datagrams to this file, - for standard output")
	return cmd
}

// A captured is a connection of a capture, summed up.
type captured struct {
	*capture.Connection
	calls, sent, received    int
	sentBytes, receivedBytes int64
	first                    time.Duration
}

func showCapture(in io.Reader, out io.Writer) error {
	r, err := capture.NewReader(in)
	if err != nil {
		return err
	}
	printCaptured(out, &r.Header)
	if r.Header.Omitted {
		fmt.Fprintln(out, "the contents of messages were left out")
	}
	all, err := sumUp(r)
	for _, c := range all {
		c.print(out)
	}
	if err != nil {
		return err
	}
	printEnd(out, r.End, 0)
	return nil
}

func sumUp(r *capture.Reader) (all []*captured, err error) {
	known := make(map[uint64]*captured)
	for {
		record, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		c := known[record.Conn.ID]
		if c == nil {
			c = &captured{Connection: record.Conn, first: record.At}
			known[record.Conn.ID] = c
			all = append(all, c)
		}
		switch record.Kind {
		case "opened", "joined", "closed":
		default:
			c.count(record)
		}
	}
}

func (c *captured) count(r *capture.Record) {
	c.calls++
	for _, p := range r.Packets {
		if p.Sent {
			c.sent++
			c.sentBytes += int64(p.Size)
		} else {
			c.received++
			c.receivedBytes += int64(p.Size)
		}
	}
}

func (c *captured) print(out io.Writer) {
	fmt.Fprintf(out, "connection %d, %s, %s to %s, since %s\n", c.ID, printable(c.Protocol), printable(c.Local), printable(c.Remote),
		c.Start.UTC().Format("2006-01-02T15:04:05.000Z"))
	fmt.Fprintf(out, "  %s in %v; datagrams: %d sent (%d bytes), %d received (%d bytes)\n", plural(c.calls, "call", "calls"),
		(c.Elapsed - c.first).Round(time.Microsecond), c.sent, c.sentBytes, c.received, c.receivedBytes)
	if c.Incomplete {
		fmt.Fprintln(out, "  calls are missing, so that it cannot be replayed")
	}
}

func exportCapture(in *os.File, name string, stdout, stderr io.Writer) (err error) {
	r, err := capture.NewReader(in)
	if err != nil {
		return err // and no file is touched
	}
	out := stdout
	if name != "-" {
		if same(in, name) {
			return fmt.Errorf("--pcapng: %s is the capture itself", name)
		}
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	n, skipped, err := writePcapng(r, out)
	if name != "-" {
		fmt.Fprintf(stdout, "%s written to %s\n", plural(n, "datagram", "datagrams"), name)
	}
	if skipped > 0 {
		fmt.Fprintf(stderr, "%s larger than any of UDP left out\n", plural(skipped, "datagram", "datagrams"))
	}
	return err
}

func same(f *os.File, name string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(name)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// printable is text of a file or a process, in a form that does nothing to a terminal.
func printable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
