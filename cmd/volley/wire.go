package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"volley"
	"volley/netcode"
	"volley/porous"
	"volley/secure"
)

// wireOptions are the flags that say what serve, ping and bench speak.
type wireOptions struct {
	protocol    string
	secure      bool
	key, token  string
	keyFile     string
	url         bool // the address to dial is a URL of package secure
	protocolID  number
	clientID    number
	connectTime time.Duration

	// In place of the system's, for tests.
	inner  func(address string) (net.Conn, error)
	packet func(address string) (net.PacketConn, error)
}

// The protocols of --protocol.
const (
	protocolVolley = "volley"
	protocolPorous = "porous"
)

// registerServer adds the flags of the end that listens.
func (o *wireOptions) registerServer(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.secure, "secure", false, "in encrypted sessions; prints the URL for clients")
	f.StringVar(&o.keyFile, "key-file", "", "file with the server's own key for --secure, made if it is not there; without it, each run has another URL")
	o.register(cmd)
	f.StringVar(&o.key, "key", "", keyUsage+`, in place of --secure: in sessions of netcode, with a key that clients have, too`)
}

// registerClient adds the flags of the end that dials.
func (o *wireOptions) registerClient(cmd *cobra.Command) {
	o.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", keyUsage)
	f.StringVar(&o.token, "token", "", `file with a connect token, as "volley token new" makes it; it opens one session`)
	f.Var(&o.clientID, "id", "client id in the sessions of --key")
	f.DurationVar(&o.connectTime, "connect-timeout", 5*time.Second, "how long encrypted sessions and porous may take to connect")
}

func (o *wireOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.protocol, "protocol", protocolVolley, "what carries the messages: volley, which loses some, or porous, which resends")
	f.Var(&o.protocolID, "protocol-id", "number of the application in the sessions of --key, the same at both ends")
}

// check reports flags that do not go together, or not with the address to dial.
func (o *wireOptions) check(address string) error {
	o.url = isURL(address)
	switch {
	case o.secure && o.key != "":
		return errors.New("--secure and --key exclude each other: the sessions of --secure need no key at the clients")
	case o.keyFile != "" && !o.secure:
		return errors.New("--key-file needs --secure")
	case o.url && (o.key != "" || o.token != ""):
		return errors.New("--key and --token are for an address; a URL has all that a client needs")
	case o.protocol != protocolVolley && o.protocol != protocolPorous:
		return fmt.Errorf("--protocol must be volley or porous, not %q", o.protocol)
	case o.key != "" && o.token != "":
		return errors.New("--key and --token exclude each other: a token has been made with the key")
	case o.connectTime < 0:
		return fmt.Errorf("--connect-timeout must not be negative, but is %v", o.connectTime)
	}
	return nil
}

// sessions names the package of the encrypted sessions, "" if there are none.
func (o *wireOptions) sessions() string {
	switch {
	case o.secure || o.url:
		return "secure"
	case o.key != "" || o.token != "":
		return "netcode"
	}
	return ""
}

func (o *wireOptions) name() string {
	if s := o.sessions(); s != "" {
		return o.protocol + " over " + s
	}
	return o.protocol
}

// serveFlags are those of the server that these options suit.
func (o *wireOptions) serveFlags() (flags string) {
	switch o.sessions() {
	case "secure":
		flags = " --secure"
	case "netcode":
		flags = " --key"
	}
	if o.protocol != protocolVolley {
		flags += " --protocol " + o.protocol
	}
	return flags
}

// isURL reports whether a server's address is a URL, as --secure prints it.
func isURL(address string) bool { return strings.Contains(address, "://") }

// place returns the host of an address or URL, with the port if it has one.
func place(address string) string {
	if u, err := url.Parse(address); err == nil && isURL(address) {
		return u.Host
	}
	return address
}

// A messageConn is a connection of any of the protocols.
type messageConn interface {
	net.Conn
	ReadMessage(ctx context.Context, dst []byte) ([]byte, error)
	MaxMessageSize() int
}

// maxProbe is the largest message of ping and bench in bytes.
const maxProbe = 64 << 10

func (o *wireOptions) volleyConfig() *volley.Config {
	return &volley.Config{MaxMessageSize: maxProbe}
}

// clientConfig outlives the silence that a client is there to measure.
func (o *wireOptions) clientConfig() *volley.Config {
	cfg := o.volleyConfig()
	cfg.IdleTimeout = -1
	return cfg
}

func (o *wireOptions) porousConfig() *porous.Config {
	return &porous.Config{MaxMessageSize: maxProbe, CloseTimeout: time.Second}
}

func (o *wireOptions) dial(ctx context.Context, address string) (messageConn, error) {
	if err := checkAddress(address); err != nil && !o.url {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.connectTime, time.Hour))
	defer cancel()
	if o.sessions() != "" {
		return o.dialSecure(ctx, address)
	}
	if o.protocol == protocolPorous {
		d := porous.Dialer{Config: o.porousConfig()}
		c, err := d.Dial(ctx, "udp", address)
		if err != nil {
			return nil, o.unreachable(err, address, "")
		}
		return c, nil
	}
	if o.inner != nil {
		nc, err := o.inner(address)
		if err != nil {
			return nil, err
		}
		return o.volleyOn(nc)
	}
	d := volley.Dialer{Config: o.clientConfig()}
	c, err := d.Dial(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (o *wireOptions) dialSecure(ctx context.Context, address string) (messageConn, error) {
	nc, err := o.dialSession(ctx, address)
	if err != nil {
		if _, silent := errors.AsType[*netcode.HandshakeError](err); silent && !o.url {
			err = o.noSession(err, address)
		}
		return nil, err
	}
	if o.protocol == protocolPorous {
		c, err := porous.NewConn(nc, o.porousConfig())
		if err != nil {
			nc.Close()
			return nil, err
		}
		if err := c.Flush(ctx); err != nil {
			c.Abort()
			return nil, o.unreachable(err, place(address), o.serveFlags())
		}
		return c, nil
	}
	return o.volleyOn(nc)
}

// volleyOn returns a volley connection on nc, which it closes if there is none.
func (o *wireOptions) volleyOn(nc net.Conn) (messageConn, error) {
	c, err := volley.NewConn(nc, o.clientConfig())
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (o *wireOptions) dialSession(ctx context.Context, address string) (net.Conn, error) {
	switch {
	case o.url:
		return orNil(secure.Dial(ctx, address))
	case o.token != "":
		t, err := readToken(nil, []string{o.token})
		if err != nil {
			return nil, fmt.Errorf("--token: %w", err)
		}
		return orNil(new(netcode.Dialer).Dial(ctx, t))
	}
	key, err := readKey(o.key)
	if err != nil {
		return nil, err
	}
	return orNil(new(netcode.Dialer).DialWithKey(ctx, address, key, uint64(o.protocolID), uint64(o.clientID)))
}

// orNil returns a connection, or nil and the error.
func orNil[C net.Conn](c C, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// unreachable says what may be wrong where nobody answers.
func (o *wireOptions) unreachable(err error, address, flags string) error {
	if flags == "" {
		flags = " --protocol " + o.protocol
	}
	return fmt.Errorf("%w\nis \"volley serve%s\" running at %s, and does UDP pass the firewalls on the way?", err, flags, address)
}

// noSession says why a server may be silent: it also is if it does not know the dialed address.
func (o *wireOptions) noSession(err error, address string) error {
	return fmt.Errorf(`%w
is "volley serve --key" running at %s, with the same --key and --protocol-id, and does UDP pass the firewalls on the way?
Is %[2]s the server's own address? If a proxy or a NAT stands before it, make a token that has both: "volley token new --server %[2]s --internal ITS-OWN-ADDRESS", and dial with --token`, err, address)
}

// maxServed is how many connections without a key serve has: anybody can make some.
const maxServed = 10_000

// listen makes the end that serves. The URL is that of --secure.
func (o *wireOptions) listen(ctx context.Context, address string) (ln net.Listener, url string, err error) {
	switch {
	case o.sessions() != "":
		return o.listenSecure(ctx, address)
	case o.protocol == protocolPorous:
		lc := porous.ListenConfig{Config: o.porousConfig(), MaxConns: maxServed}
		ln, err = lc.Listen(ctx, "udp", address)
	default:
		lc := volley.ListenConfig{Config: o.volleyConfig(), MaxConns: maxServed}
		if o.packet != nil {
			pc, err := o.packet(address)
			if err != nil {
				return nil, "", err
			}
			ln, err = lc.ListenOn(pc)
			return ln, "", err
		}
		ln, err = lc.Listen(ctx, "udp", address)
	}
	return ln, "", err
}

func (o *wireOptions) listenSecure(ctx context.Context, address string) (ln net.Listener, url string, err error) {
	sessions, url, err := o.listenSessions(ctx, address)
	if err != nil {
		return nil, "", err
	}
	if o.protocol == protocolPorous {
		ln, err := porous.NewListener(sessions, o.porousConfig())
		return ln, url, err
	}
	ln, err = volley.NewListener(sessions, o.volleyConfig())
	return ln, url, err
}

func (o *wireOptions) listenSessions(ctx context.Context, address string) (sessions net.Listener, url string, err error) {
	if o.secure {
		lc := secure.ListenConfig{KeyFile: o.keyFile}
		ln, err := lc.Listen(ctx, "udp", address)
		if err != nil {
			return nil, "", err
		}
		return ln, ln.URL(ownHost(ln.Addr().(*net.UDPAddr))), nil
	}
	key, err := readKey(o.key)
	if err != nil {
		return nil, "", err
	}
	lc := netcode.ListenConfig{PrivateKey: key, ProtocolID: uint64(o.protocolID)}
	ln, err := lc.Listen(ctx, "udp", address)
	return ln, "", err
}

// ownHost returns an address of this machine by which others may reach what listens.
func ownHost(listens *net.UDPAddr) string {
	if !listens.IP.IsUnspecified() {
		return listens.IP.String()
	}
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		// This sends nothing, and has the address of the way out.
		if c, err := net.Dial("udp", far); err == nil {
			defer c.Close()
			return c.LocalAddr().(*net.UDPAddr).IP.String()
		}
	}
	return "localhost"
}

// bye closes a connection, and tells the server: several times, since some get lost.
func bye(conn messageConn) {
	for range 3 {
		conn.Write((&probe{kind: probeBye}).append(nil, probeSize))
	}
	conn.Close()
}

// ownTrouble returns what is slow at this side, by the connection's own account.
func ownTrouble(conn messageConn) (lines []string) {
	c, ok := conn.(*volley.Conn)
	if !ok {
		return nil
	}
	for _, f := range c.Explain().Findings {
		switch f.Kind {
		case "socket full", "inbox full", "memory full", "send blocked":
			lines = append(lines, f.Text+" "+f.Advice)
		}
	}
	return lines
}

// checkAddress reports a missing port, the likeliest mistake, in plainer words than the system.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address such as example.com:7777, 203.0.113.5:7777 or [2001:db8::5]:7777", address)
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 1 || n > 65535) {
		return fmt.Errorf("%q: the port must be from 1 to 65535", address)
	}
	return nil
}

// oneAddress wants one argument, the address to dial.
func oneAddress(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 1:
		if isURL(args[0]) {
			return nil // it is looked at when it is dialed
		}
		return checkAddress(args[0])
	case 0:
		return fmt.Errorf("%s needs the address of a server: %s example.com:7777", cmd.CommandPath(), cmd.CommandPath())
	}
	return fmt.Errorf("%s takes one address, but got %q and %q", cmd.CommandPath(), args[0], args[1])
}

// A span is a flag for a duration or a number of seconds, as in ping and iperf3.
type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }
func (s *span) Type() string   { return "duration" }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= 0 && seconds < 1e9) {
			return errors.New("must be a duration such as 200ms, 1.5s or 2m, or a number of seconds")
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	if d < 0 {
		return errors.New("must not be negative")
	}
	*s = span(d)
	return nil
}
