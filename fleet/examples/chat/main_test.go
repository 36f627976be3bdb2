package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// freePort returns an address whose port was free in UDP and TCP.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		u, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		c, err := net.Listen("tcp", u.LocalAddr().String())
		u.Close()
		if err == nil {
			c.Close()
			return u.LocalAddr().String()
		}
	}
}

// A heard is what a visitor has heard.
type heard struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.Write(b)
}

func (h *heard) has(line string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(h.buf.String(), line+"\n")
}

// Visitors of a room hear each other, at whichever node they are, while the nodes restart one
// after the other.
func TestChat(t *testing.T) {
	for i := range size {
		clusters[i], addresses[i] = freePort(t), freePort(t)
	}
	key := filepath.Join(t.TempDir(), "key")
	start := func(number int) (url string, stop func()) {
		in, end := io.Pipe()
		ready, done := make(chan string, 1), make(chan error, 1)
		go func() { done <- serve(context.Background(), number, key, in, func(url string) { ready <- url }) }()
		select {
		case url = <-ready:
		case err := <-done:
			require.NoError(t, err)
		}
		return url, sync.OnceFunc(func() {
			end.Close()
			require.NoError(t, <-done)
		})
	}
	var urls [size]string
	var stops [size]func()
	for i := range stops {
		urls[i], stops[i] = start(i + 1)
	}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	var visits sync.WaitGroup
	defer visits.Wait()
	defer cancel()
	enter := func(node int, room, name string) (say func(string), h *heard) {
		in, out := io.Pipe()
		h = new(heard)
		visits.Go(func() {
			visit(ctx, urls[node], room, name, in, h)
			in.Close()
		})
		context.AfterFunc(ctx, func() { out.Close() })
		return func(line string) { out.Write([]byte(line + "\n")) }, h
	}
	annSays, ann := enter(0, "tea", "ann")
	bobSays, bob := enter(1, "tea", "bob")
	_, eve := enter(2, "coffee", "eve")
	exchange := func(line string) {
		t.Helper()
		// A message can be lost while its session moves, and a room that nobody has entered yet is silent.
		for end := time.Now().Add(20 * time.Second); !bob.has("ann: "+line) || !ann.has("bob: "+line); time.Sleep(50 * time.Millisecond) {
			require.True(t, time.Now().Before(end), "%q is not heard", line)
			annSays(line)
			bobSays(line)
		}
	}
	exchange("hello")
	for i := range stops {
		stops[i]()
		urls[i], stops[i] = start(i + 1)
		exchange("after a restart of " + addresses[i])
	}
	require.False(t, eve.has("ann: hello"))
}
