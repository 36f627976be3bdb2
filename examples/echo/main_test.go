package main

import (
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	"volley"
)

func TestEcho(t *testing.T) {
	ln, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- serve(ctx, ln) }()

	var out strings.Builder
	if err := send(ln.Addr().String(), strings.NewReader("one\n\ntwo\n"), &out, 30*time.Second); err != nil {
		t.Errorf("send: %v", err)
	}
	for _, want := range []string{"one (", "two (", "sent 2, acknowledged 2, received 2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output %q, want %q in it", &out, want)
		}
	}
	c, err := volley.Dial("udp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("three")); err != nil {
		t.Fatal(err)
	}
	if answer, err := c.ReadMessage(context.Background(), nil); string(answer) != "three" {
		t.Errorf("answer %q, %v, want three", answer, err)
	}
	stop() // while a client is connected
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// Who gives no arguments is shown the ways to run the program.
func TestUsage(t *testing.T) {
	var out strings.Builder
	flag.CommandLine.SetOutput(&out)
	defer flag.CommandLine.SetOutput(nil)
	usage()
	for _, way := range []string{"echo -listen 127.0.0.1:7777", "echo 127.0.0.1:7777"} {
		if !strings.Contains(out.String(), "\n  "+way) {
			t.Errorf("usage %q, want %q in it", &out, way)
		}
	}
}
