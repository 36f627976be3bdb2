package main

import (
	"context"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/porous"
)

func TestRendezvous(t *testing.T) {
	l, err := porous.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l) }()

	type result struct {
		c   *porous.Conn
		err error
	}
	results := make(chan result)
	for range 2 {
		go func() {
			c, err := meet(t.Context(), "127.0.0.1:0", l.Addr().String(), "blue")
			results <- result{c, err}
		}()
	}
	a, b := <-results, <-results
	require.NoError(t, a.err)
	require.NoError(t, b.err)
	require.Equal(t, a.c.LocalAddr().String(), b.c.RemoteAddr().String())
	require.Equal(t, b.c.LocalAddr().String(), a.c.RemoteAddr().String())

	var heard strings.Builder
	done := make(chan error)
	quiet, end := io.Pipe()
	go func() { done <- talk(a.c, strings.NewReader("one\ntwo\n"), io.Discard) }()
	require.NoError(t, talk(b.c, quiet, &heard))
	require.NoError(t, <-done)
	end.Close()
	require.Equal(t, "one\ntwo\n", heard.String())
	a.c.Abort()
	b.c.Abort()
	stop()
	require.NoError(t, <-served)
}

// Who gives no arguments is shown the ways to run the program.
func TestUsage(t *testing.T) {
	var out strings.Builder
	flag.CommandLine.SetOutput(&out)
	defer flag.CommandLine.SetOutput(nil)
	usage()
	for _, way := range []string{"rendezvous -listen :7777", "rendezvous -room blue host:7777"} {
		if !strings.Contains(out.String(), "\n  "+way) {
			t.Errorf("usage %q, want %q in it", &out, way)
		}
	}
}
