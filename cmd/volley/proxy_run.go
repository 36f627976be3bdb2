package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"volley/simnet"
)

func runProxy(ctx context.Context, o *proxyOptions, stdin *os.File, stdout, stderr io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	up, down, err := o.links()
	if err != nil {
		return err
	}
	script, err := o.scriptLines()
	if err != nil {
		return err
	}
	proxy, err := simnet.NewProxy(simnet.ProxyConfig{
		Target: o.to, Listen: o.listen, Up: up, Down: down, Seed: uint64(o.seed), MaxClients: o.maxClients,
	})
	if err != nil {
		return proxyError(o, err)
	}
	defer proxy.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.duration > 0 {
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	report := newProxyReport(proxy, o, stdout, stderr)
	c := &control{
		proxy: proxy, up: up, down: down, start: report.start, report: report, quit: cancel,
		after: after(ctx),
	}
	report.begin(up, down)
	for _, l := range script {
		c.run(l)
	}
	go c.read(ctx, stdin)
	report.watch(ctx, o.interval)
	report.summary("summary")
	return nil
}

// after returns a function that calls another one after a while, unless ctx ends before.
func after(ctx context.Context) func(time.Duration, func()) {
	return func(d time.Duration, f func()) {
		timer := time.AfterFunc(d, f)
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
}

// proxyError names the flag that an error of simnet.NewProxy is about.
func proxyError(o *proxyOptions, err error) error {
	flag, value := "--to", o.to
	if _, known := net.ResolveUDPAddr("udp", o.to); known == nil {
		flag, value = "--listen", o.listen
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // without the names of simnet
	}
	return fmt.Errorf("%s %s: %w", flag, value, err)
}

// read does what the lines say. A line that is being read when the proxy ends is lost.
func (c *control) read(ctx context.Context, r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() && ctx.Err() == nil {
		c.do(lines.Text())
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		c.report.failed("standard input", err)
	}
}
