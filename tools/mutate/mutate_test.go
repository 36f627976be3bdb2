package main

import (
	"context"
	"errors"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// parsed type-checks a package of one file, without imports.
func parsed(t *testing.T, body string) *pkg {
	t.Helper()
	p := &pkg{target: target{dir: "some"}, path: "some", fset: token.NewFileSet()}
	p.config = types.Config{Importer: importer.Default(), Sizes: types.SizesFor("gc", "amd64")}
	if err := p.add("/some/file.go", []byte("package some\n\n"+body+"\n")); err != nil {
		t.Fatal(err)
	}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// changes returns what the lines of the mutants of a kind become.
func changes(p *pkg, kind string) (after []string) {
	for _, m := range p.mutants() {
		if m.kind == kind && p.compiles(m) {
			after = append(after, squeeze(m.after()))
		}
	}
	return after
}

func TestOperators(t *testing.T) {
	for _, test := range []struct {
		kind, body string
		want       []string
	}{
		{"boundary", "func f(a, b int) bool { return a < b }", []string{"func f(a, b int) bool { return a <= b }"}},
		{"comparison", "func f(a int) bool { return a == 1 || a > 2 }", []string{
			"func f(a int) bool { return a != 1 || a > 2 }",
			"func f(a int) bool { return a == 1 || a <= 2 }",
		}},
		{"comparison", "func f(a bool) int { if a { return 1 }; return 2 }", []string{
			"func f(a bool) int { if !(a) { return 1 }; return 2 }",
		}},
		{"logic", "func f(a, b bool) bool { return a && b }", []string{"func f(a, b bool) bool { return a || b }"}},
		{"arithmetic", "func f(a, b int) int {\na += b\na++\nreturn a - b\n}", []string{"a -= b", "a--", "return a + b"}},
		{"arithmetic", "func f(a, b string) string { a += b; return a + b }", nil},
		{"arithmetic", "func f(a, b uint) uint { return a&^b>>1 }", []string{
			"func f(a, b uint) uint { return a&^b<<1 }",
			"func f(a, b uint) uint { return a&b>>1 }",
		}},
		{"operands", "func g(int, int, string) {}\nfunc f(a, b int) int {\ng(a, b, \"\")\ng(a, a, \"\")\nreturn a - b\n}", []string{
			"g(b, a, \"\")", "return (b) - (a)",
		}},
		{"limit", "func f(a, b int) int { return min(a, b) }", []string{"func f(a, b int) int { return max(a, b) }"}},
		{"constant", "const limit = 8", []string{"const limit = 9", "const limit = 7"}},
		{"constant", "var half = 0.5\nvar yes = true", []string{"var half = (2 * 0.5)", "var yes = false"}},
		{"constant", "func f(a []int) []int { return make([]int, 1, 100) }", []string{
			"func f(a []int) []int { return make([]int, 2, 100) }",
			"func f(a []int) []int { return make([]int, 0, 100) }",
		}},
		{"constant", "func f(a bool) (int, bool) { return 0, false }", []string{"func f(a bool) (int, bool) { return 0, true }"}},
		{"constant", "func f(a int) { if a != 0 { panic(1) } }", []string{"func f(a int) { if a != 1 { panic(1) } }"}},
		{"constant", "var a [2]int\nvar b = a[0] + a[1]", []string{"var b = a[1] + a[1]", "var b = a[0] + a[0]"}},
		{"sign", "func f(a bool, b int) (bool, int) { return !a, -b }", []string{
			"func f(a bool, b int) (bool, int) { return a, -b }",
			"func f(a bool, b int) (bool, int) { return !a, b }",
		}},
		{"statement", "func g(c chan int, a int) {\ng(c, a)\na = 1\na++\nc <- 1\ndefer g(c, a)\ngo g(c, a)\npanic(1)\n}", []string{"", "", "", "", "", ""}},
		{"statement", "func f() { a := 1; _ = a }", nil},                                       // would not compile
		{"branch", "func f(a int) {\nif a > 1 {\na := 2\n_ = a\n}\n}", []string{"if a > 1 {"}}, // its line ends there
		{"branch", "func f(a int) int {\nif a > 1 { return 1 } else { a = 2 }\nreturn a\n}", []string{"if a > 1 { } else { a = 2 }"}},
		{"branch", "func f(a int) int {\nswitch a {\ncase 1: return 2\n}\nreturn a\n}", []string{"case 1:"}},
		{"loop", "func f(a int) {\nfor a > 1 {\na--\n}\nfor i := range a { a = i }\n}", []string{"a-- break }", "for i := range a { a = i;break;}"}},
		{"return", "func f(a error) error { return a }", []string{"func f(a error) error { return nil }"}},
		{"return", "func f(a bool) bool { return f(a) }", []string{"func f(a bool) bool { return !(f(a)) }"}},
		{"return", "func f(a int) { a = 1; f(a) }", []string{"func f(a int) { }"}},
		{"return", "func f() func() error { return func() error { return f()() } }", []string{
			"func f() func() error { return func() error { return nil } }",
		}},
		{"jump", "func f(a int) { for { if a > 1 { break } } }", []string{"func f(a int) { for { if a > 1 { continue } } }"}},
	} {
		if got := changes(parsed(t, test.body), test.kind); !slices.Equal(got, test.want) {
			t.Errorf("%s of %s:\n got %q\nwant %q", test.kind, test.body, got, test.want)
		}
	}
}

// What makes no difference by its form alone is no mutant. What looks like it is one.
func TestIdleChanges(t *testing.T) {
	for _, test := range []struct {
		kind, body string
		want       int // mutants of that kind
	}{
		{"constant", "var _ = [1]struct{}{}[len(\"x\")-1]", 0},
		{"constant", "const _, _ = 3, uint8(4)", 0},
		{"constant", "var a, _ = 3, 4", 4},
		{"constant", "func f(int) int { return 0 }\nvar _ = f(3)", 3}, // it is called: 0 to 1, 3 to 4 and 2
		{"constant", "func f(c chan [2]int) { var _ = (<-c)[1] }", 1},
		{"constant", "var c chan int\nvar _ = -<-c + 3", 2},

		{"operands", "func abs(x int) int { return max(x, -x) }\nfunc f(a, b int) int { return abs(a - b) + abs((b - a)) }", 0},
		{"operands", "type T struct{}\nfunc (T) Abs(x float64) float64 { return x }\nfunc f(t T, a, b float64) float64 { return t.Abs(a - b) }", 0},
		{"operands", "func abs(x int) int { return max(x, -x) }\nfunc f(a, b int) int { return abs(a - b - 1) }", 1}, // a - b in it
		{"operands", "func rel(x int) int { return x }\nfunc f(a, b int) int { return rel(a - b) }", 1},

		{"boundary", "func f(a, b int) int { if a < b { b = a }; return b }", 0},
		{"boundary", "func f(a, b int) int { if a < b { a = b }; return a }", 0},
		{"boundary", "func f(a, b int) int { if b >= a { b = a }; return b }", 0},
		{"boundary", "type T struct{ a, b []int64 }\nfunc f(t T) { if t.b[0] == 0 || t.a[1] < t.b[0] { t.b[0] = t.a[1] } }", 0},
		{"boundary", "func f(a, b int) int { if (b > 7 || a > b) && b != 0 { b = a }; return b }", 1}, // b > 7
		{"boundary", "func f(a uint8, b int) int { if b > int(a) { b = int(a) }; return b }", 0},
		{"boundary", "func f(a, b float64) float64 { if a < b { b = a }; return b }", 1}, // -0 and 0
		{"boundary", "func f(a, b string) string { if a < b { b = a }; return b }", 1},
		{"boundary", "func f(a, b int) int { if a < b { b = a } else { b = 7 }; return b }", 1},
		{"boundary", "func f(a, b int) int { if a < b { b = a; a = 1 }; return a + b }", 1},
		{"boundary", "func f(a, b int) int { if a < b { b = a + 1 }; return b }", 1},
		{"boundary", "func f(a, b int) int { if a < b { b += a }; return b }", 1},
		{"boundary", "func f(a, b, c int) int { if a < c { b = a }; return b }", 1},
		{"boundary", "func f(g func() int, b int) int { if g() < b { b = g() }; return b }", 1},
	} {
		if got := changes(parsed(t, test.body), test.kind); len(got) != test.want {
			t.Errorf("%s of %s: %q, want %d", test.kind, test.body, got, test.want)
		}
	}
}

// A count that goes the other way hardly ever ends, so loops keep theirs.
func TestLoopsCountOn(t *testing.T) {
	for _, m := range parsed(t, "func f(a int) (b int) { for i := 0; i < a; i++ { b += i }; return b }").mutants() {
		if strings.Contains(m.after(), "i--") {
			t.Errorf("%v", m)
		}
	}
}

const sampled = "type T int\nfunc (t *T) f(a, b int) int {\nif a < b && b > 7 {\nreturn a - b\n}\nreturn a + b\n}\nfunc g(a, b int) int { return a * b }"

// The mutants of a seed are the same after changes elsewhere, and those of
// another seed are others.
func TestDraw(t *testing.T) {
	ids := func(body string, seed uint64, n int) (ids []string) {
		for _, m := range draw(parsed(t, body).mutants(), seed, n) {
			ids = append(ids, m.id())
		}
		return ids
	}
	all := ids(sampled, 1, 0)
	if len(all) < 10 || len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
		t.Fatalf("ids = %q, want some, all different", all)
	}
	five := ids(sampled, 1, 5)
	if len(five) != 5 {
		t.Fatalf("drew %d, want 5", len(five))
	}
	if got := ids("// a line\n\n"+sampled, 1, 5); !slices.Equal(got, five) {
		t.Errorf("behind a comment: %q, want %q", got, five)
	}
	if got := ids(sampled, 2, 5); slices.Equal(got, five) {
		t.Errorf("two seeds draw the same: %q", got)
	}
}

// Lines that are the same twice in a function are two mutants.
func TestSameTwice(t *testing.T) {
	p := parsed(t, "func f(a int) {\nfor a > 1 {\nf(a)\n}\nfor a > 2 {\nf(a)\n}\n}")
	ids := make(map[string]bool)
	for _, m := range p.mutants() {
		ids[m.id()] = true
	}
	if got := len(p.mutants()); len(ids) != got {
		t.Errorf("%d ids of %d mutants", len(ids), got)
	}
}

func TestMutantString(t *testing.T) {
	p := parsed(t, sampled)
	var got string
	for _, m := range p.mutants() {
		if m.kind == "boundary" {
			got += m.String()
		}
	}
	want := "some/file.go:5: (*T).f: boundary\n\t-if a < b && b > 7 {\n\t+if a <= b && b > 7 {\n" +
		"some/file.go:5: (*T).f: boundary\n\t-if a < b && b > 7 {\n\t+if a < b && b >= 7 {\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestEquivalents(t *testing.T) {
	name := filepath.Join(t.TempDir(), "equivalent.txt")
	text := "# a comment\n\nsome (*T).f\n\t- if a < b && b > 7 {\n\t+   if a <= b && b > 7 {\n\tthe reason,\n\twith a second line\n\n" +
		"some g\n\t- if c {\n\t+ if d {\n\tfits nothing\n"
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	list, err := readEquivalents(name)
	if err != nil || len(list) != 2 || list[0].reason != "the reason, with a second line" {
		t.Fatalf("readEquivalents = %v, %v", list, err)
	}
	all := parsed(t, sampled).mutants()
	unused := list.explain(all, []target{{dir: "some"}})
	if len(unused) != 1 || unused[0].function != "g" || unused[0].line != 9 {
		t.Errorf("unused = %v, want the entry of g", unused)
	}
	explained := 0
	for _, m := range all {
		if m.verdict == explain {
			explained++
		}
	}
	if explained != 1 {
		t.Errorf("%d explained, want 1", explained)
	}
	if unused := list.explain(nil, nil); len(unused) != 2 {
		t.Errorf("%d entries of an unknown package unused, want 2", len(unused))
	}
	for _, bad := range []string{"some\n", "some f\n\treason\n", "some f\n- a\n+ b\n"} {
		write(bad)
		if _, err := readEquivalents(name); err == nil {
			t.Errorf("%q is an entry", bad)
		}
	}
}

// module makes a module of one package, with a test, and returns its package.
func module(t *testing.T) (root string, p *pkg) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module volley\n\ngo 1.26.0\n",
		"go.work":      "go 1.26.0\n\nuse .\n",
		"some/some.go": "package some\n\nfunc f(a int) (b int) {\n\tfor a > 0 {\n\t\ta--\n\t\tb += 1\n\t}\n\treturn b\n}\n\nfunc g(a int) bool { return a > 7 }\n",
		"some/some_test.go": "package some\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif f(3) != 3 {\n\t\tt.Fatal(f(3))\n\t}\n}\n\n" +
			"func TestLarge(t *testing.T) {\n\tif g(1) || !g(9) {\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := loadPackages(t.Context(), root, []target{{dir: "some"}})
	if err != nil {
		t.Fatal(err)
	}
	return root, loaded[0]
}

func TestRunner(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	root, p := module(t)
	name := filepath.Join(root, "results")
	var sample []*mutant
	for _, m := range p.mutants() {
		if m.kind == "boundary" || m.kind == "comparison" && m.line == 11 || m.kind == "arithmetic" && m.line == 6 {
			sample = append(sample, m)
		}
	}
	want := []verdict{killed, killed, survived, killed} // a turn too many, b -= 1, g(7), g
	runSample := func(ctx context.Context, again bool) error {
		for _, m := range sample {
			m.verdict = pending
		}
		r := &runner{root: root, out: io.Discard}
		if err := r.open(name, again); err != nil {
			t.Fatal(err)
		}
		defer r.close()
		return r.runAll(ctx, sample)
	}
	check := func(when string) {
		t.Helper()
		for i, m := range sample {
			if i >= len(want) || m.verdict != want[i] {
				t.Errorf("%s: %s by %q: %v", when, m.verdict, m.by, m)
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := runSample(ended, false); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := runSample(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	check("at first")
	if sample[1].by != "some TestSum" || sample[3].by != "some TestLarge" {
		t.Errorf("killed by %q and %q", sample[1].by, sample[3].by)
	}
	ended, cancel = context.WithCancel(t.Context())
	cancel()
	if err := runSample(ended, false); err != nil {
		t.Errorf("known results were run again: %v", err)
	}
	check("known")
	test := filepath.Join(root, "some", "more_test.go")
	more := "package some\n\nimport \"testing\"\n\nfunc TestBounds(t *testing.T) {\n\tif g(7) {\n\t\tt.Fatal()\n\t}\n}\n"
	if err := os.WriteFile(test, []byte(more), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := runSample(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	want = []verdict{killed, killed, killed, killed}
	check("again")
	var out strings.Builder
	if percent := report(&out, sample); percent != 100 || !strings.Contains(out.String(), "100.0 %") {
		t.Errorf("report = %v\n%s", percent, &out)
	}
	if err := os.WriteFile(test, []byte(strings.Replace(more, "g(7)", "g(8)", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	os.Remove(name)
	if err := runSample(t.Context(), false); err == nil {
		t.Error("mutants were run with tests that fail without them")
	}
}

// A mutant is run with the tests that call its function, and one outside of
// functions with all.
func TestStudy(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	root, p := module(t)
	all := p.mutants()
	tmp := t.TempDir()
	tests := &packageTests{runner: &runner{root: root, out: io.Discard}, tmp: tmp, binaries: make(map[string]*binary)}
	var err error
	if tests.batch, err = newBatch(tmp, p, all); err != nil {
		t.Fatal(err)
	}
	b, err := tests.binary(t.Context(), "some")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		want := map[string]string{"f": "^(TestSum)$", "g": "^(TestLarge)$"}[m.function]
		if got := pattern(b.calling(tests.batch.entries[tests.batch.numbers[m]])); got != want {
			t.Errorf("runs %s, want %s, with %v", got, want, m)
		}
	}
	if got := b.calling(0); len(got) != 2 {
		t.Errorf("%d tests with a constant, want 2", len(got))
	}
}

func TestPortions(t *testing.T) {
	var tests []*test
	for _, ms := range []int{100, 200, 700, 1500, 2500, 60_000, 70_000} {
		tests = append(tests, &test{took: time.Duration(ms) * time.Millisecond})
	}
	var got []int
	for _, portion := range portions(tests) {
		got = append(got, len(portion))
	}
	if want := []int{3, 2, 1, 1}; !slices.Equal(got, want) { // up to 1 s, 4 s, 16 s and 64 s
		t.Errorf("portions of %v tests, want %v", got, want)
	}
}

// Tests that do not end any more are stopped.
func TestWatch(t *testing.T) {
	in, out := io.Pipe()
	go io.WriteString(out, "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n")
	last, hung := watch(in, time.Millisecond, func() { out.Close() })
	if last != "TestB" || !hung {
		t.Errorf("watch = %s, %v, want TestB, true", last, hung)
	}
	text := "=== RUN   TestA\n=== RUN   TestA/part\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/part (0.00s)\n=== RUN   TestB\n"
	if last, hung := watch(strings.NewReader(text), time.Hour, nil); last != "TestA" || hung {
		t.Errorf("watch = %s, %v, want TestA, false", last, hung)
	}
}

func TestReport(t *testing.T) {
	p := parsed(t, sampled)
	all := p.mutants()[:4]
	for i, v := range []verdict{killed, survived, explain, stuck} {
		all[i].verdict = v
	}
	var out strings.Builder
	if percent := report(&out, all); percent != 75 {
		t.Errorf("report = %v, want 75", percent)
	}
	if strings.Count(out.String(), "SURVIVED") != 1 || !strings.Contains(out.String(), all[1].String()) {
		t.Errorf("report:\n%s", &out)
	}
}

// The targets are there, and the command draws from all of them.
func TestTargets(t *testing.T) {
	var out, progress strings.Builder
	code, err := run(t.Context(), []string{"-list", "-n", "30"}, &out, &progress)
	if code != 0 || err != nil {
		t.Fatalf("run = %d, %v", code, err)
	}
	if got := strings.Count(out.String(), "\n\t-"); got < 30 {
		t.Errorf("%d mutants, want 30:\n%s", got, &out)
	}
	if progress.Len() > 0 {
		t.Errorf("%s", &progress)
	}
	for _, args := range [][]string{{"-n", "-1"}, {"./none"}, {"-what"}} {
		if code, err := run(t.Context(), args, io.Discard, io.Discard); code != 2 || err == nil {
			t.Errorf("run(%q) = %d, %v, want 2 and an error", args, code, err)
		}
	}
}
