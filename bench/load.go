package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Styles of mode game: how server and clients talk to each other.
const (
	styleEcho   = "echo"    // the server answers each message
	styleTick   = "tick"    // the server sends to every client by a clock of its own
	styleFanOut = "fan-out" // the server alone sends, one message to all at each tick; of mode fan-out
)

const (
	gameSize    = 200                   // bytes of a message
	answerLimit = 50 * time.Millisecond // in which a message is in time
	fanOutRate  = 30                    // passes a second
	// paceSlack is how far the clock that paces may be late before that counts
	// as latency. What is due within a millisecond leaves together.
	paceSlack = 2 * time.Millisecond
	// gameLength is how many times longer a run of mode game measures than
	// others, since its rates are low.
	gameLength = 4
	// largeLoad is the largest number of clients for peers that are not made for a
	// crowd.
	largeLoad = 2000
	// gameWarmup lets connections learn what to expect, ...
	gameWarmup = time.Second
	// ... which takes so many messages of each.
	warmupMessages = 6
)

// A load is what the clients of one run do together. The zero value is that of
// modes which have none.
type load struct {
	style   string
	clients int
	rate    int // messages a second of each client, and to each
}

func (l load) String() string { return fmt.Sprintf("%s:%dx%d", l.style, l.clients, l.rate) }

// title is for a reader of the report.
func (l load) title() string {
	style := "the server answers each message"
	if l.style == styleTick {
		style = "the server ticks by itself"
	}
	return fmt.Sprintf("%s clients, %d Hz: %s", thousands(l.clients), l.rate, style)
}

// thousands prints n with a comma.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// parseLoads reads loads of mode game, separated by commas.
func parseLoads(text string) (loads []load, err error) {
	for _, t := range strings.Split(text, ",") {
		style, rest, _ := strings.Cut(t, ":")
		clients, rate, _ := strings.Cut(rest, "x")
		l := load{style: style}
		var clientsErr, rateErr error
		l.clients, clientsErr = strconv.Atoi(clients)
		l.rate, rateErr = strconv.Atoi(rate)
		good := clientsErr == nil && rateErr == nil && (style == styleEcho || style == styleTick)
		if !good || l.clients < 1 || l.clients > maxLoadClients || l.rate < 1 || l.rate > 1000 {
			return nil, fmt.Errorf("load %q, want such as echo:500x30 or tick:500x30, with up to %d clients and 1000 messages a second", t, maxLoadClients)
		}
		loads = append(loads, l)
	}
	return loads, nil
}

// maxLoadClients is limited by the ports of one address.
const maxLoadClients = 20000

// warmup returns how long it takes until each client has sent warmupMessages.
func (l load) warmup() time.Duration { return warmupMessages * time.Second / time.Duration(l.rate) }
