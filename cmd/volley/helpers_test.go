package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// outcome is what a command line has come to.
type outcome struct {
	status         int
	stdout, stderr string
}

// command runs a command line.
func command(ctx context.Context, stdin *os.File, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	status := run(ctx, args, stdin, &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

// count returns a figure of the summary, or -1.
func (o outcome) count(name string) int {
	m := regexp.MustCompile(`(?m)^` + name + ` +(\d+)`).FindStringSubmatch(o.stdout)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// wantCounts checks figures of the summary.
func (o outcome) wantCounts(t *testing.T, want map[string]int) {
	t.Helper()
	for name, n := range want {
		if got := o.count(name); got != n {
			t.Errorf("%s = %d, want %d; output:\n%s%s", name, got, n, o.stdout, o.stderr)
		}
	}
}

// file returns an open file with the given content.
func file(t *testing.T, content string) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, name)
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// devNull returns standard input that has nothing to say.
func devNull(t *testing.T) *os.File { return open(t, os.DevNull) }
