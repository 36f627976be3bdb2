package main

import (
	"fmt"
	"strings"
)

// Quantities of modes game and fan-out.
var (
	serverCPU   = func(r *result) float64 { return perHandled(r, float64(r.ServerCPU)) } // µs
	clientCPU   = func(r *result) float64 { return perHandled(r, float64(r.ClientCPU)) }
	serverKiB   = func(r *result) float64 { return r.ServerBytes / 1024 }
	packets     = func(r *result) float64 { return r.Packets }
	p9999       = func(r *result) float64 { return micros(r.P9999) }
	inTimeShare = func(r *result) float64 { return 100 * float64(r.InTime) / max(1, float64(r.Due)) }
	pass50      = func(r *result) float64 { return micros(r.Pass50) }
	pass99      = func(r *result) float64 { return micros(r.Pass99) }
)

// perHandled divides a time by the messages in and out of the server.
func perHandled(r *result, ns float64) float64 { return ns / 1000 / max(1, float64(r.Handled)) }

const gameAbout = "The load of game and telemetry servers: many clients, each with some messages of %d bytes a second both ways, one process for\n" +
	"the server and one for all clients. The clients' messages are spread evenly over time; a server that ticks writes to all\n" +
	"clients in a row. Nothing is measured before each client has had %d messages and a second has passed: a connection of volley\n" +
	"measures the round trip of its first messages by packets of their own, and later about once in 1.4 s.\n" +
	"\n" +
	"- \"Server\" is the user and system time of the server's process, divided by the messages in and out of it; \"clients\" is\n" +
	"  the same for the other process.\n" +
	"- \"Packets\" are the datagrams that left all sockets of both processes for each message, as the kernel counts them\n" +
	"  (OutDatagrams) in their own network. One is the least, unless several messages share one.\n" +
	"- \"KiB\" is the memory that the server has gained since it answered its first client, divided by the other clients.\n" +
	"- The latency is the round trip if the server answers, and otherwise the time from the start of a tick to each client.\n" +
	"- \"In time\" is the share of due messages that came to the client within %d ms.\n" +
	"\n" +
	"With thousands of clients only peers with light connections take part.\n\n"

// fanOutBase is the peer to compare with in mode fan-out: the least that the kernel
// can be asked for.
const fanOutBase = "mmsg"

const fanOutAbout = "The server writes one message of %d bytes to each of %s clients, %d times a second, in one call if the peer has one for that.\n" +
	"Otherwise it loops over Writes. The clients send nothing of their own; their process uses one processor. \"A pass\" is its\n" +
	"duration divided by the clients; over the loopback device the kernel delivers within it. The server's time also has\n" +
	"everything that comes back from the clients. The rest is as at game rates.\n\n"

// gameTables writes a table for each load.
func (r *report) gameTables(b *strings.Builder) {
	fmt.Fprintf(b, gameAbout, gameSize, warmupMessages, answerLimit.Milliseconds())
	for _, m := range r.measurements(modeGame) {
		fmt.Fprintf(b, "### %s\n\n", capital(m.load.title()))
		r.loadTable(b, m, udpPeer.name, []column{{"server, µs a message", serverCPU}, {"KiB a client", serverKiB}, {"clients, µs", clientCPU},
			{"packets a message", packets}, {"p50 µs", p50}, {"p99 µs", p99}, {"p99.9 µs", p999}, {"p99.99 µs", p9999},
			{"in time %", inTimeShare}, {"lost %", lossPercent}})
	}
}

func (r *report) fanOutTable(b *strings.Builder) {
	for _, m := range r.measurements(modeFanOut) {
		fmt.Fprintf(b, fanOutAbout, gameSize, thousands(m.load.clients), m.load.rate)
		r.loadTable(b, m, fanOutBase, []column{{"a pass, p50 µs a message", pass50}, {"p99", pass99}, {"server, µs a message", serverCPU},
			{"packets a message", packets}, {"arrived p50 µs", p50}, {"p99 µs", p99}, {"in time %", inTimeShare}, {"lost %", lossPercent}})
	}
}

// loadTable writes a table with the ratio to the peer base behind the first
// quantity.
func (r *report) loadTable(b *strings.Builder, m measurement, base string, columns []column) {
	basis := figureOf(r.tally.of(m, base), columns[0].quantity).median
	fmt.Fprintf(b, "| | %s | × %s |", columns[0].head, base)
	for _, c := range columns[1:] {
		fmt.Fprintf(b, " %s |", c.head)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, p := range r.options.peers {
		rs := r.tally.of(m, p.name)
		if len(rs) == 0 {
			continue
		}
		first := figureOf(rs, columns[0].quantity)
		fmt.Fprintf(b, "| %s | %s", p.name, short(first.median))
		if first.n > 1 {
			fmt.Fprintf(b, " ±%.0f %%", first.spread())
		}
		fmt.Fprintf(b, " | %s |", ratio(first.median, basis))
		for _, c := range columns[1:] {
			fmt.Fprintf(b, " %s |", gameCell(c, rs))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// gameCell prints shares with two digits behind the point: 99.95 is not 100. A
// quantity that was not measured is a dash.
func gameCell(c column, rs []*result) string {
	v := figureOf(rs, c.quantity).median
	switch {
	case strings.HasSuffix(c.head, "%"):
		return fmt.Sprintf("%.2f", v)
	case v == 0:
		return "-"
	}
	return short(v)
}

func ratio(v, base float64) string {
	if base == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v/base)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
