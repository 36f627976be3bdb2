package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"volley"
	"volley/netcode"
	"volley/porous"
)

// wireOptions are the flags that say what is spoken between the two ends of
// serve, ping and bench.
type wireOptions struct {
	protocol    string
	secure      bool
	key, token  string
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
	o.register(cmd)
	cmd.Flags().StringVar(&o.key, "key", "", keyUsage+`; without it, --secure makes one and shows it`)
}

// registerClient adds the flags of the end that dials.
func (o *wireOptions) registerClient(cmd *cobra.Command) {
	o.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", keyUsage)
	f.StringVar(&o.token, "token", "", `file with a connect token, as "volley token new" makes it; it opens one session`)
	f.Var(&o.clientID, "id", "client id in the sessions of --key")
	f.DurationVar(&o.connectTime, "connect-timeout", 5*time.Second, "how long --secure and porous may take to connect")
}

func (o *wireOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.protocol, "protocol", protocolVolley, "what carries the messages: volley, which loses some, or porous, which resends")
	f.BoolVar(&o.secure, "secure", false, "in an encrypted session of netcode")
	f.Var(&o.protocolID, "protocol-id", "number of the application in the sessions, the same at both ends")
}

// check reports flags that do not go together.
func (o *wireOptions) check() error {
	o.secure = o.secure || o.key != "" || o.token != ""
	switch {
	case o.protocol != protocolVolley && o.protocol != protocolPorous:
		return fmt.Errorf("--protocol must be volley or porous, not %q", o.protocol)
	case o.key != "" && o.token != "":
		return errors.New("--key and --token exclude each other: a token has been made with the key")
	case o.connectTime < 0:
		return fmt.Errorf("--connect-timeout must not be negative, but is %v", o.connectTime)
	}
	return nil
}

// name tells what is spoken.
func (o *wireOptions) name() string {
	if o.secure {
		return o.protocol + " over netcode"
	}
	return o.protocol
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

// clientConfig is that of a client, which is to outlive the silence that it is
// there to measure.
func (o *wireOptions) clientConfig() *volley.Config {
	cfg := o.volleyConfig()
	cfg.IdleTimeout = -1
	return cfg
}

func (o *wireOptions) porousConfig() *porous.Config {
	return &porous.Config{MaxMessageSize: maxProbe, CloseTimeout: time.Second}
}

// dial connects to an address with a port.
func (o *wireOptions) dial(ctx context.Context, address string) (messageConn, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.connectTime, time.Hour))
	defer cancel()
	if o.secure {
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
		c, err := volley.NewConn(nc, o.clientConfig())
		if err != nil {
			nc.Close()
			return nil, err
		}
		return c, nil
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
		var he *netcode.HandshakeError
		if !errors.As(err, &he) {
			return nil, err
		}
		return nil, o.noSession(err, address)
	}
	if o.protocol == protocolPorous {
		c, err := porous.NewConn(nc, o.porousConfig())
		if err != nil {
			nc.Close()
			return nil, err
		}
		if err := c.Flush(ctx); err != nil {
			c.Abort()
			return nil, o.unreachable(err, address, " --secure --protocol porous")
		}
		return c, nil
	}
	c, err := volley.NewConn(nc, o.clientConfig())
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// dialSession opens the session below.
func (o *wireOptions) dialSession(ctx context.Context, address string) (*netcode.Conn, error) {
	switch {
	case o.token != "":
		t, err := readToken(nil, []string{o.token})
		if err != nil {
			return nil, fmt.Errorf("--token: %w", err)
		}
		return new(netcode.Dialer).Dial(ctx, t)
	case o.key != "":
		key, err := readKey(o.key)
		if err != nil {
			return nil, err
		}
		return new(netcode.Dialer).DialWithKey(ctx, address, key, uint64(o.protocolID), uint64(o.clientID))
	}
	return nil, errors.New("--secure needs the server's --key, or a --token that was made with it; serve --secure shows a key")
}

// unreachable says what may be wrong where nobody answers.
func (o *wireOptions) unreachable(err error, address, flags string) error {
	if flags == "" {
		flags = " --protocol " + o.protocol
	}
	return fmt.Errorf("%w\nis \"volley serve%s\" running at %s, and does UDP pass the firewalls on the way?", err, flags, address)
}

// noSession says what may be wrong where a server does not answer a token. It is
// silent also where it does not find the address that was dialed among its own.
func (o *wireOptions) noSession(err error, address string) error {
	return fmt.Errorf(`%w
is "volley serve --secure" running at %s, with the same --key and --protocol-id, and does UDP pass the firewalls on the way?
Is %[2]s the server's own address? If a proxy or a NAT stands before it, make a token that has both: "volley token new --server %[2]s --internal ITS-OWN-ADDRESS", and dial with --token`, err, address)
}

// maxServed is how many connections serve has at one time, of those that need no
// key: anybody can make some kilobytes each be held for half a minute.
const maxServed = 10_000

// listen makes the end that serves. The key is the one that was made for it, if
// one was.
func (o *wireOptions) listen(ctx context.Context, address string) (ln net.Listener, made netcode.Key, err error) {
	switch {
	case o.secure:
		return o.listenSecure(ctx, address)
	case o.protocol == protocolPorous:
		lc := porous.ListenConfig{Config: o.porousConfig(), MaxConns: maxServed}
		ln, err = lc.Listen(ctx, "udp", address)
	default:
		lc := volley.ListenConfig{Config: o.volleyConfig(), MaxConns: maxServed}
		if o.packet != nil {
			pc, err := o.packet(address)
			if err != nil {
				return nil, made, err
			}
			ln, err = lc.ListenOn(pc)
			return ln, made, err
		}
		ln, err = lc.Listen(ctx, "udp", address)
	}
	return ln, made, err
}

func (o *wireOptions) listenSecure(ctx context.Context, address string) (ln net.Listener, made netcode.Key, err error) {
	key := made
	if o.key != "" {
		if key, err = readKey(o.key); err != nil {
			return nil, made, err
		}
	} else {
		key = netcode.GenerateKey()
		made = key
	}
	lc := netcode.ListenConfig{PrivateKey: key, ProtocolID: uint64(o.protocolID)}
	sessions, err := lc.Listen(ctx, "udp", address)
	if err != nil {
		return nil, made, err
	}
	if o.protocol == protocolPorous {
		ln, err := porous.NewListener(sessions, o.porousConfig())
		return ln, made, err
	}
	ln, err = volley.NewListener(sessions, o.volleyConfig())
	return ln, made, err
}

// bye closes a connection, and tells the server: several times, since some get
// lost.
func bye(conn messageConn) {
	for range 3 {
		conn.Write((&probe{kind: probeBye}).append(nil, probeSize))
	}
	conn.Close()
}

// ownTrouble returns what the connection says of this side: that its socket or its
// program is too slow, or that it cannot send.
func ownTrouble(conn messageConn) (lines []string) {
	c, ok := conn.(*volley.Conn)
	if !ok {
		return nil
	}
	for _, f := range c.Explain().Findings {
		switch f.Kind {
		case volley.FindingSocketFull, volley.FindingInboxFull, volley.FindingMemoryFull, volley.FindingSendBlocked:
			lines = append(lines, f.Text+" "+f.Advice)
		}
	}
	return lines
}

// checkAddress reports an address without a port, which is the most likely
// mistake, before the system does in its words.
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
		return checkAddress(args[0])
	case 0:
		return fmt.Errorf("%s needs the address of a server: %s example.com:7777", cmd.CommandPath(), cmd.CommandPath())
	}
	return fmt.Errorf("%s takes one address, but got %q and %q", cmd.CommandPath(), args[0], args[1])
}

// A span is a flag for a duration that also takes a number of seconds, as the
// intervals of ping and iperf3 do.
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

// liveTerminal returns the terminal that w is, if pictures can be drawn on it.
func liveTerminal(w any) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && isTerminal(f)
}
