package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"volley"
	"volley/simnet"
)

// demoOptions are the flags of the demo: those of its link, and of what runs over it.
type demoOptions struct {
	link     proxyOptions
	ping     pingOptions
	duration span
}

const demoLong = `Demo runs a server, a simulated bad link and a ping over it in this process: what
"volley serve", "volley proxy" and "volley ping" do together.

It sends ten messages a second for ten seconds, over a link that loses 5 % each way.
The settings of the link are those of "volley proxy", for both directions, and a
script changes them over time, with semicolons between its steps:

  3s loss=40% for 2s; 6s blackout for 500ms; 8s latency=80ms

With the URL of "volley serve --secure" the link leads to that server. Its TCP
connection, by which ping gets its token, goes past the link.

The summary has the round trips, and what the link did to datagrams. The exit
status is 1 if there was no answer at all, and 2 if the demo could not run.`

const demoExample = `  volley demo
  volley demo --loss 20% --latency 100ms --duration 30s
  volley demo --preset 4g --size 16KiB --interval 50ms
  volley demo --script "3s loss=40% for 2s; 6s blackout for 500ms"
  volley demo "$URL" # as volley serve --secure prints it`

func newDemoCommand() *cobra.Command {
	o := demoOptions{duration: span(10 * time.Second)}
	o.ping = pingOptions{interval: span(100 * time.Millisecond), timeout: span(time.Second), size: 400}
	o.link.seed = 1
	cmd := &cobra.Command{
		Use:     "demo [URL]",
		Short:   "Send messages over a bad link and show what becomes of them",
		Long:    demoLong,
		Example: demoExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && isURL(args[0]) {
				return nil
			}
			return fmt.Errorf("%s takes nothing but the URL of a server, and got %q", cmd.CommandPath(), args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), strings.Join(args, ""), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.link.registerLink(cmd)
	f.VarP(&o.ping.interval, "interval", "i", "time from one message to the next")
	f.Var(&o.duration, "duration", "how long to send")
	f.VarP(&o.ping.size, "size", "s", "bytes in a message, 32 to 64KiB")
	f.BoolVar(&o.ping.plain, "plain", false, "print lines even on a terminal")
	f.BoolVar(&o.link.json, "json", false, "print lines of JSON")
	return cmd
}

// run plays all parts, until the last answer. With a URL, the server is that one.
func (o *demoOptions) run(ctx context.Context, url string, stdout io.Writer) error {
	o.link.both = append([]string{"loss=5%", "latency=20ms", "jitter=5ms"}, o.link.both...)
	up, down, err := o.link.links()
	if err != nil {
		return err
	}
	script, err := o.link.scriptLines()
	if err != nil {
		return err
	}
	o.ping.protocol, o.ping.json = protocolVolley, o.link.json
	o.ping.count = int(max(1, o.duration/max(1, o.ping.interval)))
	if err := o.ping.check(url); err != nil {
		return err
	}
	config := simnet.ProxyConfig{Target: place(url), Up: up, Down: down, Seed: uint64(o.link.seed)}
	if url == "" {
		server, err := o.serve(ctx)
		if err != nil {
			return err
		}
		defer server.wg.Wait()
		defer server.stop()
		config.Target = server.ln.Addr().String()
	}
	proxy, err := simnet.NewProxy(config)
	if err != nil {
		return err
	}
	defer proxy.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	address := proxy.Addr().String()
	if url != "" {
		if err := relayTCP(ctx, address, config.Target); err != nil {
			return err
		}
		address = strings.Replace(url, config.Target, address, 1)
	}
	notes := make(demoNotes, 64)
	report := newProxyReport(proxy, &o.link, stdout, stdout)
	c := &control{proxy: proxy, up: up, down: down, start: report.start, report: notes, quit: cancel, after: after(ctx)}
	o.ping.notes = notes
	o.ping.title = fmt.Sprintf("demo: %s each %v, over a link with %s each way", formatSize(int(o.ping.size)),
		time.Duration(o.ping.interval).Round(time.Millisecond), describeLink(up))
	for _, l := range script {
		c.run(l)
	}
	err = o.ping.run(ctx, address, stdout)
	report.summary("link")
	return err
}

// serve starts the demo's own server.
func (o *demoOptions) serve(ctx context.Context) (*server, error) {
	var lc volley.ListenConfig
	lc.Config = o.ping.volleyConfig()
	ln, err := lc.Listen(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{opts: new(serveOptions), begin: time.Now(), ln: ln, out: io.Discard, conns: make(map[messageConn]bool)}
	s.wg.Go(func() { s.accept(ctx, ln) })
	return s, nil
}

// relayTCP passes TCP connections to an address on to another, until ctx is done.
func relayTCP(ctx context.Context, address, to string) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var d net.Dialer
				s, err := d.DialContext(ctx, "tcp", to)
				if err != nil {
					return
				}
				defer s.Close()
				go io.Copy(s, c)
				io.Copy(c, s)
			}()
		}
	}()
	return nil
}

// demoNotes are the changes of the link, which ping shows.
type demoNotes chan string

func (n demoNotes) changed(text string, _, _ simnet.Link) {
	select {
	case n <- text:
	default:
	}
}

func (n demoNotes) failed(text string, err error) {
	n.changed(fmt.Sprintf("%s: %v", text, err), simnet.Link{}, simnet.Link{})
}

func (n demoNotes) show(up, down simnet.Link) {}
func (n demoNotes) stats()                    {}
func (n demoNotes) help()                     {}
