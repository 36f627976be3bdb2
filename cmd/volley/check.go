package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"volley"
)

// checkOptions are the flags of check.
type checkOptions struct {
	wireOptions
	timeout span
	json    bool
}

const checkLong = `Check looks for problems between this machine and "volley serve" at HOST:PORT, or
at the URL of "volley serve --secure":

  whether the server is reached; of a URL, by TCP and by UDP
  whether messages pass that are as large as those that are not fragmented
  whether a NAT is on the path
  whether clocks differ, and with --token whether the token is valid now
  how large the kernel's buffers are, and whether segmentation offload works

It gives advice for each problem.

The exit status is 1 if something is wrong, and 2 if nothing could be checked.
Hints, for example about buffers, do not count as wrong.`

const checkExample = `  volley check example.com:7777
  volley check --json example.com:7777
  volley check --token 42.token example.com:40000`

func newCheckCommand() *cobra.Command {
	o := checkOptions{timeout: span(5 * time.Second)}
	cmd := &cobra.Command{
		Use:     "check HOST:PORT|URL",
		Short:   "Find out what stands between this machine and a server",
		Long:    checkLong,
		Example: checkExample,
		Args:    oneAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.VarP(&o.timeout, "timeout", "W", "how long to wait for the server")
	f.BoolVar(&o.json, "json", false, "print one object of JSON")
	o.registerClient(cmd)
	return cmd
}

// errCheck is returned by a check that has found something wrong and said so.
var errCheck = errors.New("a check failed, see above")

func (o *checkOptions) check(address string) error {
	if o.timeout <= 0 {
		return errors.New("--timeout must be more than 0")
	}
	return o.wireOptions.check(address)
}

func (o *checkOptions) run(ctx context.Context, address string, stdout io.Writer) error {
	if err := o.check(address); err != nil {
		return err
	}
	r := &checkReport{Address: place(address), Protocol: o.name(), begin: time.Now(), serve: o.serveFlags()}
	if err := o.examine(ctx, address, r); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.print(stdout, o.json)
	if r.wrong() {
		return errCheck
	}
	return nil
}

// examine makes all checks, each as far as those before let it.
func (o *checkOptions) examine(ctx context.Context, address string, r *checkReport) error {
	if err := o.examineToken(r); err != nil {
		return err
	}
	r.limits = systemLimits()
	var server *net.UDPAddr
	if !o.url {
		var err error
		if server, err = net.ResolveUDPAddr("udp", address); err != nil {
			r.wrongIf(true, "reachable", fmt.Sprintf("the name has no address: %v", err),
				"look at the spelling, and at what DNS this machine uses")
			return nil
		}
	}
	h, err := o.hello(ctx, address)
	if o.url && r.notJoined(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.url {
		server = h.remote
		r.add(stateOK, "token", fmt.Sprintf("TCP port %d gives connect tokens, and the key is that of the URL", server.Port), "")
	}
	r.reached(h, server, time.Duration(o.timeout))
	if h.rtt == 0 {
		return nil
	}
	r.clock(h)
	r.transport(h.transport)
	r.size(h.large)
	r.nat(h.local, h.seenAs())
	return nil
}

// A hello is what the first exchange with a server has come to.
type hello struct {
	rtt       time.Duration // 0: nothing has come
	large     bool          // messages of largeSize come back
	known     bool          // it is volley serve, and reply is set
	reply     checkReply
	asked     time.Time // half-way between question and answer, by our clock
	refused   error     // what the system says of its ICMP messages
	local     netip.AddrPort
	remote    *net.UDPAddr
	transport *volley.TransportStats // nil if not told
}

// hello asks the server over a connection as any other.
func (o *checkOptions) hello(ctx context.Context, address string) (*hello, error) {
	conn, err := o.dial(ctx, address)
	if err != nil {
		// A handshake that nobody answers is what is to be found out here.
		if timeout := net.Error(nil); !o.url && errors.As(err, &timeout) && timeout.Timeout() || !o.url && unreachable(err) {
			return &hello{refused: err}, nil
		}
		return nil, err
	}
	defer conn.Close()
	h := o.ask(ctx, conn)
	h.large = h.rtt > 0 && passes(ctx, conn, max(askAgain, 2*h.rtt), min(largeTime, time.Duration(o.timeout)))
	conn.Write((&probe{kind: probeBye}).append(nil, probeSize))
	if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		h.local = plain(local.AddrPort())
	}
	h.remote, _ = conn.RemoteAddr().(*net.UDPAddr)
	if c, ok := conn.(*volley.Conn); ok && o.sessions() == "" {
		t := c.Stats().Transport
		h.transport = &t
	}
	return h, nil
}

// askAgain is how long an answer may take before the question is repeated.
const askAgain = 250 * time.Millisecond

// checkProbe is the bytes of a question, which no answer exceeds.
const checkProbe = 256

// ask asks who we are until there is an answer, and takes the quickest of a few.
func (o *checkOptions) ask(ctx context.Context, conn messageConn) *hello {
	const samples = 4
	h := &hello{}
	deadline := time.Now().Add(time.Duration(o.timeout))
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	answers := 0
	for number := uint64(0); answers < samples && time.Now().Before(deadline) && ctx.Err() == nil; number++ {
		if answers > 0 && number > 2*samples && h.rtt > 0 {
			break // some got lost; one is enough
		}
		sent := time.Now()
		conn.Write((&probe{kind: probeCheck, number: number}).append(nil, checkProbe))
		conn.SetReadDeadline(sent.Add(max(askAgain, 2*h.rtt)))
		p, body, err := readProbe(conn, number, probeCheck, probeChecked)
		switch {
		case err == nil:
			answers++
			h.take(p, body, sent, time.Now())
		case unreachable(err):
			h.refused = err
			sleep(ctx, askAgain)
		}
	}
	return h
}

const (
	// largeSize is that of the largest messages that volley does not fragment by default.
	largeSize = 1200
	// largeTime is how long such a message is sent again and again, at most.
	largeTime = 3 * time.Second
)

// passes reports whether a large message comes back within a time. It is sent again if it does
// not come soon.
func passes(ctx context.Context, conn messageConn, soon, within time.Duration) bool {
	large := (&probe{kind: probePing}).append(nil, largeSize)
	for end := time.Now().Add(within); time.Now().Before(end) && ctx.Err() == nil; {
		conn.Write(large)
		next := time.Now().Add(soon)
		conn.SetReadDeadline(next)
		if _, _, err := readProbe(conn, 0, probePing); err == nil {
			return true
		}
		sleep(ctx, time.Until(next)) // after another error than the deadline's
	}
	return false
}

func (h *hello) take(p probe, body []byte, sent, now time.Time) {
	rtt := max(now.Sub(sent), time.Microsecond)
	if h.rtt > 0 && rtt >= h.rtt {
		return
	}
	h.rtt = rtt
	if p.kind != probeChecked {
		return
	}
	if r, err := parseCheckReply(body); err == nil {
		h.known, h.reply, h.asked = true, r, sent.Add(rtt/2)
	}
}

// readProbe waits for the probe with a number and one of some kinds.
func readProbe(conn messageConn, number uint64, kinds ...byte) (p probe, body []byte, err error) {
	for {
		body, err = conn.ReadMessage(context.Background(), body[:0])
		if err != nil {
			return p, nil, err
		}
		if p, ok := parseProbe(body); ok && p.number == number && slices.Contains(kinds, p.kind) {
			return p, body, nil
		}
	}
}

// seenAs returns how the server sees us.
func (h *hello) seenAs() netip.AddrPort {
	a, _ := netip.ParseAddrPort(h.reply.Address)
	return plain(a)
}

// unreachable reports whether an error says that packets do not arrive.
func unreachable(err error) bool {
	e, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains([]syscall.Errno{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EPERM, syscall.EACCES, syscall.EINVAL}, e)
}

// examineToken looks at the times of a token, which need no server.
func (o *checkOptions) examineToken(r *checkReport) error {
	if o.token == "" {
		return nil
	}
	t, err := readToken(nil, []string{o.token})
	if err != nil {
		return fmt.Errorf("--token: %w", err)
	}
	r.token(t.Info(), time.Now())
	return nil
}
