package world

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var plantedFlag = flag.Bool("planted", false, "also plant bugs into the library, which the worlds must find")

// A planted is a bug, as a change of one file: each text is replaced by the one after it.
type planted struct {
	name, file string
	edits      []string
}

var plants = []planted{
	{"a check of acks is gone", "reliable/receive.go", []string{
		"	if !taken {\n", "	if !taken && e.cfg.MaxWindow == 0 {\n"}},
	{"a timer stays behind", "internal/datagram/peer.go", []string{
		"	p.mux.timers.cancel(&p.alarm)\n", ""}},
	{"a fate is given twice", "reliable/receive.go", []string{
		"	if a.was&markLost == 0 {\n		e.out.settle(a)\n", "	if a.was&markLost == 0 {\n		e.out.settle(a)\n	}\n	{\n"}},
	{"memory is not counted", "internal/inbox/inbox.go", []string{
		"	if reserve != nil && !reserve(c.size()) {\n", "	if reserve != nil && !reserve(0) {\n",
		"		q.reserve(-n)\n", "		q.reserve(n - n)\n"}},
	{"some copies are taken", "reliable/receive.go", []string{
		"	case status == seq.Fresh:\n", "	case status == seq.Fresh || status == seq.Seen && len(payload)%256 == 77:\n"}},
	{"connections end too early", "conn_tick.go", []string{
		"now-c.lastHeard >= c.set.idleTimeout {", "now-c.lastHeard >= c.set.idleTimeout/8 {",
		"next = c.lastHeard + c.set.idleTimeout\n", "next = c.lastHeard + c.set.idleTimeout/8\n"}},
	{"nothing is taken after the inbox was full", "internal/inbox/inbox.go", []string{
		"	q.room = q.limit - q.used.Load() - q.pushed\n", ""}},
}

// TestPlanted plants bugs, one after the other. Each makes a world fail within two minutes, and
// the same world fails again in nine of ten runs.
func TestPlanted(t *testing.T) {
	if !*plantedFlag {
		t.Skip("takes minutes; -planted runs it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			exe := p.build(t, root)
			start := time.Now()
			cmd := exec.Command(exe, "-test.run=^TestWorld$", "-for=1000h", "-wall=100s", "-shorten=0")
			out, err := cmd.CombinedOutput()
			took := time.Since(start).Round(100 * time.Millisecond)
			if err == nil {
				t.Fatalf("no world has failed in %v\n%s", took, out)
			}
			if took > 2*time.Minute {
				t.Errorf("a world has failed after %v", took)
			}
			t.Logf("found in %v:\n%s", took, tail(string(out), 1500))
			seed := failedSeed.FindSubmatch(out)
			if seed == nil {
				t.Fatal("no seed is printed")
			}
			again := 0
			for range 10 {
				if exec.Command(exe, "-test.run=^TestWorld$", "-for=1s", "-shorten=0", "-seed="+string(seed[1])).Run() != nil {
					again++
				}
			}
			t.Logf("%d of 10 further runs fail", again)
			if again < 9 {
				t.Error("which are too few")
			}
		})
	}
}

var failedSeed = regexp.MustCompile(`seed ([0-9]+):`)

// build compiles the tests with the bug.
func (p planted) build(t *testing.T, root string) (exe string) {
	o := overlay{t: t, root: root, dir: t.TempDir(), replace: make(map[string]string)}
	name := filepath.Join(root, filepath.FromSlash(p.file))
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	o.put(name, p.plant(t, string(source)))
	return o.build()
}

// plant returns the text of the file with the bug.
func (p planted) plant(t *testing.T, text string) string {
	for i := 0; i < len(p.edits); i += 2 {
		if strings.Count(text, p.edits[i]) != 1 {
			t.Fatalf("%s has %d times what is to be changed:\n%s", p.file, strings.Count(text, p.edits[i]), p.edits[i])
		}
		text = strings.Replace(text, p.edits[i], p.edits[i+1], 1)
	}
	return text
}

// An overlay is a set of files that take the place of others when the tests are compiled.
type overlay struct {
	t         *testing.T
	root, dir string
	replace   map[string]string
}

// put has a file hold a text.
func (o *overlay) put(name, text string) {
	file := filepath.Join(o.dir, fmt.Sprintf("%d.go", len(o.replace)))
	if old, ok := o.replace[name]; ok {
		file = old
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.replace[name] = file
}

// build compiles the tests.
func (o *overlay) build() (exe string) {
	list, err := json.Marshal(map[string]map[string]string{"Replace": o.replace})
	if err != nil {
		o.t.Fatal(err)
	}
	file := filepath.Join(o.dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		o.t.Fatal(err)
	}
	exe = filepath.Join(o.dir, "world.test.exe")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay="+file, "-o="+exe, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		o.t.Fatalf("%v\n%s", err, out)
	}
	return exe
}
