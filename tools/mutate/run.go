package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// patience is how long a test may take beside a multiple of what it takes without
// a mutant: other programs may need the machine, too.
const patience = 15 * time.Second

// A pace is how long the tests of a package take without mutants.
type pace struct{ slowest, all time.Duration }

// A runner runs the tests with mutants.
type runner struct {
	root  string
	out   io.Writer // progress
	paces map[string]pace
	known map[string]result
	file  *os.File // of results, or nil
	again bool
}

// A result is a line of the file of results.
type result struct {
	ID      string
	Mutant  string // for readers
	Verdict verdict
	By      string `json:",omitempty"`
}

// open reads the results of earlier calls, and keeps those of this one.
func (r *runner) open(name string, again bool) error {
	r.paces, r.known, r.again = make(map[string]pace), make(map[string]result), again
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	r.file = f
	for d := json.NewDecoder(f); ; {
		var line result
		if err := d.Decode(&line); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %v", name, err)
		}
		r.known[line.ID] = line
	}
}

func (r *runner) close() {
	if r.file != nil {
		r.file.Close()
	}
}

// runAll gives each mutant of a sample its verdict, until the context ends.
func (r *runner) runAll(ctx context.Context, sample []*mutant) error {
	for i, m := range sample {
		if m.verdict != pending {
			continue
		}
		if old, ok := r.known[m.id()]; ok && (old.Verdict != survived || !r.again) {
			m.verdict, m.by = old.Verdict, old.By
			continue
		}
		start := time.Now()
		if err := r.one(ctx, m); err != nil {
			return err
		}
		where, _, _ := strings.Cut(m.String(), "\n")
		fmt.Fprintf(r.out, "%d/%d %s %s (%s, %.1f s)\n", i+1, len(sample), m.verdict, where, m.by, time.Since(start).Seconds())
		if r.file != nil {
			if err := json.NewEncoder(r.file).Encode(result{m.id(), where, m.verdict, m.by}); err != nil {
				return err
			}
		}
	}
	return nil
}

// one runs the tests of the package of a mutant, and then those beside.
func (r *runner) one(ctx context.Context, m *mutant) error {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	changed := filepath.Join(tmp, "mutant.go")
	overlay := filepath.Join(tmp, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{m.source.name: changed}})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(changed, m.mutated(), 0o666), os.WriteFile(overlay, text, 0o666)); err != nil {
		return err
	}
	for _, dir := range append([]string{m.pkg.dir}, m.pkg.beside...) {
		p, err := r.pace(ctx, dir)
		if err != nil {
			return err
		}
		v, by, err := r.test(ctx, dir, overlay, p)
		if err != nil {
			return err
		}
		m.verdict, m.by = v, strings.TrimSpace(dir+" "+by)
		if v != survived {
			return nil
		}
	}
	m.by = ""
	return nil
}

var (
	passed = regexp.MustCompile(`^--- (?:PASS|SKIP): \S+ \(([0-9.]+)s\)`)
	failed = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	begun  = regexp.MustCompile(`^=== RUN\s+(\S+)`)
)

// pace returns how long the tests of a package take, and an error if they fail
// as they are. The go command remembers that from one call to the next.
func (r *runner) pace(ctx context.Context, dir string) (pace, error) {
	if p, ok := r.paces[dir]; ok {
		return p, nil
	}
	cmd := command(ctx, r.root, "test", "-v", "-vet=off", "-short", "-failfast", "./"+dir)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return pace{}, ctx.Err()
	}
	if err != nil {
		return pace{}, fmt.Errorf("the tests of %s fail without a mutant: %v\n%s", dir, err, tail(out))
	}
	var p pace
	for line := range strings.Lines(string(out)) {
		if m := passed.FindStringSubmatch(line); m != nil {
			d, _ := time.ParseDuration(m[1] + "s")
			p.slowest, p.all = max(p.slowest, d), p.all+d
		}
	}
	r.paces[dir] = p
	return p, nil
}

// test runs the tests of a package with a mutant.
func (r *runner) test(ctx context.Context, dir, overlay string, p pace) (verdict, string, error) {
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := command(child, r.root, "test", "-v", "-vet=off", "-short", "-failfast", "-count=1", "-overlay="+overlay,
		"-timeout="+(4*(patience+p.all)).String(), "./"+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return pending, "", err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return pending, "", err
	}
	last, hung := watch(out, patience+4*p.slowest, cancel)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return pending, "", ctx.Err()
	case hung:
		return stuck, last, nil
	case err == nil:
		return survived, "", nil
	case bytes.Contains(stderr.Bytes(), []byte("# volley")) || last == "":
		return unbuilt, strings.TrimSpace(tail(stderr.Bytes())), nil
	}
	return killed, last, nil
}

// watch reads what tests print. It returns the test that has failed, or else the
// one that was begun last, and cancels the run if none ends for the given time.
func watch(out io.Reader, limit time.Duration, cancel func()) (last string, hung bool) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewReader(out); ; {
			line, err := s.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	fail := false
	var silence <-chan time.Time // from the first line on: before, it compiles
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return last, hung
			}
			if m := failed.FindStringSubmatch(line); m != nil && !fail {
				last, fail = m[1], true
			} else if m := begun.FindStringSubmatch(line); m != nil && !fail {
				last = m[1]
			}
			silence = time.After(limit)
		case <-silence:
			hung = true
			cancel()
			silence = nil
		}
	}
}

func command(ctx context.Context, root string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	cmd.WaitDelay = 5 * time.Second
	confine(cmd)
	return cmd
}

// tail returns the last lines of an output.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
