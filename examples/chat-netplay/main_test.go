package main

import (
	"bufio"
	"context"
	"flag"
	"io"
	"net"
	"strings"
	"testing"

	"volley/netplay"
)

// A person is a client with a terminal that the test sits at.
type person struct {
	t     *testing.T
	keys  *io.PipeWriter
	lines *bufio.Scanner
	left  chan error
}

func newPerson(t *testing.T, address, name string) *person {
	in, keys := io.Pipe()
	screen, out := io.Pipe()
	p := &person{t, keys, bufio.NewScanner(screen), make(chan error, 1)}
	go func() {
		p.left <- chat(t.Context(), address, name, in, out)
		out.Close()
		in.Close()
	}()
	return p
}

func (p *person) types(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.keys, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// sees checks the lines that come next.
func (p *person) sees(want ...string) {
	p.t.Helper()
	for _, w := range want {
		if !p.lines.Scan() || p.lines.Text() != w {
			p.t.Fatalf("the screen shows %q, want %q", p.lines.Text(), w)
		}
	}
}

// leaves checks that the chat has ended.
func (p *person) leaves() {
	p.t.Helper()
	if p.lines.Scan() {
		p.t.Errorf("the screen shows %q, want nothing more", p.lines.Text())
	}
	if err := <-p.left; err != nil {
		p.t.Errorf("chat: %v", err)
	}
}

func TestChat(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln, nil) }()

	// Who has not logged in is not heard.
	stranger, err := netplay.Dial("tcp", address, registry())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if err := stranger.WriteBatch(context.Background(), &Chat{"ann", "hear me"}, &Login{""}); err != nil {
		t.Fatal(err)
	}
	if m, err := stranger.ReadMessage(context.Background()); err != nil || *m.(*Notification) != (Notification{"a name is needed"}) {
		t.Fatalf("ReadMessage() = %v, %v", m, err)
	}

	ann := newPerson(t, address, "ann")
	ann.sees("* ann has joined")
	bob := newPerson(t, address, "bob")
	bob.sees("* bob has joined")
	ann.sees("* bob has joined")

	second := newPerson(t, address, "ann")
	second.sees("* the name ann is in use")
	second.leaves()

	ann.types("hi")
	bob.sees("ann: hi")
	ann.sees("ann: hi")
	long := strings.Repeat("all work and no play ", 200) // fits when it is compressed
	bob.types(long)
	ann.sees("bob: " + long)
	bob.sees("bob: " + long)

	bob.keys.Close() // Ctrl-D
	bob.leaves()
	ann.sees("* bob has left")

	stop()
	ann.leaves() // the server closes
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
	for _, way := range []string{"chat-netplay -listen 127.0.0.1:8080", "chat-netplay -name ann 127.0.0.1:8080"} {
		if !strings.Contains(out.String(), "\n  "+way) {
			t.Errorf("usage %q, want %q in it", &out, way)
		}
	}
}
