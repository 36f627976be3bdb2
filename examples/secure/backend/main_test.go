package main

import (
	"errors"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"volley/secure"
)

func TestBackend(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	ln, err := secure.Listen("udp", "127.0.0.1:0", &secure.ListenConfig{Backend: secret})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- serve(ln) }()
	web := httptest.NewTLSServer(newBackend(ln.URL("127.0.0.1"), secret))
	defer web.Close()
	d := &secure.Dialer{HTTP: web.Client()}
	d.HTTP.Timeout = time.Minute

	for bearer, want := range map[string]string{"ada-secret": "welcome, Ada, player 1", "alan-secret": "welcome, Alan, player 2"} {
		if welcome, err := play(t.Context(), d, web.URL+"/join", bearer); err != nil || welcome != want {
			t.Errorf("%s is told %q, %v", bearer, welcome, err)
		}
	}
	var refused *secure.RefusedError
	if _, err := play(t.Context(), d, web.URL+"/join", "a guess"); !errors.As(err, &refused) || refused.Reason != "please log in" {
		t.Errorf("a stranger is told %v", err)
	}
	if _, err := play(t.Context(), d, ln.URL("127.0.0.1"), "ada-secret"); !errors.As(err, &refused) {
		t.Errorf("the game server itself tells a player %v", err)
	}
	ln.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("serve = %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"server"}, {"player"}} {
		if err := run(args, ""); err == nil {
			t.Errorf("run(%q) = nil", args)
		}
	}
}
