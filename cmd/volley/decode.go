package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"volley/internal/dissect"
)

const decodeLong = `Decode shows what is in datagrams of reliable, netcode, porous, riptide and
netplay, and why a receiver refuses those that are malformed: a line for each,
and with -v every field with its place.

The input is hexadecimal digits. They may be arguments, which are one datagram
together, or lines of a file or of standard input, one datagram each; spaces
and 0x do not matter, and # begins a comment. The forms of "hexdump -C", xxd and
"tcpdump -x" are read as well; what tcpdump prints begins with the headers of
IP, which are passed over.

Nothing in a datagram names its protocol. Without --protocol decode goes by what
is possible, and says so where that is more than one, as in "[or riptide]"; what
came before in the same input rules protocols out.`

const decodeExample = `  volley decode 3e 00 00 01 00 00 00 00 68 65 6c 6c 6f
  volley decode -v --protocol riptide 5240f7b656e606
  tcpdump -x -i lo udp port 7777 | volley decode`

// decodeOptions are the flags of decode.
type decodeOptions struct {
	protocol string
	tcp      bool
	json     bool
	verbose  bool

	fragmentSize, maxFragments int
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
	f.StringVarP(&o.protocol, "protocol", "p", "", "what the datagrams are of: "+protocolNames())
	f.BoolVar(&o.tcp, "tcp", false, "hexadecimal digits are the beginning of a TCP stream, and not a datagram of UDP")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show every field: its place in the datagram (offset+length), name and value")
	f.BoolVar(&o.json, "json", false, "print a line of JSON for each datagram")
	f.IntVar(&o.fragmentSize, "fragment-size", 0, "what reliable packets are cut into, in bytes, to check fragments by (default any)")
	f.IntVar(&o.maxFragments, "max-fragments", 0, "the most fragments of a reliable packet, to check fragments by (default 256)")
	return cmd
}

// protocolNames lists the protocols.
func protocolNames() string {
	var names []string
	for _, p := range dissect.Protocols {
		names = append(names, string(p))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (o *decodeOptions) check() error {
	switch {
	case o.protocol != "" && !slices.Contains(dissect.Protocols, dissect.Protocol(o.protocol)):
		return fmt.Errorf("--protocol must be %s, not %q", protocolNames(), o.protocol)
	case o.fragmentSize < 0 || o.fragmentSize > 65535:
		return fmt.Errorf("--fragment-size must be from 1 to 65535, not %d", o.fragmentSize)
	case o.maxFragments < 0 || o.maxFragments > 256:
		return fmt.Errorf("--max-fragments must be from 1 to 256, not %d", o.maxFragments)
	}
	if also, _ := dissect.Protocol(o.protocol).Streams(); o.tcp && o.protocol != "" && !also {
		return fmt.Errorf("--tcp: %s does not travel over TCP", o.protocol)
	}
	return nil
}

// runDecode decodes what the arguments name.
func runDecode(o *decodeOptions, args []string, stdin *os.File, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	p := newDecodePrinter(o, out)
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
		return fmt.Errorf("%w; a file is named alone", err)
	}
	f, openErr := os.Open(args[0])
	if openErr != nil {
		return fmt.Errorf("%q is neither: %w, and as a file: %w", args[0], err, openErr)
	}
	defer f.Close()
	return decodeReader(p, f, args[0])
}

// decodeReader decodes a file.
func decodeReader(p *decodePrinter, r io.Reader, name string) error {
	if err := readHex(r, p.hex); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
