package netcode

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

func TestIssuer(t *testing.T) {
	is := testIssuer()
	is.InternalServers = []netip.AddrPort{netip.MustParseAddrPort("192.168.0.1:9")}
	before := time.Now().Unix()
	tok, err := is.Issue(77, []byte("red team"))
	if err != nil {
		t.Fatal(err)
	}
	if tok.Info().ProtocolID != testProtocol || tok.Info().Timeout != 5*time.Second || tok.Info().Created.Unix() < before {
		t.Errorf("token = %v", tok)
	}
	if life := tok.Info().Expires.Sub(tok.Info().Created); life != 30*time.Second {
		t.Errorf("lifetime = %v, want 30 s", life)
	}
	if s := tok.Info().Servers; len(s) != 1 || s[0] != testServerAddr {
		t.Errorf("servers = %v", s)
	}
	c, err := tok.Claims(testKey)
	if err != nil {
		t.Fatal(err)
	}
	if c.ClientID != 77 || string(c.UserData[:9]) != "red team\x00" || c.Timeout != 5*time.Second || c.Servers[0] != is.InternalServers[0] {
		t.Errorf("claims = %+v", c)
	}
	if _, err := tok.Claims(Key{9}); err == nil || !strings.Contains(err.Error(), "does not open") {
		t.Errorf("claims with another key: %v", err)
	}
	other, _ := is.Issue(77, nil)
	if other.nonce == tok.nonce || other.clientKey == tok.clientKey || other.serverKey == tok.serverKey {
		t.Error("two tokens share random numbers")
	}
}

func TestIssuerDurations(t *testing.T) {
	for _, test := range []struct {
		lifetime, timeout         time.Duration
		wantLifetime, wantTimeout time.Duration
	}{
		{0, 0, 30 * time.Second, 10 * time.Second},
		{time.Minute, 1500 * time.Millisecond, time.Minute, 2 * time.Second},
		{-1, -1, 0, 0},
	} {
		is := testIssuer()
		is.Lifetime, is.Timeout = test.lifetime, test.timeout
		tok, err := is.Issue(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tok.lifetime() != test.wantLifetime || tok.Info().Timeout != test.wantTimeout {
			t.Errorf("%v, %v: lifetime %v, timeout %v", test.lifetime, test.timeout, tok.lifetime(), tok.Info().Timeout)
		}
		if tok.Info().Expires.IsZero() != (test.lifetime < 0) {
			t.Errorf("%v: expires %v", test.lifetime, tok.Info().Expires)
		}
	}
}

func TestIssuerErrors(t *testing.T) {
	addrs := func(n int) []netip.AddrPort { return make([]netip.AddrPort, n) }
	for want, change := range map[string]func(*Issuer){
		"PrivateKey": func(is *Issuer) { is.PrivateKey = Key{} },
		"Issuer.Servers: the number of addresses, 0,":  func(is *Issuer) { is.Servers = nil },
		"Issuer.Servers: the number of addresses, 33,": func(is *Issuer) { is.Servers = addrs(33) },
		"Issuer.InternalServers: it has 2":             func(is *Issuer) { is.InternalServers = addrs(2) },
		"Servers: invalid":                             func(is *Issuer) { is.Servers = addrs(1) },
		"InternalServers: [fe80::1%x]:":                func(is *Issuer) { is.InternalServers = []netip.AddrPort{netip.MustParseAddrPort("[fe80::1%x]:1")} },
	} {
		is := testIssuer()
		change(is)
		var ce *ConfigError
		if _, err := is.Issue(1, nil); !errors.As(err, &ce) || !strings.Contains(err.Error(), want) {
			t.Errorf("Issue: %v, want a *ConfigError with %q", err, want)
		}
	}
	if _, err := testIssuer().Issue(1, make([]byte, 257)); err == nil || !strings.Contains(err.Error(), "257") {
		t.Errorf("Issue with 257 bytes of user data: %v", err)
	}
}

// TestTokenMissing: a Token that nothing was read into is not a token that has
// expired.
func TestTokenMissing(t *testing.T) {
	for tok, want := range map[*Token]string{nil: "it is nil", {}: "number of servers"} {
		_, err := new(Dialer).Dial(t.Context(), tok)
		var te *TokenError
		if !errors.As(err, &te) || !strings.Contains(err.Error(), want) {
			t.Errorf("new(Dialer).Dial(%p) = %v, want a *TokenError that says %q", tok, err, want)
		}
	}
}

func TestTokenJSON(t *testing.T) {
	tok, _ := testIssuer().Issue(1, nil)
	type answer struct{ Token *Token }
	b, err := json.Marshal(answer{tok})
	if err != nil {
		t.Fatal(err)
	}
	var back answer
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	x, _ := tok.MarshalBinary()
	y, _ := back.Token.MarshalBinary()
	if string(x) != string(y) {
		t.Error("token changed in JSON")
	}
}

// TestSecretsDoNotPrint: no verb and no logger shows a key.
func TestSecretsDoNotPrint(t *testing.T) {
	k := GenerateKey()
	secret, _ := k.MarshalText()
	tok, _ := testIssuer().issue(testStart, 1, nil, k, k, randomNonce())
	var log strings.Builder
	l := slog.New(slog.NewJSONHandler(&log, nil))
	l.Info("x", "key", k, "token", tok)
	texts := []string{log.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d", "%t"} {
		texts = append(texts, fmt.Sprintf(verb, k), fmt.Sprintf(verb, tok))
	}
	raw := strings.Trim(fmt.Sprint(k[:]), "[]")
	for _, s := range texts {
		if strings.Contains(s, string(secret)) || strings.Contains(s, raw) {
			t.Errorf("a key shows in %.200q", s)
		}
	}
}

func TestParseKey(t *testing.T) {
	k := GenerateKey()
	text, _ := k.MarshalText()
	if back, err := ParseKey(string(text)); err != nil || back != k {
		t.Errorf("ParseKey(%s) = %v, %v", text, back, err)
	}
	for _, s := range []string{"", "00", string(text) + "00", strings.Repeat("x", 64)} {
		if _, err := ParseKey(s); err == nil {
			t.Errorf("ParseKey(%q) succeeds", s)
		}
	}
}

func TestDropLabels(t *testing.T) {
	seen := make(map[string]bool)
	for r := range numDropReasons {
		if s := r.String(); s == "" || seen[s] {
			t.Errorf("reason %d is called %q", r, s)
		} else {
			seen[s] = true
		}
	}
	require.Equal(t, "state", dropState.String())
	require.Equal(t, "protocol_id", dropProtocolID.String())
	require.Equal(t, "server_full", dropServerFull.String())
	require.Equal(t, "flood", dropFlood.String())
}

// TestTokenWithoutALifetime: a token that expires as it is created is over at the
// next moment; it does not last forever.
func TestTokenWithoutALifetime(t *testing.T) {
	tok := issueAt(t, testStart, 1)
	tok.expires = tok.created
	b, err := tok.MarshalBinary()
	require.NoError(t, err)
	tok, err = parseToken(b)
	require.NoError(t, err)
	c := newTestClient(testStart, tok)
	var out wire.Batch
	require.Equal(t, testStart.Add(1), c.advance(testStart, &out))
	require.Equal(t, 1, out.Len())
	require.Equal(t, stateRequesting, c.state)
	require.Zero(t, c.advance(testStart.Add(1), &out))
	require.Equal(t, stateTokenExpired, c.state)
}
