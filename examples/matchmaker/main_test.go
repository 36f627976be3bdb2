package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"volley/netcode"
)

// TestAll plays with few players and with more than there is room for by
// default.
func TestAll(t *testing.T) {
	for _, players := range []int{5, defaultClients + 1} {
		o := &options{role: "all", game: "127.0.0.1:0", http: "127.0.0.1:0", players: players}
		if err := run(t.Context(), o); err != nil {
			t.Fatalf("%d players: %v", players, err)
		}
	}
	for _, players := range []int{0, -1} {
		if err := run(t.Context(), &options{role: "all", players: players}); err == nil || !strings.Contains(err.Error(), "-players") {
			t.Errorf("run with %d players = %v, want an error about -players", players, err)
		}
	}
}

// setUp starts a server and a matchmaker whose private key is keyOf(that of
// the server).
func setUp(t *testing.T, keyOf func(netcode.Key) netcode.Key) (url string) {
	t.Helper()
	key := netcode.GenerateKey()
	ln, err := listen("127.0.0.1:0", key, 10)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&game{number: 77}).serve(ctx, ln)
	}()
	web := httptest.NewServer(newMatchmaker(keyOf(key), netip.MustParseAddrPort(ln.Addr().String())))
	t.Cleanup(func() {
		web.Close()
		cancel()
		<-done
	})
	return web.URL
}

func same(k netcode.Key) netcode.Key { return k }

func TestPlay(t *testing.T) {
	url := setUp(t, same)
	if guesses, err := play(t.Context(), url, "ada"); err != nil || guesses != 7 {
		t.Errorf("play = %d, %v, want 7 guesses", guesses, err)
	}
}

func TestTokenIsGoodForOneSession(t *testing.T) {
	ticket, err := join(t.Context(), setUp(t, same), "ada")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := ticket.Token.MarshalText()
	var stolen netcode.Token
	if err := stolen.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	c, err := netcode.Dial(ticket.Token)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := new(netcode.Dialer).Dial(ctx, &stolen); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second use of a token: %v, want silence", err)
	}
	if _, err := netcode.Dial(ticket.Token); err != netcode.ErrTokenUsed {
		t.Errorf("the second use of a Token: %v", err)
	}
}

func TestOtherKey(t *testing.T) {
	url := setUp(t, func(netcode.Key) netcode.Key { return netcode.GenerateKey() })
	// The silence of the server takes what time is left after joining.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := play(ctx, url, "ada"); err == nil || !strings.Contains(err.Error(), "private key") {
		t.Errorf("play with a foreign token: %v", err)
	}
}

func TestJoinErrors(t *testing.T) {
	url := setUp(t, same)
	for _, name := range []string{"", strings.Repeat("x", 33)} {
		if _, err := join(t.Context(), url, name); err == nil || !strings.Contains(err.Error(), "a name has") {
			t.Errorf("join as %q: %v", name, err)
		}
	}
}

func TestAnswer(t *testing.T) {
	g := &game{number: 50}
	for guess, want := range map[string]string{"50": "50 right", "49": "49 higher", "51": "51 lower", "x": "0 what?"} {
		if got := string(g.answer([]byte(guess))); got != want {
			t.Errorf("answer(%s) = %q, want %q", guess, got, want)
		}
	}
}

func TestRoles(t *testing.T) {
	t.Setenv("MATCHMAKER_KEY", "")
	for role, want := range map[string]string{"server": "MATCHMAKER_KEY", "matchmaker": "MATCHMAKER_KEY", "nobody": "no role is called"} {
		if err := run(t.Context(), &options{role: role}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run(%s) = %v, want an error about %s", role, err, want)
		}
	}
}
