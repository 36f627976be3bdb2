package main

import (
	"bufio"
	"context"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/porous"
)

// Two visitors hear each other, and know where the other one is.
func TestChat(t *testing.T) {
	l, err := (&porous.ListenConfig{Config: config()}).Listen(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l) }()

	visitor := func(name string) (say io.WriteCloser, hear *bufio.Scanner, done chan error) {
		in, say := io.Pipe()
		heard, out := io.Pipe()
		done = make(chan error, 1)
		go func() {
			done <- visit(t.Context(), l.Addr().String(), name, in, out)
			out.Close()
		}()
		return say, bufio.NewScanner(heard), done
	}
	annSays, annHears, annDone := visitor("ann")
	bobSays, bobHears, bobDone := visitor("bob")

	// Bob greets until Ann, who may not be there yet, has heard him and seen
	// where he is.
	hears := make(chan struct{})
	go func() {
		defer close(hears)
		for annHears.Scan() {
			if strings.Contains(annHears.Text(), "(bob is at ") {
				return
			}
		}
	}()
	for heard := false; !heard; {
		io.WriteString(bobSays, "hello\n")
		select {
		case <-hears:
			heard = true
		default:
		}
	}
	go io.Copy(io.Discard, readerOf(annHears))
	io.WriteString(annSays, "bye\n")
	for bobHears.Scan() && bobHears.Text() != "ann: bye" {
	}
	require.Equal(t, "ann: bye", bobHears.Text())
	go io.Copy(io.Discard, readerOf(bobHears))
	annSays.Close()
	require.NoError(t, <-annDone)
	stop()
	require.NoError(t, <-served)
	bobSays.Close()
	require.NoError(t, <-bobDone)
}

// readerOf goes on reading what a Scanner reads.
func readerOf(s *bufio.Scanner) io.Reader {
	return readerFunc(func([]byte) (int, error) {
		if s.Scan() {
			return 0, nil
		}
		return 0, io.EOF
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Who gives no arguments is shown the ways to run the program.
func TestUsage(t *testing.T) {
	var out strings.Builder
	flag.CommandLine.SetOutput(&out)
	defer flag.CommandLine.SetOutput(nil)
	usage()
	for _, way := range []string{"chat -listen 127.0.0.1:7777", "chat -name ann 127.0.0.1:7777"} {
		if !strings.Contains(out.String(), "\n  "+way) {
			t.Errorf("usage %q, want %q in it", &out, way)
		}
	}
}
