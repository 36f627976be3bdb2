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

// A binary is compiled tests.
type binary struct {
	name string
	dir  string
	// slowest and all are how long the tests take without mutants.
	slowest, all time.Duration
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

// binary returns the tests of a folder, with the batch in them. They have passed
// without a mutant.
func (t *packageTests) binary(ctx context.Context, dir string) (*binary, error) {
	if b := t.binaries[dir]; b != nil {
		return b, nil
	}
	b := &binary{name: filepath.Join(t.tmp, fmt.Sprintf("%d.test", len(t.binaries))), dir: dir}
	if problem := t.build(ctx, *b, t.batch.overlay); ctx.Err() != nil {
		return nil, ctx.Err()
	} else if problem != "" {
		return nil, fmt.Errorf("the tests of %s do not build: %s", dir, problem)
	}
	cmd := t.command(ctx, b, 0, "-test.timeout=20m")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("the tests of %s fail without a mutant: %v\n%s", dir, err, tail(out))
	}
	for line := range strings.Lines(string(out)) {
		if m := passed.FindStringSubmatch(line); m != nil {
			d, _ := time.ParseDuration(m[1] + "s")
			b.slowest, b.all = max(b.slowest, d), b.all+d
		}
	}
	t.binaries[dir] = b
	return b, nil
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

// command returns the command that runs tests with a mutant of the batch.
func (t *packageTests) command(ctx context.Context, b *binary, number int, flags ...string) *exec.Cmd {
	args := append(slices.Clone(t.exec), b.name, "-test.v", "-test.short", "-test.failfast", "-test.paniconexit0")
	args = append(args, flags...)
	if i := slices.IndexFunc(targets, func(x target) bool { return x.dir == b.dir }); i >= 0 && targets[i].slow != "" && !t.slow {
		args = append(args, "-test.skip="+targets[i].slow)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(t.root, filepath.FromSlash(b.dir))
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", chooser, number))
	cmd.WaitDelay = 5 * time.Second
	confine(cmd)
	return cmd
}

var (
	passed = regexp.MustCompile(`^--- (?:PASS|SKIP): \S+ \(([0-9.]+)s\)`)
	failed = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	begun  = regexp.MustCompile(`^=== RUN\s+(\S+)`)
)

// run runs tests with a mutant.
func (t *packageTests) run(ctx context.Context, b *binary, number int) (verdict, string, error) {
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := t.command(child, b, number, "-test.timeout="+(4*(patience+b.all)).String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return pending, "", err
	}
	if err := cmd.Start(); err != nil {
		return pending, "", err
	}
	last, hung := watch(out, patience+4*b.slowest, cancel)
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
