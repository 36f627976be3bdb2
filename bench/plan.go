package main

import (
	"fmt"
	"os"
	"slices"
)

const (
	usualSize    = 256 // bytes of a message where there is one size only
	fanInClients = 16
)

// A measurement is what all peers go through.
type measurement struct {
	mode      string
	size      int
	processes int
	load      load // of modes game and fan-out
}

func (m measurement) String() string {
	if m.load != (load{}) {
		return fmt.Sprintf("%s, %s", m.mode, m.load)
	}
	return fmt.Sprintf("%s, %d bytes, %d process(es)", m.mode, m.size, m.processes)
}

// plan returns the measurements that the options ask for, in the order of the
// report.
func (o *options) plan() ([]measurement, error) {
	var plan []measurement
	for _, mode := range o.modes {
		switch mode {
		case modeOneWay, modePingPong:
			for _, size := range o.sizes {
				plan = append(plan, measurement{mode: mode, size: size, processes: 1})
			}
			if canShare && slices.Contains(o.sizes, usualSize) {
				plan = append(plan, measurement{mode: mode, size: usualSize, processes: 2})
			}
		case modeFanIn, modeBurst, modePaced, modeIdle:
			plan = append(plan, measurement{mode: mode, size: usualSize, processes: 1})
		case modeHazard:
			if canShare { // the server must have processors of its own to wait for
				plan = append(plan, measurement{mode: mode, size: usualSize, processes: 2})
			}
		case modeGame:
			for _, l := range o.loads {
				plan = appendLoad(plan, mode, l)
			}
		case modeFanOut:
			plan = appendLoad(plan, mode, load{styleFanOut, o.fanOut, fanOutRate})
		default:
			return nil, fmt.Errorf("no mode %q", mode)
		}
	}
	if o.netns {
		plan = slices.DeleteFunc(plan, func(m measurement) bool { return m.processes < 2 })
	}
	return plan, nil
}

// appendLoad adds the measurement of a load, where there can be two processes.
func appendLoad(plan []measurement, mode string, l load) []measurement {
	if !canShare {
		return plan
	}
	return append(plan, measurement{mode: mode, size: gameSize, processes: 2, load: l})
}

// tally holds the results of all rounds.
type tally map[measurement]map[string][]*result

// run does one round of m with all peers.
func (t tally) run(m measurement, o *options) {
	if t[m] == nil {
		t[m] = make(map[string][]*result)
	}
	for _, p := range o.peers {
		if !p.takesPart(m) {
			continue
		}
		j := job{Peer: p.name, Mode: m.mode, Size: m.size, Clients: 1, Warmup: o.warmup, Duration: o.length}
		if o.veth != nil {
			j.Networks = []string{o.veth.server, o.veth.client}
		}
		switch m.mode {
		case modeGame, modeFanOut:
			j.Clients, j.Style, j.Rate = m.load.clients, m.load.style, m.load.rate
			j.Warmup, j.Duration = max(o.gameWarmup, m.load.warmup()), o.gameLength
		case modeFanIn:
			j.Clients = fanInClients
		case modeIdle:
			j.Clients = 1 + o.conns // the first one is there before any is measured
		}
		r, err := runJob(j, m.processes)
		if err != nil {
			r = &result{Error: err.Error()}
		}
		if r.Error != "" {
			fmt.Fprintf(os.Stderr, "\n%s: %s: %s\n", m, p.name, r.Error)
		}
		t[m][p.name] = append(t[m][p.name], r)
	}
}

// takesPart tells whether a measurement means something for p.
func (p *peer) takesPart(m measurement) bool {
	return p.can(m.mode, m.size) && (m.mode != modeIdle || !p.connectionless) && (m.load.clients <= largeLoad || p.crowd)
}

// of returns the results of a peer that are without an error.
func (t tally) of(m measurement, name string) (rs []*result) {
	for _, r := range t[m][name] {
		if r.Error == "" {
			rs = append(rs, r)
		}
	}
	return rs
}
