package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"volley/secure"
	"volley/simnet"
)

// demo runs a server, and a client behind a router. The router forgets the client, and later the
// server is restarted.
func demo(ctx context.Context, address string, out io.Writer) error {
	// The proxy is the router. Sessions pass it, and requests for tokens do not.
	router, err := simnet.NewProxy(simnet.ProxyConfig{Target: address})
	if err != nil {
		return err
	}
	defer router.Close()
	dir, err := os.MkdirTemp("", "roaming")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lc := &secure.ListenConfig{
		KeyFile: filepath.Join(dir, "server.key"), // with another key it were another server
		Public:  router.Addr().AddrPort(),
	}
	s, err := start(lc, address)
	if err != nil {
		return err
	}
	defer func() { s.Close() }()

	ctx, cancel := context.WithCancel(ctx)
	cl := &client{out: &lines{out: out}, seen: make(chan struct{}, 100)}
	left := make(chan error, 1)
	go func() { left <- cl.roam(ctx, s.URL("127.0.0.1")) }()
	defer func() {
		cancel()
		<-left
	}()
	for _, happen := range []func() error{
		func() error { return nil },
		func() error {
			fmt.Fprintln(cl.out, "-- the router forgets the client")
			return router.Rebind()
		},
		func() error {
			fmt.Fprintln(cl.out, "-- the server is restarted")
			s.stop()
			again, err := start(lc, address)
			if err == nil {
				s = again
			}
			return err
		},
	} {
		if err := happen(); err != nil {
			return err
		}
		select {
		case <-cl.seen: // by now the client has what it needs to move
		case err := <-left:
			left <- nil
			return err
		}
	}
	return nil
}

// A lines is a Writer for several goroutines, each of which writes whole lines.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}
