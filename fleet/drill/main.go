// Command drill breaks a fleet of three processes in all ways that its documentation speaks of,
// under the load of many clients, and prints a table of what it has measured.
//
//	go run ./fleet/drill             # the full size, some minutes
//	go run ./fleet/drill -short      # a small size, half a minute
//	go run ./fleet/drill -only kill  # one part
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"
)

// sizes are how much the drill does.
type sizes struct {
	clients   int           // of most parts
	rate      float64       // messages a second of each
	tokens    int           // each shown at all nodes
	chunk     int           // tokens between two restarts
	many      int           // clients of the part about memory
	manyRate  float64       // and their messages a second
	partition time.Duration // how long the routes are cut
	stop      time.Duration // how long a node is stopped
	only      string
	slack     float64 // by which times may exceed their limits, on a busy machine
}

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "node":
			node(os.Args[2:])
			return
		case "clients":
			clients(os.Args[2:])
			return
		}
	}
	s := sizes{}
	short := flag.Bool("short", false, "do little")
	flag.IntVar(&s.clients, "clients", 1000, "how many clients there are")
	flag.Float64Var(&s.rate, "rate", 10, "how many messages a second each sends")
	flag.IntVar(&s.tokens, "tokens", 10000, "how many tokens are shown at all nodes")
	flag.IntVar(&s.chunk, "chunk", 1000, "how many of them between two restarts")
	flag.IntVar(&s.many, "many", 5000, "how many clients there are when memory is measured")
	flag.Float64Var(&s.manyRate, "many-rate", 1, "how many messages a second each of them sends")
	flag.DurationVar(&s.partition, "partition", 30*time.Second, "how long one node does not hear the others")
	flag.DurationVar(&s.stop, "stop", 10*time.Second, "how long a node stands still")
	flag.Float64Var(&s.slack, "slack", 1, "by which factor times may exceed their limits, on a busy machine")
	flag.StringVar(&s.only, "only", "", "the parts, separated by commas: "+strings.Join(names(), " "))
	flag.Parse()
	if *short {
		s = small(s)
	}
	t, err := drill(s)
	if err != nil {
		log.Fatal(err)
	}
	if len(t.failed()) > 0 {
		os.Exit(1)
	}
}

// small returns the sizes for a test.
func small(s sizes) sizes {
	return sizes{
		clients: 60, rate: 10, tokens: 60, chunk: 60, many: 1000, manyRate: 1,
		partition: 5 * time.Second, stop: 2 * time.Second, only: s.only, slack: s.slack,
	}
}

// A part is what the drill does to a fleet.
type part struct {
	name string
	run  func(*table, sizes) error
}

var parts = []part{
	{"tokens", tokens},
	{"kill", kill},
	{"rolling", rolling},
	{"stop", stop},
	{"partition", partition},
	{"memory", memory},
	{"nats", natsGone},
	{"clock", clock},
}

func names() (all []string) {
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

// drill runs the parts, and prints the table.
func drill(s sizes) (*table, error) {
	t := new(table)
	for _, p := range parts {
		if s.only != "" && !slices.Contains(strings.Split(s.only, ","), p.name) {
			continue
		}
		t.part, t.late = p.name, 0
		log.Printf("%s …", p.name)
		if err := p.run(t, s); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	t.print()
	return t, nil
}

// A table has what was measured, beside the limits.
type table struct {
	part string
	late time.Duration // the longest delay of a timer at the clients in this part
	rows []row
}

type row struct {
	part, what, have, want string
	ok                     bool
	late                   time.Duration // that of the table; 0: the row must be so on any machine
}

func (t *table) add(ok bool, what, have, want string) {
	t.rows = append(t.rows, row{t.part, what, have, want, ok, 0})
	log.Printf("  %s: %s (%s)", what, have, want)
}

// addBusy adds a row that may fail on a machine which has no time for the fleet.
func (t *table) addBusy(ok bool, what, have, want string) {
	t.add(ok, what, have, want)
	t.rows[len(t.rows)-1].late = t.late
}

// atMost adds a time with its limit.
func (t *table) atMost(s sizes, what string, have, want time.Duration) {
	want = time.Duration(float64(want) * s.slack)
	t.addBusy(have <= want, what, have.Round(time.Millisecond).String(), "at most "+want.String())
}

// is adds a count that must be just so.
func (t *table) is(what string, have, want int) {
	t.add(have == want, what, fmt.Sprint(have), fmt.Sprint(want))
}

// lost adds how many sessions were lost, and clients that gave up: none may be.
func (t *table) lost(when string, r report) {
	t.addBusy(r.Redials == 0, when+"clients that came anew", fmt.Sprint(r.Redials), "0")
	t.is(when+"clients that gave up", r.Gone, 0)
	if r.Err != "" {
		log.Printf("  an error of a client: %s", r.Err)
	}
}

// note adds what has no limit.
func (t *table) note(what, have string) { t.add(true, what, have, "") }

// failed returns the rows that are not as they must be.
func (t *table) failed() (rows []row) {
	for _, r := range t.rows {
		if !r.ok {
			rows = append(rows, r)
		}
	}
	return rows
}

func (t *table) print() {
	fmt.Printf("%-10s %-52s %-18s %-18s\n", "part", "what", "measured", "wanted")
	for _, r := range t.rows {
		mark := "ok"
		if !r.ok {
			mark = "FAILED"
		}
		if r.want == "" {
			mark = ""
		}
		fmt.Printf("%-10s %-52s %-18s %-18s %s\n", r.part, r.what, r.have, r.want, mark)
	}
}
