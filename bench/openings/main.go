// Command openings measures what forged openings of connections cost a server, and
// what becomes of live sessions beside them. Each server runs in a process of its own,
// has 500 sessions whose messages it answers, and is then sent one first datagram each
// from many addresses of the loopback. A round has all servers one after the other, so
// that a machine that is busy for a while is so for all. It writes its section of
// docs/BENCHMARKS.md:
//
//	go run ./bench/openings
//	go run ./bench/openings -out "" -rounds 1 -servers volley,udp
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"volley/bench/internal/section"
)

func main() {
	if name := os.Getenv(serverEnv); name != "" {
		exitOn(serve(name, os.Stdin, os.Stdout))
		return
	}
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 5, "`number` of rounds")
	flag.DurationVar(&o.length, "length", 3*time.Second, "`time` of each half of a run, without openings and with them")
	flag.IntVar(&o.sessions, "sessions", 500, "`number` of live sessions")
	flag.IntVar(&o.hertz, "hertz", 10, "messages a second of each session")
	flag.IntVar(&o.rate, "rate", 30_000, "forged openings a `second`")
	names := flag.String("servers", strings.Join(serverNames(), ","), "servers, separated by commas")
	out := flag.String("out", "docs/BENCHMARKS.md", "`file` whose section Forged openings is written; \"\": print it")
	flag.Parse()
	o.servers = strings.Split(*names, ",")
	all := make(map[string][]run)
	for i := range o.rounds {
		for _, name := range o.servers {
			fmt.Fprintf(os.Stderr, "\rround %d of %d, %-20s", i+1, o.rounds, name)
			r, err := measure(name, &o)
			exitOn(err)
			all[name] = append(all[name], *r)
		}
	}
	fmt.Fprintln(os.Stderr)
	if *out == "" {
		fmt.Print(report(all, &o))
		return
	}
	exitOn(section.Replace(*out, title, report(all, &o)))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "openings:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds, sessions, hertz, rate int
	length                        time.Duration
	servers                       []string
}

// A run is what one server did: with openings alone, and another process of it with
// sessions, without openings and with them.
type run struct{ Alone, Quiet, Flooded half }

// A half is what a server did in one or the other.
type half struct {
	CPU, Time         time.Duration
	Forged, Opened    uint64 // openings sent, and those that the server has dealt with
	Conns             uint64 // connections that it has made of them
	Due, InTime, Late uint64 // messages of the sessions, and answers
}

const (
	warmup  = time.Second            // connections learn what to expect
	settle  = 250 * time.Millisecond // between sending and counting
	inLimit = 50 * time.Millisecond  // in which an answer is in time
)

// measure runs one server for one round.
func measure(name string, o *options) (*run, error) {
	r := new(run)
	err := withServer(name, 0, o, func(s *child, c *crowd, f *forger) (err error) {
		r.Alone, err = s.during(c, f, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = withServer(name, o.sessions, o, func(s *child, c *crowd, f *forger) (err error) {
		if r.Quiet, err = s.during(c, nil, o); err != nil {
			return err
		}
		r.Flooded, err = s.during(c, f, o)
		return err
	})
	return r, err
}

// withServer has a server in a process of its own, with so many sessions.
func withServer(name string, sessions int, o *options, f func(*child, *crowd, *forger) error) (err error) {
	s, err := start(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	c, err := dialAll(name, s.Addr, sessions, o.hertz)
	if err != nil {
		return err
	}
	defer c.close()
	forger, err := newForger(name, s.Addr)
	if err != nil {
		return err
	}
	defer forger.close()
	time.Sleep(warmup)
	return f(s, c, forger)
}

// during returns what the server does in a time, with a flood or without.
func (s *child) during(c *crowd, f *forger, o *options) (h half, err error) {
	from, err := s.mark()
	if err != nil {
		return h, err
	}
	c.count(true)
	if f == nil {
		time.Sleep(o.length)
	} else if h.Forged, err = f.flood(o.rate, o.length); err != nil {
		return h, err
	}
	c.count(false)
	time.Sleep(settle)
	to, err := s.mark()
	if err != nil {
		return h, err
	}
	h.CPU, h.Time, h.Opened = to.CPU-from.CPU, to.At.Sub(from.At), to.Opened-from.Opened
	h.Conns = to.Conns - from.Conns
	h.Due, h.InTime, h.Late = c.take()
	return h, nil
}
