// Command bench runs volley and other ways to send messages over the loopback
// device side by side, and writes what comes of it to docs/BENCHMARKS.md:
//
//	go run ./bench                     all, about three quarters of an hour
//	go run ./bench -modes game,fan-out some of it; the rest of the report stays
//	go run ./bench -quick              a glance, printed only
//	go run ./bench -results r.json ... a part of a report that is made in several calls
//	go run ./bench -netns              game, fan-out and one-way beyond the loopback device, as root, printed only
//	go run ./bench -peers volley,udp -modes one-way -sizes 256 -rounds 3
//
// The runs of all peers are interleaved, round by round, so that a machine
// that is busy for a while is so for all of them. Each run has processes of its
// own, checks the content of every message, and counts what is lost.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if text := os.Getenv(jobEnv); text != "" {
		exitOn(runChild(text))
		return
	}
	if gro := os.Getenv(groEnv); gro != "" {
		exitOn(setGRO(gro == "true"))
		return
	}
	o, err := parseOptions(os.Args[1:])
	exitOn(err)
	if o.netns {
		for _, gro := range []bool{true, false} {
			exitOn(benchmarkVeth(o, gro))
		}
		return
	}
	exitOn(benchmark(o))
}

// benchmarkVeth is benchmark between two networks.
func benchmarkVeth(o *options, gro bool) (err error) {
	if o.veth, err = newVeth(gro); err != nil {
		return err
	}
	defer o.veth.close()
	return benchmark(o)
}

// place says where the datagrams pass.
func (o *options) place() string {
	if o.veth != nil {
		return o.veth.about
	}
	return "over the loopback device"
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	peers  []*peer
	modes  []string
	sizes  []int
	rounds int
	warmup time.Duration
	length time.Duration // of what is measured in a run
	conns  int           // of mode idle
	loads  []load        // of mode game
	fanOut int           // clients of mode fan-out
	netns  bool          // between two networks, ...
	veth   *veth         // ... these

	// of modes game and fan-out
	gameWarmup, gameLength time.Duration
	out                    string // directory for the report; "": standard output
	results                string // file of results of earlier calls, which count as well; "": none
}

var allModes = []string{modeGame, modeFanOut, modeOneWay, modePingPong, modeFanIn, modeBurst, modePaced, modeHazard, modeIdle}

func parseOptions(args []string) (*options, error) {
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	netns := fs.Bool("netns", false, "between two network namespaces, over veth: with GRO, then without; takes root, and is printed")
	quick := fs.Bool("quick", false, "one short round, printed and not written to -out")
	peerNames := fs.String("peers", "", "`names` of peers, separated by commas (default all)")
	modes := fs.String("modes", strings.Join(allModes, ","), "`modes` to run")
	sizes := fs.String("sizes", "64,256,1200,4096,16384", "message `sizes` in bytes, for one-way and ping-pong; the other modes use 256")
	rounds := fs.Int("rounds", 5, "`number` of runs of each measurement")
	length := fs.Duration("length", time.Second, "`time` that one run measures")
	conns := fs.Int("conns", 1000, "`number` of connections in mode idle")
	loads := fs.String("loads", "echo:500x30,tick:500x30,echo:1000x60,echo:10000x2", "`loads` of mode game: style (echo or tick), clients, messages a second of each")
	fanOut := fs.Int("fanout", 1000, "`number` of clients in mode fan-out")
	out := fs.String("out", "docs", "`directory` for BENCHMARKS.md and the charts; \"\": print the tables")
	results := fs.String("results", "", "`file` of results: those in it are reported as well, and new ones are added")
	_ = fs.Parse(args)
	o := &options{results: *results, netns: *netns, rounds: *rounds, length: *length, warmup: 200 * time.Millisecond, conns: *conns, out: *out,
		fanOut: *fanOut, gameWarmup: gameWarmup, gameLength: gameLength * *length}
	given := func(name string) (set bool) {
		fs.Visit(func(f *flag.Flag) { set = set || f.Name == name })
		return set
	}
	if *netns {
		o.out = ""
		if !given("modes") {
			*modes = strings.Join([]string{modeGame, modeFanOut, modeOneWay}, ",")
		}
	}
	if *quick {
		if !given("loads") {
			*loads = "echo:50x30,tick:50x30"
		}
		o.fanOut, o.gameWarmup, o.gameLength = 100, 100*time.Millisecond, 200*time.Millisecond
		o.rounds, o.length, o.warmup, o.conns, o.out = 1, 200*time.Millisecond, 100*time.Millisecond, 100, ""
	}
	o.peers = peers
	if *peerNames != "" {
		o.peers = nil
		for _, name := range strings.Split(*peerNames, ",") {
			p := findPeer(name)
			if p == nil {
				return nil, fmt.Errorf("no peer %q", name)
			}
			o.peers = append(o.peers, p)
		}
	}
	for _, s := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < headerSize || n > largestSize/2 {
			return nil, fmt.Errorf("size %q, want %d to %d bytes", s, headerSize, largestSize/2)
		}
		o.sizes = append(o.sizes, n)
	}
	var err error
	if o.loads, err = parseLoads(*loads); err != nil {
		return nil, err
	}
	if o.fanOut < 1 || o.fanOut > maxLoadClients {
		return nil, fmt.Errorf("%d clients of mode fan-out, want 1 to %d", o.fanOut, maxLoadClients)
	}
	o.modes = strings.Split(*modes, ",")
	return o, nil
}

// benchmark does all runs and reports.
func benchmark(o *options) error {
	plan, err := o.plan()
	if err != nil {
		return err
	}
	t, earlier, err := loadTally(o.results)
	if err != nil {
		return err
	}
	start := time.Now()
	for round := range o.rounds {
		for i, m := range plan {
			fmt.Fprintf(os.Stderr, "\rround %d of %d, %d of %d: %-40s", round+1, o.rounds, i+1, len(plan), m)
			t.run(m, o)
		}
	}
	fmt.Fprintf(os.Stderr, "\r%-70s\n", fmt.Sprintf("done in %v", time.Since(start).Round(time.Second)))
	if o.results != "" {
		plan, o.peers = joinPlans(earlier, plan), peers
		if err := t.save(o.results, plan); err != nil {
			return err
		}
	}
	rep := &report{options: o, plan: plan, tally: t, date: start}
	if o.out == "" {
		fmt.Println(rep.tables())
		return nil
	}
	return rep.write(o.out)
}
