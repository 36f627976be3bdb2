// Command mutate measures the tests of this module. It makes small changes to the
// source, one at a time, such as < for <=, or a statement left out. For each it runs
// the package's tests that call the changed function, the quick ones first. A mutant
// without a failing test has survived, and shows a rule without a test.
//
//	go run ./tools/mutate                         a sample of 300 of all mutants
//	go run ./tools/mutate -seed 2                 another one
//	go run ./tools/mutate -n 0 ./internal/seq     all of one package
//	go run ./tools/mutate -n 0 -function Outbox.*Release ./internal/outbox
//	go run ./tools/mutate -results m.jsonl -for 10m
//
// The mutants of a seed stay the same where the code does: a change elsewhere
// does not draw others. The last form stops after ten minutes, or at an interrupt.
// When it is called again, it goes on where it was. With -again it then also runs
// survivors again, for new tests.
//
// Changes whose form alone shows that they make no difference are left out:
//
//   - in declarations of _ that only assert something to the compiler;
//   - of a-b to b-a in abs(a - b);
//   - of a < b to a <= b, or the like, in if a < b { b = a }, with integers.
//
// Other mutants without a visible difference are listed in equivalent.txt, with the
// reason. An entry there that fits no mutant is reported.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	seed     uint64
	n        int
	list     bool
	again    bool
	slow     bool
	min      float64
	duration time.Duration
	results  string
	exec     string
	function *regexp.Regexp
	packages []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	os.Exit(code)
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("mutate", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Uint64Var(&o.seed, "seed", 1, "which sample is drawn")
	f.IntVar(&o.n, "n", 300, "mutants in the sample; 0 for all there are")
	f.BoolVar(&o.list, "list", false, "print the sample and run nothing")
	f.BoolVar(&o.again, "again", false, "run those of the results again that have survived")
	f.BoolVar(&o.slow, "slow", false, "run those tests, too, that take seconds")
	f.Float64Var(&o.min, "min", 95, "percentage that has to be killed or explained for an exit status of 0")
	f.DurationVar(&o.duration, "for", 0, "stop after this time, as at an interrupt; 0 for never")
	f.StringVar(&o.results, "results", "", "file that keeps the results, from which the next call goes on")
	function := f.String("function", "", "regular expression of the functions and constants to change, such as Endpoint.*Send")
	f.StringVar(&o.exec, "exec", "", "command that runs the tests, which are its arguments, as nice does")
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: go run ./tools/mutate [flags] [packages]")
		f.PrintDefaults()
		fmt.Fprintln(stderr, "packages:", strings.Join(targetNames(), " "))
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.packages = f.Args()
	if o.n < 0 {
		return o, errors.New("-n is negative")
	}
	o.function, err = regexp.Compile(*function)
	return o, err
}

// run returns the exit status: 0 if enough of the sample is killed or explained,
// 1 if not, and 2 for a run that did not get so far.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	o, err := parse(args, stderr)
	if err != nil {
		return 2, err
	}
	root, err := findRoot()
	if err != nil {
		return 2, err
	}
	picked, err := pickTargets(o.packages)
	if err != nil {
		return 2, err
	}
	loaded, err := loadPackages(ctx, root, picked)
	if err != nil {
		return 2, err
	}
	known, err := readEquivalents(filepath.Join(root, "tools", "mutate", "equivalent.txt"))
	if err != nil {
		return 2, err
	}
	var all []*mutant
	for _, p := range loaded {
		all = append(all, p.mutants()...)
	}
	for _, e := range known.explain(all, picked) {
		fmt.Fprintf(stderr, "equivalent.txt:%d: no mutant of %s %s fits this entry\n", e.line, e.pkg, e.function)
	}
	all = slices.DeleteFunc(all, func(m *mutant) bool { return !o.function.MatchString(m.function) })
	sample := draw(all, o.seed, o.n)
	if o.list {
		for _, m := range sample {
			fmt.Fprint(stdout, m)
		}
		return 0, nil
	}
	r := &runner{root: root, out: stderr, exec: strings.Fields(o.exec), slow: o.slow}
	if err := r.open(o.results, o.again); err != nil {
		return 2, err
	}
	defer r.close()
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	err = r.runAll(ctx, sample)
	if err != nil && ctx.Err() == nil {
		return 2, err
	}
	if percent := report(stdout, sample); percent < o.min {
		return 1, nil
	}
	return 0, nil
}

// findRoot returns the folder of the workspace, which is this one or one above.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.work here or above")
		}
		dir = up
	}
}

// pickTargets returns the targets of these names, or all.
func pickTargets(names []string) ([]target, error) {
	if len(names) == 0 {
		return targets, nil
	}
	var picked []target
	for _, name := range names {
		name = filepath.ToSlash(filepath.Clean(name))
		i := slices.IndexFunc(targets, func(t target) bool { return t.dir == name })
		if i < 0 {
			return nil, fmt.Errorf("%s is none of: %s", name, strings.Join(targetNames(), " "))
		}
		picked = append(picked, targets[i])
	}
	return picked, nil
}
