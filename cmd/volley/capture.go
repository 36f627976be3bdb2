package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"volley/capture"
)

const captureLong = `Capture turns a file that a program has recorded with Config.Capture into pcapng
for Wireshark and other tools. "volley replay" shows what is in the file.

The file was not taken from the network, so it has no headers of IP and UDP. The
pcapng gets headers with the addresses of the connections, true times and
directions. Connections without such addresses get some of 192.0.2.0/24, which
belong to nobody. Datagrams above a secure session are plain text. Times are those
at which the core received or made a datagram.`

const captureExample = `  volley capture bug.vcap --pcapng bug.pcapng
  volley capture bug.vcap --pcapng - | tshark -r -`

func newCaptureCommand(stdin *os.File) *cobra.Command {
	var pcapng string
	cmd := &cobra.Command{
		Use:     "capture FILE --pcapng OUT",
		Short:   "Turn what was captured of connections into pcapng",
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
			return exportCapture(in, pcapng, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&pcapng, "pcapng", "", "write the datagrams to this file, - for standard output")
	_ = cmd.MarkFlagRequired("pcapng") // the flag exists
	return cmd
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
