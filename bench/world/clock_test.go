package world

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var clockFlag = flag.Bool("clock", false, "also run worlds whose wall clock is set while they live")

// skewSource is a package in whose place of package time the library asks for the time. The
// wall clock that it shows is set now and then: an hour ahead, back by a nanosecond, back by
// an hour; and for a while it stands. What goes on is the monotonic clock, as in a real
// process. (In a bubble, package time itself has none.) It goes back, too: by a nanosecond,
// about each second time that somebody asks. It stands while a goroutine runs, as in all bubbles.
const skewSource = `package skew

import (
	"sync/atomic"
	"time"
	"unsafe"
)

type parts struct {
	wall uint64
	ext  int64
	loc  *time.Location
}

const monotonic = 1 << 63

// since1885 is how many seconds times with a monotonic clock begin before those of Unix.
const since1885 = 2682288000

var calls atomic.Uint64

var origin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// set returns what the wall clock shows in place of a time, in nanoseconds.
func set(n int64) int64 {
	const span = int64(7 * time.Second)
	switch at := n % span; (n / span) % 6 {
	case 1:
		return n + int64(time.Hour)
	case 2:
		return n - at // it stands
	case 3:
		return n - at/1000%2 // back by a nanosecond, again and again
	case 4:
		return n - int64(time.Hour)
	}
	return n
}

func Now() time.Time {
	n := time.Now().UnixNano()
	wall := set(n)
	var t time.Time
	p := (*parts)(unsafe.Pointer(&t))
	p.wall = monotonic | uint64(wall/1e9+since1885)<<30 | uint64(wall%1e9)
	p.ext = n - origin - int64(calls.Add(1)*0x9e3779b97f4a7c15>>63)
	p.loc = time.Local
	return t
}

// at returns the present as the clock shows it that a time is by.
func at(t time.Time) time.Time {
	if (*parts)(unsafe.Pointer(&t)).wall&monotonic == 0 {
		return time.Now() // it comes from a package that was not changed
	}
	return Now()
}

func Since(t time.Time) time.Duration { return at(t).Sub(t) }
func Until(t time.Time) time.Duration { return t.Sub(at(t)) }
`

// TestClock runs worlds in which the wall clock is set. Nothing may change by that, except
// that tokens expire by it.
func TestClock(t *testing.T) {
	if !*clockFlag {
		t.Skip("builds the library anew; -clock runs it")
	}
	exe := buildSkewed(t, nil)
	out, err := exec.Command(exe, "-test.run=^TestWorld$", "-test.v", "-for=1000h", "-wall="+wallFlag.String()).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, tail(string(out), 8000))
	}
	t.Log(tail(string(out), 500))
}

// A part of the library that goes by the wall clock is found.
func TestClockPlanted(t *testing.T) {
	if !*clockFlag {
		t.Skip("builds the library anew; -clock runs it")
	}
	exe := buildSkewed(t, &planted{file: "porous/conn.go", edits: []string{"time.Since(c.born)", "time.Now().Round(0).Sub(c.born.Round(0))"}})
	out, err := exec.Command(exe, "-test.run=^TestWorld$", "-for=1000h", "-wall=60s", "-shorten=0").CombinedOutput()
	if err == nil {
		t.Errorf("no world has failed:\n%s", out)
	}
	t.Log(tail(string(out), 1500))
}

var (
	asksForTime = regexp.MustCompile(`\btime\.(Now|Since|Until)\(`)
	packageLine = regexp.MustCompile(`(?m)^package \w+$`)
)

// inRealTime are the files of this package that are no part of a world.
var inRealTime = []string{"main_test.go", "clock_test.go", "planted_test.go"}

// buildSkewed compiles the tests with the clock that is set, and perhaps a bug.
func buildSkewed(t *testing.T, bug *planted) (exe string) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	o := overlay{t: t, root: root, dir: t.TempDir(), replace: make(map[string]string)}
	o.put(filepath.Join(root, "internal", "skew", "skew.go"), skewSource)
	change := func(name string) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if bug != nil && name == filepath.Join(root, filepath.FromSlash(bug.file)) {
			text = bug.plant(t, text)
			o.put(name, text)
		}
		if asksForTime.MatchString(text) {
			at := packageLine.FindStringIndex(text)[1]
			text = text[:at] + "\n\nimport \"volley/internal/skew\"\n" + text[at:] + "\n\nvar _ = time.Now\n"
			o.put(name, asksForTime.ReplaceAllString(text, "skew.$1("))
		}
	}
	err = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != root:
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if err == nil || e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir // it is no part of the library
			}
		case filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
			change(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob(filepath.Join(root, "bench", "world", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range own {
		if !slices.Contains(inRealTime, filepath.Base(name)) {
			change(name)
		}
	}
	return o.build()
}
