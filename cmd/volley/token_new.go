package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"volley/netcode"
)

// tokenOptions are the flags of token new.
type tokenOptions struct {
	key               string
	protocol, id      number
	servers, internal []string
	expires, timeout  time.Duration
	userData          string
	binary            bool
	out               string
}

const tokenNewLong = `New makes a connect token, as a backend does for a user who has logged in.

The output is a line of base64, or with --binary the 2048 bytes that every
implementation of NETCODE 1.02 reads. This machine's clock gives the time of issue;
it must agree with the clocks of the servers.`

func newTokenNewCommand() *cobra.Command {
	var o tokenOptions
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a connect token",
		Long:  tokenNewLong,
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.key, "key", "", keyUsage)
	f.Var(&o.protocol, "protocol", "protocol id, the same as the servers'")
	f.StringSliceVar(&o.servers, "server", nil, "address and port of a server; up to 32 of them, to try in order")
	f.StringSliceVar(&o.internal, "internal", nil, "address under which a server knows itself, one for each --server (default the same)")
	f.Var(&o.id, "id", "client id, which the server learns")
	f.DurationVar(&o.expires, "expires", 30*time.Second, "how long the token can be used, the same as the servers' TokenLifetime; negative: forever")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "silence that ends a handshake or session; negative: none")
	f.StringVar(&o.userData, "user-data", "", "text that the server learns, up to 256 bytes")
	f.BoolVar(&o.binary, "binary", false, "write 2048 bytes rather than text")
	f.StringVar(&o.out, "out", "", "file to make for the token (default standard output)")
	for _, name := range []string{"key", "server", "id"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

func (o *tokenOptions) run(stdout io.Writer) error {
	issuer, err := o.issuer()
	if err != nil {
		return err
	}
	token, err := issuer.Issue(uint64(o.id), []byte(o.userData))
	if err != nil {
		return err
	}
	if o.binary {
		if f, ok := stdout.(*os.File); ok && o.out == "" && term.IsTerminal(int(f.Fd())) {
			return errors.New("--binary: a terminal cannot show it; give a file with --out")
		}
		b, err := token.MarshalBinary()
		return errors.Join(err, writeSecret(stdout, o.out, b))
	}
	text, err := token.MarshalText()
	if err != nil {
		return err
	}
	return writeSecret(stdout, o.out, append(text, '\n'))
}

func (o *tokenOptions) issuer() (is *netcode.Issuer, err error) {
	is = &netcode.Issuer{ProtocolID: uint64(o.protocol), Lifetime: o.expires, Timeout: o.timeout}
	if is.PrivateKey, err = readKey(o.key); err != nil {
		return nil, err
	}
	if is.Servers, err = readAddrs("--server", o.servers); err != nil {
		return nil, err
	}
	if is.InternalServers, err = readAddrs("--internal", o.internal); err != nil {
		return nil, err
	}
	switch n := len(o.servers); {
	case n < 1 || n > 32:
		return nil, fmt.Errorf("--server must be given 1 to 32 times, not %d", n)
	case len(o.internal) > 0 && len(o.internal) != n:
		return nil, fmt.Errorf("--internal must be given once for each --server, that is %d times, not %d", n, len(o.internal))
	case o.expires == 0 || o.timeout == 0:
		return nil, errors.New("--expires and --timeout must not be 0; a negative value means never")
	case len(o.userData) > netcode.UserDataSize:
		return nil, fmt.Errorf("--user-data must have at most %d bytes, not %d", netcode.UserDataSize, len(o.userData))
	}
	return is, nil
}

// readAddrs reads addresses, which must have ports.
func readAddrs(flag string, texts []string) (addrs []netip.AddrPort, err error) {
	for _, s := range texts {
		if addr, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil && addr.Zone() == "" {
			return nil, fmt.Errorf("%s: %q has no port; write %s", flag, s, withPort(addr))
		}
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not an address such as 203.0.113.5:7777 or [2001:db8::5]:7777; names have to be looked up before", flag, s)
		}
		if ap.Port() == 0 {
			return nil, fmt.Errorf("%s: %q has no port; write %s", flag, s, withPort(ap.Addr()))
		}
		addrs = append(addrs, ap)
	}
	return addrs, nil
}

func withPort(a netip.Addr) string {
	return strings.TrimSuffix(netip.AddrPortFrom(a, 0).String(), "0") + "PORT"
}
