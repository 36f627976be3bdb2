// Command hostile measures what becomes of live sessions beside an attack. Each server runs in
// a process of its own, and has 500 sessions whose messages it answers, in time or late. Then
// the attack comes beside them:
//
//   - openings: one forged first datagram each from many addresses of the loopback
//   - fragments: a peer begins messages and never finishes them
//   - readers: the server does not read what 100 other peers send; before, it reads that, too
//
// A round has all servers one after the other, so that a machine that is busy for a while is
// so for all. Each attack has a section in docs/BENCHMARKS.md:
//
//	go run ./bench/hostile
//	go run ./bench/hostile -out "" -rounds 1 -attacks openings -servers volley,udp
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
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
	flag.DurationVar(&o.length, "length", 3*time.Second, "`time` of each half of a run, without the attack and with it")
	flag.IntVar(&o.sessions, "sessions", 500, "`number` of live sessions")
	flag.IntVar(&o.hertz, "hertz", 10, "messages a second of each session")
	flag.IntVar(&o.rate, "rate", 30_000, "datagrams of the attack a `second`")
	which := flag.String("attacks", "openings,fragments,readers", "attacks, separated by commas")
	names := flag.String("servers", strings.Join(serverNames(), ","), "servers, separated by commas")
	out := flag.String("out", "docs/BENCHMARKS.md", "`file` whose sections are written; \"\": print them")
	flag.Parse()
	o.servers = strings.Split(*names, ",")
	for _, name := range strings.Split(*which, ",") {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if i < 0 {
			exitOn(fmt.Errorf("no attack %q", name))
		}
		k := &kinds[i]
		all := make(map[string][]run)
		for i := range o.rounds {
			for _, server := range o.servers {
				fmt.Fprintf(os.Stderr, "\r%s, round %d of %d, %-20s", name, i+1, o.rounds, server)
				r, err := k.measure(server, &o)
				exitOn(err)
				all[server] = append(all[server], *r)
			}
		}
		fmt.Fprintln(os.Stderr)
		if *out == "" {
			fmt.Print(k.report(all, &o))
			continue
		}
		exitOn(section.Replace(*out, k.title, k.report(all, &o)))
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds, sessions, hertz, rate int
	length                        time.Duration
	servers                       []string
}

// A run is what one server did: with forged openings alone, and another process of it with
// sessions, without the attack and with it. Readers send in both, and are unread in the latter.
type run struct{ Alone, Quiet, Beside half }

// A half is what a server did in one or the other.
type half struct {
	CPU, Time    time.Duration
	Sent, Opened uint64 // datagrams of the attack, and openings that the server has dealt with
	Conns        uint64 // connections that it has made of them
	Held         int64  // bytes at the end
	Due, InTime  uint64 // messages of the sessions, and answers
	P99          time.Duration
}

const (
	warmup  = time.Second            // connections learn what to expect
	settle  = 250 * time.Millisecond // between sending and counting
	inLimit = 50 * time.Millisecond  // in which an answer is in time
)

// measure runs one server for one round.
func (k *kind) measure(name string, o *options) (*run, error) {
	r := new(run)
	if k.alone {
		err := k.withServer(name, 0, o, func(s *process, c *crowd, a attack) (err error) {
			r.Alone, err = s.during(c, a, o)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	err := k.withServer(name, o.sessions, o, func(s *process, c *crowd, a attack) (err error) {
		readers, ok := a.(*readers)
		if !ok {
			r.Quiet, err = s.during(c, nil, o)
		} else if r.Quiet, err = s.during(c, readers, o); err == nil {
			err = readers.stall(o.rate)
		}
		if err != nil {
			return err
		}
		r.Beside, err = s.during(c, a, o)
		return err
	})
	return r, err
}

// withServer has a server in a process of its own, with so many sessions.
func (k *kind) withServer(name string, sessions int, o *options, f func(*process, *crowd, attack) error) (err error) {
	s, err := start(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c, err := dialAll(name, s.addr, sessions, o.hertz)
	if err != nil {
		return err
	}
	defer c.close()
	a, err := k.begin(name, s.addr)
	if err != nil {
		return err
	}
	defer a.close()
	time.Sleep(warmup)
	return f(s, c, a)
}

// during returns what the server does in a time, with an attack or without.
func (s *process) during(c *crowd, a attack, o *options) (h half, err error) {
	from, err := s.mark()
	if err != nil {
		return h, err
	}
	c.count(true)
	if a == nil {
		time.Sleep(o.length)
	} else if h.Sent, err = a.flood(o.rate, o.length); err != nil {
		return h, err
	}
	c.count(false)
	time.Sleep(settle)
	to, err := s.mark()
	if err != nil {
		return h, err
	}
	h.CPU, h.Time, h.Opened = to.CPU-from.CPU, to.At.Sub(from.At), to.Opened-from.Opened
	h.Conns, h.Held = to.Conns-from.Conns, to.Held
	due, took := c.take()
	h.Due = due
	if n := len(took); n > 0 {
		late, _ := slices.BinarySearch(took, inLimit+1)
		h.InTime, h.P99 = uint64(late), took[n*99/100]
	}
	return h, nil
}
