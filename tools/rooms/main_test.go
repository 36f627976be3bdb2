package main

import (
	"strings"
	"testing"
)

// measured is a package of a core with two states, one of which knows the core.
var measured = map[string][]byte{
	"core.go": []byte(`package measured
type Core struct {
	left left
	right *right
	n int
}
func (c *Core) Receive() {
	c.n++
	c.left.take(c)
	c.right.note()
	c.right.seen = true // written outside
	var copied left
	copied.n = 1
}
func (c *Core) answer() { c.n = 2 }
func (c *Core) Other() { c.right.ask(c) }
`),
	"left.go": []byte(`package measured
type left struct{ n int; counts }
type counts struct{ taken int }
func (l *left) take(c *Core) {
	l.n++
	l.taken++
	c.answer() // upward, a return of Receive
}
`),
	"right.go": []byte(`package measured
type right struct { seen bool }
func (r *right) note() { r.seen = true }
func (r *right) ask(c *Core) {
	c.answer() // upward
	c.left.n = 3 // written outside
	c.left.counts = counts{} // written outside
	*c.right = right{}
	c.n = 4 // the core's own
}
`),
}

func TestReport(t *testing.T) {
	p, err := parse(measured)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report(&out, p, "", "Receive", true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Core: 3 methods in 1 files\n",
		"calls between files: 5, upward: 2\n",
		"returns of Receive: 1\n",
		"fields of a state written outside of its file: 3\n",
		"functions: 6, lines: median 5, 90 % up to 8, longest 8, over 40: 0\n",
		"lines of source: 34 in 3 files\n",
		"upward: left.go: left.take calls core.go: Core.answer\n",
		"upward: right.go: right.ask calls core.go: Core.answer\n",
		"write: core.go:11:2: right.seen\n",
		"write: right.go:6:2: left.n\n",
		"write: right.go:7:2: left.counts\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if err := report(&out, p, "Nobody", "Receive", false); err == nil {
		t.Error("there is a type Nobody")
	}
	if _, err := load(t.TempDir()); err == nil {
		t.Error("there is a package in an empty folder")
	}
}

// Of two files that call each other, the one that does so more often stands above.
func TestArrange(t *testing.T) {
	a, b, c := function{"a.go", "f"}, function{"b.go", "g"}, function{"c.go", "h"}
	calls := []call{{a, b}, {b, a}, {function{"b.go", "g2"}, a}, {c, b}, {c, a}}
	if got := strings.Join(arrange(calls), " "); got != "c.go b.go a.go" {
		t.Errorf("arrange = %s, want c.go b.go a.go", got)
	}
	if up := upward(calls, []string{"c.go", "b.go", "a.go"}); len(up) != 1 || up[0] != calls[0] {
		t.Errorf("upward = %v, want only the call of b.go by a.go", up)
	}
}
