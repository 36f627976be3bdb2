// Package tape is test support: it writes down what comes out of scenes that are
// the same each time they are played, and compares that with what came out when
// they were recorded.
//
// A file in testdata holds for each scene its name and, below, a line for each of its
// phases: a digest of all that was noted, and figures in plain numbers. To write the
// files of a package anew
//
//	go test ./riptide -run Recorded -record
//
// is right when a change of behaviour is intended, or when scenes change. The
// difference of the figures is then part of the change, and who makes it should be
// able to explain it.
package tape

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var record = flag.Bool("record", false, "write the recorded scenes in testdata anew")

// A Tape is a file of recorded scenes.
type Tape struct {
	t       testing.TB
	path    string
	scenes  map[string][]string // as they were recorded
	current *Scene
	fresh   strings.Builder
}

// Open reads name.txt of testdata, and at the test's end compares or writes it.
func Open(t testing.TB, name, title string) *Tape {
	p := &Tape{t: t, path: filepath.Join("testdata", name+".txt"), scenes: make(map[string][]string)}
	text, err := os.ReadFile(p.path)
	if err != nil && !*record {
		t.Fatal(err)
	}
	scene := ""
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "" || line[0] == '#':
		case line[0] != '\t':
			scene = line
		default:
			p.scenes[scene] = append(p.scenes[scene], line[1:])
		}
	}
	fmt.Fprintf(&p.fresh, "# %s\n# Package internal/tape says when and how to write this file anew.\n",
		strings.ReplaceAll(title, "\n", "\n# "))
	t.Cleanup(p.close)
	return p
}

func (p *Tape) close() {
	p.end()
	switch {
	case p.t.Failed():
	case *record:
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			p.t.Error(err)
		}
		if err := os.WriteFile(p.path, []byte(p.fresh.String()), 0o666); err != nil {
			p.t.Error(err)
		}
	default:
		for name := range p.scenes {
			p.t.Errorf("%s: the scene %q is recorded and was not played", p.path, name)
		}
	}
}

func (p *Tape) end() {
	s := p.current
	if s == nil {
		return
	}
	if want := len(p.scenes[s.name]); !*record && !p.t.Failed() && s.phases < want {
		p.t.Errorf("%s: the scene %q has %d phases, want %d", p.path, s.name, s.phases, want)
	}
	delete(p.scenes, s.name)
	p.current = nil
}

// Scene begins a scene, and ends the one before.
func (p *Tape) Scene(format string, args ...any) *Scene {
	p.t.Helper()
	p.end()
	p.current = &Scene{tape: p, name: fmt.Sprintf(format, args...), digest: offset}
	fmt.Fprintf(&p.fresh, "\n%s\n", p.current.name)
	return p.current
}

// Skip leaves a scene out, as it was recorded.
func (p *Tape) Skip(name string) {
	p.end()
	fmt.Fprintf(&p.fresh, "\n%s\n", name)
	for _, line := range p.scenes[name] {
		fmt.Fprintf(&p.fresh, "\t%s\n", line)
	}
	delete(p.scenes, name)
}

// A Scene is one that is being played.
type Scene struct {
	tape   *Tape
	name   string
	phases int
	notes  int
	digest uint64
}

// maxNotes is more than a scene has. What is changed may not come to its end.
const maxNotes = 1 << 22

const (
	offset = 14695981039346656037 // of FNV-1a, whose steps are of 8 bytes here
	prime  = 1099511628211
)

// Note adds numbers to the digest.
func (s *Scene) Note(values ...int64) {
	s.count()
	for _, v := range values {
		s.add(uint64(v))
	}
}

// Data adds bytes to the digest, and how many there are.
func (s *Scene) Data(b []byte) {
	s.count()
	s.add(uint64(len(b)))
	for ; len(b) >= 8; b = b[8:] {
		s.add(binary.LittleEndian.Uint64(b))
	}
	var rest [8]byte
	if copy(rest[:], b) > 0 {
		s.add(binary.LittleEndian.Uint64(rest[:]))
	}
}

func (s *Scene) add(v uint64) {
	s.digest = (s.digest ^ v) * prime
	s.digest ^= s.digest >> 32
}

func (s *Scene) count() {
	if s.notes++; s.notes > maxNotes {
		s.tape.t.Fatalf("%s: the scene %q does not end", s.tape.path, s.name)
	}
}

// Phase ends a phase, which must be as recorded, with the figures: names and values.
func (s *Scene) Phase(name string, figures ...any) {
	s.tape.t.Helper()
	line := fmt.Sprintf("%s %016x", name, s.digest)
	for i := 0; i+1 < len(figures); i += 2 {
		if v := fmt.Sprint(figures[i+1]); v != "0" && v != "0s" {
			line += fmt.Sprintf(" %v=%s", figures[i], v)
		}
	}
	s.Line(line)
	s.digest = offset
}

// Line ends a phase of which a test has put together the line itself.
func (s *Scene) Line(line string) {
	p := s.tape
	p.t.Helper()
	s.phases++
	fmt.Fprintf(&p.fresh, "\t%s\n", line)
	if *record {
		return
	}
	want := p.scenes[s.name]
	if s.phases > len(want) {
		p.t.Fatalf("%s: the scene %q has %d phases, and not this one:\n%s", p.path, s.name, len(want), line)
	}
	if want := want[s.phases-1]; line != want {
		p.t.Fatalf("%s: the first phase of the scene %q that differs is number %d:\n%s\nwant\n%s\nThat is %s, want %s",
			p.path, s.name, s.phases, line, want, without(line, want), without(want, line))
	}
}

// without returns the words of a line that another does not have.
func without(line, other string) string {
	words := strings.Fields(other)
	return strings.Join(slices.DeleteFunc(strings.Fields(line), func(w string) bool { return slices.Contains(words, w) }), " ")
}

// Truth returns 1 for true, for a Note.
func Truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// A Rand is the generator SplitMix64, which never changes.
type Rand uint64

// Uint64 returns the next number.
func (r *Rand) Uint64() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a number from 0 to n-1.
func (r *Rand) Below(n int) int { return int(r.Uint64() % uint64(n)) }

// Between returns a number from lo to hi.
func (r *Rand) Between(lo, hi int) int { return lo + r.Below(hi-lo+1) }

// Chance is true so many times of a thousand.
func (r *Rand) Chance(n int) bool { return r.Below(1000) < n }

// Bytes fills b.
func (r *Rand) Bytes(b []byte) {
	for i := range b {
		b[i] = byte(r.Uint64())
	}
}
