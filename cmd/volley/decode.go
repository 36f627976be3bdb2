package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"volley/cmd/volley/internal/packets"
	"volley/internal/dissect"
)

const decodeLong = `Decode shows what is in datagrams of reliable, netcode, porous, riptide and
netplay, and why a receiver refuses malformed datagrams. It prints a line for
each, and with -v every field and its place.

The input is a capture (pcap or pcapng, of tcpdump or Wireshark), or hexadecimal
digits. Either may be a file or standard input. Digits as arguments are one
datagram. In a file each line is a datagram, spaces and 0x are ignored, and #
begins a comment.

Nothing in a datagram names its protocol, so --protocol does.`

const decodeExample = `  volley decode -p reliable 3e 00 00 01 00 00 00 00 68 65 6c 6c 6f
  volley decode -p riptide -v 5240f7b656e606
  volley decode -p netcode --token session.token capture.pcapng
  tcpdump -w - -U -i lo udp port 7777 | volley decode -p porous`

// decodeOptions are the flags of decode.
type decodeOptions struct {
	protocol dissect.Protocol
	tcp      bool
	ports    []uint
	token    string
	json     bool
	verbose  bool

	dissector bool
}

func newDecodeCommand(stdin *os.File) *cobra.Command {
	var o decodeOptions
	cmd := &cobra.Command{
		Use:     "decode [HEX... | FILE]",
		Short:   "Show what is in datagrams",
		Long:    decodeLong,
		Example: decodeExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDecode(&o, args, stdin, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP((*string)(&o.protocol), "protocol", "p", "", "protocol of the datagrams: "+protocolNames())
	f.BoolVar(&o.tcp, "tcp", false, "the digits are the beginning of a TCP stream, not a UDP datagram")
	f.UintSliceVar(&o.ports, "port", nil, "of a capture, decode only packets of this port, or of these")
	f.Lookup("port").DefValue = ""
	f.StringVar(&o.token, "token", "", `file with a connect token of netcode, as "volley token new" makes it: opens the packets of its session`)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show every field: its place in the datagram (offset+length), name and value")
	f.BoolVar(&o.json, "json", false, "print a line of JSON for each datagram")
	f.BoolVar(&o.dissector, "dissector", false, "print a plugin for Wireshark, for its folder of Lua plugins")
	return cmd
}

func protocolNames() string {
	var names []string
	for _, p := range dissect.Protocols {
		names = append(names, string(p))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (o *decodeOptions) check() error {
	if o.protocol == "" {
		return errors.New("nothing in a datagram names its protocol; give --protocol " + protocolNames())
	}
	if !slices.Contains(dissect.Protocols, o.protocol) {
		return fmt.Errorf("--protocol must be %s, not %q", protocolNames(), o.protocol)
	}
	if also, _ := o.protocol.Streams(); o.tcp && !also {
		return fmt.Errorf("--tcp: %s does not travel over TCP", o.protocol)
	}
	return nil
}

func runDecode(o *decodeOptions, args []string, stdin *os.File, out io.Writer) error {
	if o.dissector {
		_, err := io.WriteString(out, dissect.Lua())
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	p, err := newDecodePrinter(o, out)
	if err != nil {
		return err
	}
	if err := decodeInput(p, args, stdin); err != nil {
		return errors.Join(err, p.flush())
	}
	return p.flush()
}

// decodeInput finds out what the arguments are, and decodes it.
func decodeInput(p *decodePrinter, args []string, stdin *os.File) error {
	if len(args) == 0 || len(args) == 1 && args[0] == "-" {
		if len(args) == 0 && isTerminal(stdin) {
			return errors.New("there is nothing to decode; give hexadecimal digits, a file, or pipe something in")
		}
		return decodeReader(p, stdin, "standard input")
	}
	b, err := parseHex(strings.Join(args, " "))
	if err == nil {
		return p.hex(b)
	}
	if len(args) > 1 {
		return fmt.Errorf("%w; if these are files, decode takes one at a time", err)
	}
	f, openErr := os.Open(args[0])
	if openErr != nil {
		return fmt.Errorf("%q is neither hexadecimal digits (%w) nor a file (%w)", args[0], err, openErr)
	}
	defer f.Close()
	return decodeReader(p, f, args[0])
}

func decodeReader(p *decodePrinter, r io.Reader, name string) error {
	in := bufio.NewReader(r)
	magic, _ := in.Peek(4)
	var err error
	switch {
	case packets.IsCapture(magic):
		err = p.capture(in)
	case len(magic) > 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		err = errors.New("is compressed; unpack it with gunzip first")
	case string(magic) == "vlyc": // of package capture
		err = errors.New(`is a capture of volley; "volley capture FILE --pcapng OUT" turns it into one that decode reads`)
	default:
		err = readHex(in, p.hex)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
