package world

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var tallyFlag = flag.String("tally", "", "`file` with sums over all runs, to which this one is added")

// A tally sums what worlds have done that did not fail.
type tally struct {
	Worlds, Failed      int
	Span, Lived         time.Duration // in their time: of the worlds, and of all connections
	CPU                 time.Duration
	Datagrams, Messages uint64
}

// countsPrefix begins the line in which a world tells its figures.
const countsPrefix = "world: "

// add adds a world by what its process has printed.
func (s *tally) add(p *plan, out string, cpu time.Duration) error {
	for line := range strings.Lines(out) {
		text, ok := strings.CutPrefix(line, countsPrefix)
		if !ok {
			continue
		}
		var c counts
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return err
		}
		s.Worlds++
		s.Span += p.span
		s.Lived += c.Lived
		s.CPU += cpu
		s.Datagrams += c.Datagrams
		s.Messages += c.Written
		return nil
	}
	return errors.New("it has told no figures")
}

// merge adds another tally.
func (s *tally) merge(o tally) {
	s.Worlds += o.Worlds
	s.Failed += o.Failed
	s.Span += o.Span
	s.Lived += o.Lived
	s.CPU += o.CPU
	s.Datagrams += o.Datagrams
	s.Messages += o.Messages
}

func (s tally) String() string {
	const year = 365.25 * 24 * time.Hour
	return fmt.Sprintf("%d worlds without a failure and %d with one, %v in their time, %.1f core-minutes, %d datagrams, %d messages, %.4f connection-years",
		s.Worlds, s.Failed, s.Span.Round(time.Second), s.CPU.Minutes(), s.Datagrams, s.Messages, s.Lived.Hours()/year.Hours())
}

// save adds the tally to that of a file, and returns the sum.
func (s tally) save(file string) (tally, error) {
	var all tally
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &all)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return all, err
	}
	all.merge(s)
	b, err = json.Marshal(all)
	if err != nil {
		return all, err
	}
	return all, os.WriteFile(file, append(b, '\n'), 0o644)
}

func TestTally(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tally")
	p := &plan{span: time.Hour}
	out := "=== RUN\nworld: {\"Written\":7,\"Datagrams\":30,\"Lived\":3600000000000}\nPASS\n"
	for n := 1; n <= 3; n++ {
		var s tally
		for range 2 {
			if err := s.add(p, out, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		s.Failed++
		all, err := s.save(file)
		want := tally{2 * n, n, time.Duration(2*n) * time.Hour, time.Duration(2*n) * time.Hour, time.Duration(2*n) * time.Minute, uint64(60 * n), uint64(14 * n)}
		if err != nil || all != want {
			t.Errorf("after %d runs: %+v, %v, want %+v", n, all, err, want)
		}
	}
	if err := new(tally).add(p, "PASS\n", 0); err == nil {
		t.Error("a world without figures counts")
	}
}
