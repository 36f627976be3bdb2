// Command watched measures what it costs a server that somebody looks at it: the
// stream of the debug page is read, and Prometheus scrapes each second. A pair is one
// server process under load, unwatched, twice watched, and unwatched, and the next one
// the other way round. It writes its section of docs/BENCHMARKS.md:
//
//	go run ./bench/watched
//	go run ./bench/watched -out "" -pairs 1
//	go run ./bench/watched -pairs 4 -keep pairs.json    adds to what the file has
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"time"

	"volley/bench/internal/section"
)

func main() {
	if load := os.Getenv(loadEnv); load != "" {
		exitOn(serve(load, os.Stdin, os.Stdout))
		return
	}
	pairs := flag.Int("pairs", 10, "`number` of pairs")
	length := flag.Duration("length", time.Second, "`time` of each of the four parts of a pair, in whole seconds")
	clients := flag.Int("clients", 500, "`number` of clients of the load echo")
	keep := flag.String("keep", "", "`file` to which the pairs are added; those that it has are reported, too")
	out := flag.String("out", "docs/BENCHMARKS.md", "`file` whose section Being watched is written; \"\": print it")
	flag.Parse()
	var all []pair
	if *keep != "" {
		data, err := os.ReadFile(*keep)
		if !errors.Is(err, fs.ErrNotExist) {
			exitOn(err)
			exitOn(json.Unmarshal(data, &all))
		}
	}
	for i := range *pairs {
		for _, load := range loads {
			fmt.Fprintf(os.Stderr, "\rpair %d of %d, %-20s", i+1, *pairs, load)
			p, err := measure(context.Background(), load, *clients, *length, i%2 == 1)
			exitOn(err)
			all = append(all, *p)
		}
	}
	fmt.Fprintln(os.Stderr)
	if *keep != "" {
		data, err := json.Marshal(all)
		exitOn(err)
		exitOn(os.WriteFile(*keep, data, 0o644))
	}
	if *out == "" {
		fmt.Print(report(all, *clients, *length))
		return
	}
	exitOn(section.Replace(*out, title, report(all, *clients, *length)))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "watched:", err)
		os.Exit(1)
	}
}

// A pair is what a server did unwatched and watched, for the same time.
type pair struct {
	Load               string
	Unwatched, Watched half
}

// A half is what a server did in one or the other.
type half struct {
	Messages, Mallocs uint64
	CPU, Time         time.Duration
}

func (h *half) add(o half) {
	h.Messages, h.Mallocs, h.CPU, h.Time = h.Messages+o.Messages, h.Mallocs+o.Mallocs, h.CPU+o.CPU, h.Time+o.Time
}

const (
	warmup = time.Second            // connections learn what to expect
	settle = 250 * time.Millisecond // between parts; who begins to watch is told all by then
)

// measure runs a server of its own for a pair.
func measure(ctx context.Context, load string, clients int, length time.Duration, watchedFirst bool) (_ *pair, err error) {
	s, err := start(load)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	ctx, cancel := context.WithCancel(ctx)
	wait, err := drive(ctx, load, s.Addr, clients)
	if err != nil {
		cancel()
		return nil, err
	}
	defer func() { cancel(); err = errors.Join(err, wait()) }()
	time.Sleep(warmup)
	p := &pair{Load: load}
	for _, watched := range []bool{watchedFirst, !watchedFirst, !watchedFirst, watchedFirst} {
		to, watching := &p.Unwatched, func() error { return nil }
		if watched {
			to, watching = &p.Watched, watch(ctx, s.Web)
		}
		time.Sleep(settle)
		h, err := s.during(length)
		if err != nil {
			return nil, err
		}
		to.add(h)
		if err := watching(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// during returns what the server does in a time.
func (s *process) during(length time.Duration) (half, error) {
	from, err := s.mark()
	if err != nil {
		return half{}, err
	}
	time.Sleep(length)
	to, err := s.mark()
	if err != nil {
		return half{}, err
	}
	h := half{to.Messages - from.Messages, to.Mallocs - from.Mallocs, to.CPU - from.CPU, to.At.Sub(from.At)}
	if h.Messages == 0 || h.CPU <= 0 {
		return half{}, fmt.Errorf("a server with %d messages in %v of processor time", h.Messages, h.CPU)
	}
	return h, nil
}
