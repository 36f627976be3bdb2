package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"volley/riptide"
)

// A notebook is what a client prints. Waiting for a line is possible.
type notebook struct {
	mu    sync.Mutex
	text  strings.Builder
	wrote chan struct{}
}

func newNotebook() *notebook { return &notebook{wrote: make(chan struct{}, 1)} }

func (n *notebook) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case n.wrote <- struct{}{}:
	default:
	}
	return n.text.Write(b)
}

func (n *notebook) await(t *testing.T, want string) {
	t.Helper()
	patience := time.After(20 * time.Second)
	for {
		n.mu.Lock()
		text := n.text.String()
		n.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-n.wrote:
		case <-patience:
			t.Fatalf("output %q, want %q in it", text, want)
		}
	}
}

// samePort listens for datagrams and for streams on one port.
func samePort(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for tries := 0; ; tries++ {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", pc.LocalAddr().String())
		if err == nil {
			return pc, l
		}
		pc.Close()
		if tries == 20 { // each time the port was somebody else's
			t.Fatal(err)
		}
	}
}

func TestArena(t *testing.T) {
	pc, l := samePort(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- newArena(slog.New(slog.DiscardHandler)).serve(ctx, pc, l) }()
	address := pc.LocalAddr().String()

	ada, grace := newNotebook(), newNotebook()
	adaIn, adaKeys := io.Pipe()
	graceIn, graceKeys := io.Pipe()
	var players sync.WaitGroup
	players.Go(func() {
		if err := play(t.Context(), "udp", address, "ada", adaIn, ada); err != nil {
			t.Error(err)
		}
	})
	ada.await(t, "connected as player 1")
	players.Go(func() {
		if err := play(t.Context(), "tcp", address, "grace", graceIn, grace); err != nil {
			t.Error(err)
		}
	})
	grace.await(t, "ada is here")
	ada.await(t, "grace is here")
	io.WriteString(graceKeys, "hello\n")
	ada.await(t, "> grace: hello")
	graceKeys.Close()
	ada.await(t, "grace has gone")

	out := newNotebook()
	if err := swarm(t.Context(), "udp", address, 3, 300*time.Millisecond, out); err != nil {
		t.Error(err)
	}
	out.await(t, "3 bots sent")

	old := &riptide.Client{Data: riptide.NewData()}
	old.Data.AddString("arena 0")
	err := old.Connect(t.Context(), "udp", address)
	if ce, ok := errors.AsType[*riptide.DisconnectError](err); !ok || ce.Data.ReadString() != "this server speaks arena 1" {
		t.Errorf("another version: %v", err)
	}
	adaKeys.Close()
	players.Wait()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Who gives no arguments is shown the ways to run the program.
func TestUsage(t *testing.T) {
	var out strings.Builder
	flag.CommandLine.SetOutput(&out)
	defer flag.CommandLine.SetOutput(nil)
	usage()
	for _, way := range []string{"riptide -listen 127.0.0.1:7777", "riptide -name ada 127.0.0.1:7777", "riptide -bots 50 -for 10s 127.0.0.1:7777"} {
		if !strings.Contains(out.String(), "\n  "+way) {
			t.Errorf("usage %q, want %q in it", &out, way)
		}
	}
}
