package main

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"go/ast"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"
)

// A verdict is what has become of a mutant.
type verdict string

const (
	pending  verdict = ""         // not run yet
	killed   verdict = "killed"   // a test has failed
	stuck    verdict = "stuck"    // a test did not end, which counts as killed
	survived verdict = "survived" // no test has failed
	explain  verdict = "explained"
	unbuilt  verdict = "unbuilt" // does not compile after all; does not count
)

// A mutant is one change: the bytes from start to end of a file become text.
type mutant struct {
	pkg        *pkg
	source     *source
	decl       *ast.FuncDecl // it is in, or nil
	function   string
	kind       string // of change, such as "comparison"
	line       int
	start, end int
	text       string
	nth        int // among those of the same key
	verdict    verdict
	by         string // the test that failed
}

// mutated returns the file with the change.
func (m *mutant) mutated() []byte {
	return slices.Concat(m.source.text[:m.start], []byte(m.text), m.source.text[m.end:])
}

// before and after return the lines that change, as they are and with the change.
func (m *mutant) before() string { return m.lines(string(m.source.text[m.start:m.end])) }
func (m *mutant) after() string  { return m.lines(m.text) }

func (m *mutant) lines(middle string) string {
	src := m.source.text
	from := bytes.LastIndexByte(src[:m.start], '\n') + 1
	to := len(src)
	if i := bytes.IndexByte(src[m.end:], '\n'); i >= 0 {
		to = m.end + i
	}
	return string(src[from:m.start]) + middle + string(src[m.end:to])
}

// key says which change this is without the number of the line, which changes
// with every line above.
func (m *mutant) key() string {
	return strings.Join([]string{m.pkg.dir, m.function, squeeze(m.before()), squeeze(m.after())}, "\n")
}

// id is the key in short, for the file of results.
func (m *mutant) id() string {
	h := fnv.New128a()
	fmt.Fprintf(h, "%s\n%d", m.key(), m.nth)
	return hex.EncodeToString(h.Sum(nil))
}

// rank is the place of a mutant in the order of a seed.
func (m *mutant) rank(seed uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n%d\n%d", m.key(), m.nth, seed)
	// The last bytes have hardly touched the high bits of the sum: mix it.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// squeeze makes all space one blank, so that formatting makes no difference.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// String returns where the mutant is, and the difference that it makes.
func (m *mutant) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s:%d: %s: %s\n", m.pkg.dir, filepath.Base(m.source.name), m.line, m.function, m.kind)
	for _, part := range []struct{ sign, text string }{{"-", m.before()}, {"+", m.after()}} {
		lines := strings.Split(strings.TrimRight(part.text, "\n"), "\n")
		for i, line := range lines {
			if i == 8 && len(lines) > 9 {
				fmt.Fprintf(&b, "\t%s\t... and %d lines\n", part.sign, len(lines)-i)
				break
			}
			fmt.Fprintf(&b, "\t%s%s\n", part.sign, line)
		}
	}
	return b.String()
}

// draw returns n mutants that compile, or all if n is 0, in the order in which
// their packages are given.
func draw(all []*mutant, seed uint64, n int) (sample []*mutant) {
	ranks := make(map[*mutant]uint64, len(all))
	place := make(map[*mutant]int, len(all))
	for i, m := range all {
		ranks[m], place[m] = m.rank(seed), i
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *mutant) int { return cmp.Compare(ranks[a], ranks[b]) })
	for _, m := range order {
		if n > 0 && len(sample) == n {
			break
		}
		if m.pkg.compiles(m) {
			sample = append(sample, m)
		}
	}
	slices.SortFunc(sample, func(a, b *mutant) int { return cmp.Compare(place[a], place[b]) })
	return sample
}
