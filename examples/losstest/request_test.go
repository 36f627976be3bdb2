package losstest

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"volley"
	"volley/simnet"
)

// start returns a client on one end of a link, and starts a server on the
// other. It is to be called inside a bubble.
func start(t *testing.T, link simnet.Link) *Client {
	x, y := simnet.Pair(1, link, link)
	a, err := volley.NewConn(x, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := volley.NewConn(y, nil)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- Serve(b, strings.ToUpper) }()
	t.Cleanup(func() {
		a.Close()
		b.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return &Client{Conn: a, Patience: 250 * time.Millisecond, Tries: 20}
}

// A question is answered although three of ten messages get lost each way.
// That takes minutes of virtual time, and a moment of real time.
func TestAskOverLossyLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, simnet.Link{Latency: 50 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.3, Duplicate: 0.05})
		begin := time.Now()
		for range 1000 {
			if answer, err := c.Ask("ping"); answer != "PING" || err != nil {
				t.Fatalf("Ask(ping) = %q, %v, want PING", answer, err)
			}
		}
		t.Logf("1000 questions took %v", time.Since(begin))
	})
}

// On a dead link Ask gives up exactly when it should.
func TestAskGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, simnet.Link{Blackout: true})
		begin := time.Now()
		_, err := c.Ask("anybody?")
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Ask: %v, want a timeout", err)
		}
		if got, want := time.Since(begin), 5*time.Second; got != want {
			t.Errorf("Ask gave up after %v, want %v", got, want)
		}
	})
}
