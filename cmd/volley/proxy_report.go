package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"volley/simnet"
)

// A proxyReport prints what a proxy does, for people or as JSON.
type proxyReport struct {
	proxy  *simnet.Proxy
	listen string
	to     string
	start  time.Time

	mu       sync.Mutex // guards what follows, and keeps lines whole
	out      io.Writer
	errs     io.Writer
	json     bool
	rows     int // since the head of the table
	last     time.Time
	up, down simnet.Stats // at that time
}

func newProxyReport(p *simnet.Proxy, o *proxyOptions, stdout, stderr io.Writer) *proxyReport {
	now := time.Now()
	return &proxyReport{
		proxy: p, listen: p.Addr().String(), to: o.to,
		start: now, last: now, out: stdout, errs: stderr, json: o.json,
	}
}

// A proxyEvent is a line of JSON. The links are settings as they may be typed.
type proxyEvent struct {
	Type     string       `json:"type"` // listening, interval, change, error, show, stats or summary
	Seconds  float64      `json:"seconds"`
	Listen   string       `json:"address,omitempty"`
	To       string       `json:"to,omitempty"`
	Text     string       `json:"text,omitempty"`
	Error    string       `json:"error,omitempty"`
	UpLink   *string      `json:"up_link,omitempty"`
	DownLink *string      `json:"down_link,omitempty"`
	Clients  *int         `json:"clients,omitempty"`
	Up       *proxyCounts `json:"up,omitempty"`
	Down     *proxyCounts `json:"down,omitempty"`
}

// proxyCounts are the datagrams of one direction, over the interval or all the time.
type proxyCounts struct {
	Sent       uint64  `json:"sent"`
	Delivered  uint64  `json:"delivered"`
	Bytes      uint64  `json:"delivered_bytes"`
	Rate       float64 `json:"delivered_bytes_per_second"`
	Loss       float64 `json:"loss"` // share of what was sent, 0 to 1, for whatever reason
	Lost       uint64  `json:"lost"`
	Queue      uint64  `json:"queue_drops"`
	MTU        uint64  `json:"mtu_drops"`
	Blackout   uint64  `json:"blackout_drops"`
	Other      uint64  `json:"other_drops"`
	Duplicated uint64  `json:"duplicated"`
	Reordered  uint64  `json:"reordered"`
	Corrupted  uint64  `json:"corrupted"`
}

// countsBetween returns what has happened from one reading of counters to another.
func countsBetween(a, b simnet.Stats, t time.Duration) *proxyCounts {
	c := &proxyCounts{
		Sent: b.Sent - a.Sent, Delivered: b.Delivered - a.Delivered, Bytes: b.DeliveredBytes - a.DeliveredBytes,
		Lost: b.Lost - a.Lost, Queue: b.QueueDrops - a.QueueDrops, MTU: b.MTUDrops - a.MTUDrops,
		Blackout:   b.BlackoutDrops - a.BlackoutDrops,
		Other:      b.ReceiverDrops + b.Unreachable - a.ReceiverDrops - a.Unreachable,
		Duplicated: b.Duplicated - a.Duplicated, Reordered: b.Reordered - a.Reordered, Corrupted: b.Corrupted - a.Corrupted,
	}
	if t > 0 {
		c.Rate = float64(c.Bytes) / t.Seconds()
	}
	if in := c.Sent + c.Duplicated; in > 0 {
		c.Loss = min(1, float64(dropped(b)-dropped(a))/float64(in))
	}
	return c
}

// dropped returns how many datagrams and copies were not delivered.
func dropped(s simnet.Stats) uint64 {
	return s.Lost + s.QueueDrops + s.MTUDrops + s.BlackoutDrops + s.ReceiverDrops + s.Unreachable
}

func (r *proxyReport) event(name string) proxyEvent {
	return proxyEvent{Type: name, Seconds: time.Since(r.start).Round(time.Millisecond).Seconds()}
}

func (e *proxyEvent) setLinks(up, down simnet.Link) {
	u, d := describeLink(up), describeLink(down)
	e.UpLink, e.DownLink = &u, &d
}

func (r *proxyReport) begin(up, down simnet.Link) {
	e := r.event("listening")
	e.Listen, e.To = r.listen, r.to
	e.setLinks(up, down)
	r.tell(r.out, e, fmt.Sprintf("%s -> %s\n%sA line such as \"loss 20%%\" changes that, \"help\" lists more; Ctrl-C ends it.\n", r.listen, r.to, e.links()))
}

// tell prints an event, as JSON or in words.
func (r *proxyReport) tell(w io.Writer, e proxyEvent, words string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.json {
		printJSON(r.out, e)
		return
	}
	io.WriteString(w, words)
}

// links describes both links, in a line each.
func (e *proxyEvent) links() (lines string) {
	for _, l := range []struct{ name, link string }{{"up", *e.UpLink}, {"down", *e.DownLink}} {
		if l.link == "" {
			l.link = "nothing happens to datagrams"
		}
		lines += fmt.Sprintf("  %-5s %s\n", l.name, l.link)
	}
	return lines
}

// watch prints a line each interval until ctx is done.
func (r *proxyReport) watch(ctx context.Context, interval time.Duration) {
	if interval <= 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.interval()
		}
	}
}

func (r *proxyReport) interval() {
	up, down := r.proxy.Stats()
	clients := r.proxy.Clients()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	t := now.Sub(r.last)
	e := r.event("interval")
	e.Clients, e.Up, e.Down = &clients, countsBetween(r.up, up, t), countsBetween(r.down, down, t)
	r.last, r.up, r.down = now, up, down
	if r.json {
		printJSON(r.out, e)
		return
	}
	if r.rows%headEvery == 0 {
		fmt.Fprintf(r.out, "\n%7s %7s %9s %12s %7s %9s %12s %7s\n",
			"time", "clients", "up/s", "rate", "loss", "down/s", "rate", "loss")
	}
	r.rows++
	row := func(c *proxyCounts) string {
		return fmt.Sprintf("%9.0f %12s %7s", float64(c.Delivered)/t.Seconds(), formatRate(8*c.Rate), formatPercent(c.Loss))
	}
	fmt.Fprintf(r.out, "%5.0f s %7d %s %s\n", now.Sub(r.start).Seconds(), clients, row(e.Up), row(e.Down))
}

// summary prints all counters.
func (r *proxyReport) summary(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	up, down := r.proxy.Stats()
	e := r.event(name)
	t := time.Since(r.start)
	clients := r.proxy.Clients()
	e.Clients, e.Up, e.Down = &clients, countsBetween(simnet.Stats{}, up, t), countsBetween(simnet.Stats{}, down, t)
	if r.json {
		printJSON(r.out, e)
		return
	}
	r.rows = 0
	fmt.Fprintf(r.out, "\n%-16s %12s %12s\n", fmt.Sprintf("in %.1f s", e.Seconds), "up", "down")
	for _, row := range []struct {
		name   string
		value  func(*proxyCounts) string
		always bool
	}{
		{"datagrams", func(c *proxyCounts) string { return fmt.Sprint(c.Sent) }, true},
		{"delivered", func(c *proxyCounts) string { return fmt.Sprint(c.Delivered) }, true},
		{"rate", func(c *proxyCounts) string { return formatRate(8 * c.Rate) }, true},
		{"loss", func(c *proxyCounts) string { return formatPercent(c.Loss) }, true},
		{"  by chance", func(c *proxyCounts) string { return fmt.Sprint(c.Lost) }, false},
		{"  full queue", func(c *proxyCounts) string { return fmt.Sprint(c.Queue) }, false},
		{"  above MTU", func(c *proxyCounts) string { return fmt.Sprint(c.MTU) }, false},
		{"  in blackouts", func(c *proxyCounts) string { return fmt.Sprint(c.Blackout) }, false},
		{"  otherwise", func(c *proxyCounts) string { return fmt.Sprint(c.Other) }, false},
		{"duplicated", func(c *proxyCounts) string { return fmt.Sprint(c.Duplicated) }, false},
		{"overtaken", func(c *proxyCounts) string { return fmt.Sprint(c.Reordered) }, false},
		{"corrupted", func(c *proxyCounts) string { return fmt.Sprint(c.Corrupted) }, false},
	} {
		if u, d := row.value(e.Up), row.value(e.Down); row.always || u != "0" || d != "0" {
			fmt.Fprintf(r.out, "%-16s %12s %12s\n", row.name, u, d)
		}
	}
}

func (r *proxyReport) changed(text string, up, down simnet.Link) {
	e := r.event("change")
	e.Text = text
	e.setLinks(up, down)
	r.tell(r.out, e, fmt.Sprintf("%5.1f s -- %s\n", e.Seconds, text))
}

func (r *proxyReport) failed(text string, err error) {
	e := r.event("error")
	e.Text, e.Error = text, err.Error()
	r.tell(r.errs, e, fmt.Sprintf("volley: %s: %v\n", text, err))
}

func (r *proxyReport) show(up, down simnet.Link) {
	e := r.event("show")
	e.setLinks(up, down)
	r.tell(r.out, e, e.links())
}

func (r *proxyReport) stats() { r.summary("stats") }

func (r *proxyReport) help() {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.errs, controlHelp)
}

func printPresets(w io.Writer) {
	for _, p := range simnet.Presets() {
		fmt.Fprintf(w, "%-10s %s\n", p.Name, p.About)
		fmt.Fprintf(w, "%10s round trip %s, 90 %% within %s; %s down, %s up; %s lost\n", "",
			formatDuration(p.RTT), formatDuration(p.RTT90), formatRate(float64(p.Down.Bandwidth)), formatRate(float64(p.Up.Bandwidth)), formatPercent(p.Loss))
		fmt.Fprintf(w, "%10s %s\n\n", "", p.Source)
	}
}

// describeLink tells what a link does, in the words by which it can be set.
func describeLink(l simnet.Link) string {
	var parts []string
	add := func(given bool, format string, args ...any) {
		if given {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(l.Blackout, "blackout")
	add(l.Latency > 0, "latency %v", l.Latency.Round(time.Microsecond))
	add(l.Jitter > 0, "jitter %v", l.Jitter.Round(time.Microsecond))
	add(l.Jitter > 0 && l.Distribution != "", "distribution %s", l.Distribution)
	add(l.Loss > 0, "loss %.4g%%", 100*l.Loss)
	if b := l.Burst; b != nil {
		share := b.GoodToBad / (b.GoodToBad + b.BadToGood)
		add(true, "burst %.4g%%/%.4g", 100*share, 1/b.BadToGood)
	}
	add(l.Duplicate > 0, "duplicate %.4g%%", 100*l.Duplicate)
	add(l.Reorder > 0, "reorder %.4g%%", 100*l.Reorder)
	add(l.Reorder > 0 && l.ReorderBy > 0, "reorder-by %v", l.ReorderBy)
	add(l.Corrupt > 0, "corrupt %.4g%%", 100*l.Corrupt)
	add(l.Bandwidth > 0, "rate %s", exactRate(l.Bandwidth))
	add(l.Bandwidth > 0 && l.QueueBytes > 0, "queue %dB", l.QueueBytes)
	add(l.MTU > 0, "mtu %d", l.MTU)
	add(l.Ordered, "ordered")
	return strings.Join(parts, " ")
}

func exactRate(bits int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}} {
		if bits >= u.size {
			return fmt.Sprintf("%g%s", float64(bits)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%dbit/s", bits)
}
