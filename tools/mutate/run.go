package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// patience is how long a test may take beside a multiple of what it takes without
// a mutant: other programs may need the machine, too.
const patience = 15 * time.Second

// A runner runs the tests with mutants.
type runner struct {
	root  string
	out   io.Writer // progress
	exec  []string  // what runs the tests
	slow  bool      // run slow tests, too
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
	r.known, r.again = make(map[string]result), again
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
	for len(sample) > 0 {
		n := slices.IndexFunc(sample, func(m *mutant) bool { return m.pkg != sample[0].pkg })
		if n < 0 {
			n = len(sample)
		}
		if err := r.runPackage(ctx, sample[:n]); err != nil {
			return err
		}
		sample = sample[n:]
	}
	return nil
}

// runPackage gives mutants of one package their verdict.
func (r *runner) runPackage(ctx context.Context, sample []*mutant) error {
	var run []*mutant
	for _, m := range sample {
		if m.verdict != pending {
			continue
		}
		if old, ok := r.known[m.id()]; ok && (old.Verdict != survived || !r.again) {
			m.verdict, m.by = old.Verdict, old.By
			continue
		}
		run = append(run, m)
	}
	if len(run) == 0 {
		return nil
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	tests := &packageTests{runner: r, tmp: tmp, binaries: make(map[string]*binary)}
	if tests.batch, err = newBatch(tmp, run[0].pkg, run); err != nil {
		return err
	}
	for i, m := range run {
		start := time.Now()
		if err := tests.one(ctx, m); err != nil {
			return err
		}
		where, _, _ := strings.Cut(m.String(), "\n")
		fmt.Fprintf(r.out, "%d/%d %s %s (%s, %.1f s)\n", i+1, len(run), m.verdict, where, m.by, time.Since(start).Seconds())
		if r.file != nil {
			if err := json.NewEncoder(r.file).Encode(result{m.id(), where, m.verdict, m.by}); err != nil {
				return err
			}
		}
	}
	return nil
}

// packageTests are the tests that run with the mutants of a package.
type packageTests struct {
	*runner
	tmp      string
	batch    *batch
	binaries map[string]*binary // by the folder of the tests
}

// one runs the tests of the package of a mutant, and then those beside.
func (t *packageTests) one(ctx context.Context, m *mutant) error {
	number := t.batch.numbers[m]
	overlay := t.batch.overlay
	if number == 0 {
		tmp, err := os.MkdirTemp(t.tmp, "one")
		if err != nil {
			return err
		}
		if overlay, err = writeOverlay(tmp, map[string][]byte{m.source.name: m.mutated()}); err != nil {
			return err
		}
	}
	for _, dir := range append([]string{m.pkg.dir}, m.pkg.beside...) {
		b, err := t.binary(ctx, dir)
		if err != nil {
			return err
		}
		if number == 0 {
			alone := *b
			alone.name = filepath.Join(t.tmp, "alone.test")
			if problem := t.build(ctx, alone, overlay); ctx.Err() != nil {
				return ctx.Err()
			} else if problem != "" {
				m.verdict, m.by = unbuilt, problem
				return nil
			}
			b = &alone
		}
		v, by, err := t.run(ctx, b, number)
		if err != nil {
			return err
		}
		m.verdict, m.by = v, dir+" "+by
		if v != survived {
			return nil
		}
	}
	m.by = ""
	return nil
}

// build compiles tests, and returns what is wrong with them.
func (t *packageTests) build(ctx context.Context, b binary, overlay string) (problem string) {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o="+b.name, "./"+b.dir)
	cmd.Dir = t.root
	confine(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v\n%s", err, tail(out))
	}
	return ""
}

var (
	failed = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	begun  = regexp.MustCompile(`^=== RUN\s+(\S+)`)
)

// run runs those tests with a mutant that call what it changes.
func (t *packageTests) run(ctx context.Context, b *binary, number int) (verdict, string, error) {
	for _, portion := range portions(b.calling(t.batch.entries[number])) {
		if v, by, err := t.runSome(ctx, b, portion, number); v != survived {
			return v, by, err
		}
	}
	return survived, "", nil
}

func (t *packageTests) runSome(ctx context.Context, b *binary, tests []*test, number int) (verdict, string, error) {
	var slowest, all time.Duration
	for _, x := range tests {
		slowest, all = max(slowest, x.took), all+x.took
	}
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	env := fmt.Sprintf("%s=%d", chooser, number)
	cmd := t.command(child, b, tests, env, "-test.timeout="+(4*(patience+all)).String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return pending, "", err
	}
	if err := cmd.Start(); err != nil {
		return pending, "", err
	}
	last, hung := watch(out, patience+4*slowest, cancel)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return pending, "", ctx.Err()
	case hung:
		return stuck, last, nil
	case err == nil:
		return survived, "", nil
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

// tail returns the last lines of an output.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
