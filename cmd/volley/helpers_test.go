package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
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

func with(flags []string, more ...string) []string {
	return append(append([]string(nil), flags...), more...)
}
