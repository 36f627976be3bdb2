package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	profile := "mode: set\n" +
		"volley/reliable/a.go:1.1,2.2 97 1\n" +
		"volley/reliable/a.go:3.1,4.2 3 0\n" +
		"volley/netcode/replay.go:1.1,2.2 1 0\n" +
		"volley/netcode/conn.go:1.1,2.2 9 0\n" +
		"volley/internal/seq/a.go:1.1,2.2 5 0\n" +
		"mode: set\n" +
		"volley/internal/seq/a.go:1.1,2.2 5 1\n" + // of another package's tests
		"volley/netcode/replay.go:1.1,2.2 1 0\n"
	var out strings.Builder
	code, err := report(&out, strings.NewReader(profile), 97, true)
	if code != 1 || err != nil {
		t.Errorf("report = %d, %v, want 1", code, err)
	}
	for _, want := range []string{
		"volley/reliable                       97 of   100 statements   97.0 %\n\tvolley/reliable/a.go:3.1,4.2\n",
		"volley/netcode                         0 of    10 statements    0.0 %\n",
		"volley/netcode, its cores              0 of     1 statements    0.0 %  below 97 %\n\tvolley/netcode/replay.go:1.1,2.2\n",
		"volley/internal/...                    5 of     5 statements  100.0 %\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if code, err := report(&out, strings.NewReader(strings.Replace(profile, "replay", "pipe", 2)), 97, false); code != 0 || err != nil {
		t.Errorf("without the core: %d, %v, want 0", code, err)
	}
	for _, bad := range []string{"", "mode: set\n", "nonsense\n", "a.go:1.1,2.2 x 1\n", "a.go:1.1,2.2 1 -1\n"} {
		if code, err := report(&out, strings.NewReader(bad), 97, false); code != 2 || err == nil {
			t.Errorf("%q: %d, %v, want 2 and an error", bad, code, err)
		}
	}
}

// The files of the core are there.
func TestNetcodeCore(t *testing.T) {
	for _, name := range netcodeCore {
		if _, err := os.Stat(filepath.Join("..", "..", "netcode", name)); err != nil {
			t.Error(err)
		}
	}
}
