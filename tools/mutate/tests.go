package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A binary is compiled tests.
type binary struct {
	name  string
	dir   string
	tests []*test
}

// A test is what a run without a mutant has told of it.
type test struct {
	name    string
	took    time.Duration
	entries map[int]bool // the numbers of the changed functions that it called
}

var passed = regexp.MustCompile(`^--- (?:PASS|SKIP): \S+ \(([0-9.]+)s\)`)

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
	if err := t.study(ctx, b); err != nil {
		return nil, err
	}
	t.binaries[dir] = b
	return b, nil
}

// study runs the tests one by one without a mutant, and finds out how long each
// takes and which changed functions it calls.
func (t *packageTests) study(ctx context.Context, b *binary) error {
	list := exec.CommandContext(ctx, b.name, "-test.list=^(Test|Fuzz|Example)")
	list.Dir = filepath.Join(t.root, filepath.FromSlash(b.dir))
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("the tests of %s cannot be listed: %v", b.dir, err)
	}
	skip := t.skipped(b)
	for _, name := range strings.Fields(string(names)) {
		if skip != nil && skip.MatchString(name) {
			continue
		}
		x := &test{name: name, entries: make(map[int]bool)}
		if err := t.witness(ctx, b, x); err != nil {
			return err
		}
		b.tests = append(b.tests, x)
	}
	slices.SortStableFunc(b.tests, func(x, y *test) int { return cmp.Compare(x.took, y.took) })
	return nil
}

// skipped returns the expression of the tests that are left out, or nil.
func (t *packageTests) skipped(b *binary) *regexp.Regexp {
	i := slices.IndexFunc(targets, func(x target) bool { return x.dir == b.dir })
	if t.slow || i < 0 || targets[i].slow == "" {
		return nil
	}
	return regexp.MustCompile(targets[i].slow)
}

// witness runs one test without a mutant.
func (t *packageTests) witness(ctx context.Context, b *binary, x *test) error {
	file := filepath.Join(t.tmp, "reached")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		return err
	}
	cmd := t.command(ctx, b, []*test{x}, witness+"="+file, "-test.timeout=20m")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s of %s fails without a mutant: %v\n%s", x.name, b.dir, err, tail(out))
	}
	for line := range strings.Lines(string(out)) {
		if m := passed.FindStringSubmatch(line); m != nil {
			x.took, _ = time.ParseDuration(m[1] + "s")
		}
	}
	reached, err := os.ReadFile(file)
	for _, field := range strings.Fields(string(reached)) {
		n, wrong := strconv.Atoi(field)
		err = errors.Join(err, wrong)
		x.entries[n] = true
	}
	return err
}

// calling returns the tests that call the function of that number, or all for 0.
func (b *binary) calling(entry int) (list []*test) {
	for _, x := range b.tests {
		if entry == 0 || x.entries[entry] {
			list = append(list, x)
		}
	}
	return list
}

// portions divides tests, the quick ones first, so that few of the slow ones are
// begun in vain: each portion takes a few times as long as the one before.
func portions(tests []*test) (list [][]*test) {
	for limit := time.Second; len(tests) > 0; limit *= 4 {
		n, sum := 0, time.Duration(0)
		for n < len(tests) && (n == 0 || sum+tests[n].took <= limit) {
			sum += tests[n].took
			n++
		}
		list = append(list, tests[:n])
		tests = tests[n:]
	}
	return list
}

// pattern returns the expression that is true for these tests.
func pattern(tests []*test) string {
	var names []string
	for _, x := range tests {
		names = append(names, x.name)
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// command returns the command that runs some tests, with a variable in its
// environment.
func (t *packageTests) command(ctx context.Context, b *binary, tests []*test, env string, flags ...string) *exec.Cmd {
	args := append(slices.Clone(t.exec), b.name, "-test.v", "-test.short", "-test.failfast", "-test.paniconexit0", "-test.run="+pattern(tests))
	args = append(args, flags...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(t.root, filepath.FromSlash(b.dir))
	cmd.Env = append(os.Environ(), env)
	cmd.WaitDelay = 5 * time.Second
	confine(cmd)
	return cmd
}
