package secure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	pinA = "ungwv47bz6pbqzqjccmhvkhvkt2fp3sb3qyzdhmpcpjjwxqyw3ea"
	pinB = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" // 256 zero bits
)

func TestParseURL(t *testing.T) {
	for _, test := range []struct {
		in, out, token string
		pins           []string
	}{
		{in: "volley://game.example:7000#" + pinA, token: "https://game.example:7000/.well-known/volley", pins: []string{pinA}},
		{in: "volley://game.example", out: "volley://game.example:7777", token: "https://game.example:7777/.well-known/volley"},
		{in: "VOLLEY://game.example/", out: "volley://game.example:7777"},
		{in: "volley://192.0.2.1:1#" + pinA + "," + pinB, pins: []string{pinA, pinB}},
		{in: "volley://[2001:db8::1]#" + pinB, out: "volley://[2001:db8::1]:7777#" + pinB, pins: []string{pinB}},
		{in: "volley://[::1]:65535", token: "https://[::1]:65535/.well-known/volley"},
		{in: "volley://[fe80::1%25eth0]:7777", token: "https://[fe80::1%25eth0]:7777/.well-known/volley"},
		{in: "https://play.example/join?v=2", token: "https://play.example/join?v=2"},
		{in: "https://play.example:8443/join#" + pinA, token: "https://play.example:8443/join", pins: []string{pinA}},
	} {
		a, err := parseURL(test.in)
		require.NoError(t, err, test.in)
		require.Equal(t, orDefault(test.out, test.in), a.String())
		if test.token != "" {
			require.Equal(t, test.token, a.tokenURL())
		}
		require.Len(t, a.pins, len(test.pins), test.in)
		for i, p := range test.pins {
			require.Equal(t, p, a.pins[i].String())
			require.True(t, a.pinned(a.pins[i]))
		}
		require.False(t, a.pinned(pin{1}))
	}
}

func TestParseURLRefuses(t *testing.T) {
	const cut = "was the URL cut short?"
	for in, want := range map[string]string{
		"":                                       "it must begin with volley:// or https://",
		"game.example:7777":                      "it must begin with volley:// or https://",
		"192.0.2.1:7777":                         "it must begin with volley:// or https://",
		"http://game.example":                    "it must begin with volley:// or https://",
		"volley://":                              "it has no host",
		"volley://:7777":                         "it has no host",
		"volley:///join":                         "it has no host",
		"volley:game.example":                    "it must begin with volley:// or https://",
		"volley://game.example:":                 "the port is missing behind the colon",
		"volley://game.example:0":                "the port must be from 1 to 65535",
		"volley://game.example:65536":            "the port must be from 1 to 65535",
		"https://game.example:99999999999999999": "the port must be from 1 to 65535",
		"volley://game.example:http":             "invalid port",
		"volley://[::1":                          "missing ']' in host",
		"volley://game.example ":                 "invalid character",
		"volley://game.example\n":                "invalid control character",
		"volley://game.example/join":             "a volley URL has no path",
		"volley://game.example?":                 "a volley URL has no query",
		"volley://game.example?a=b":              "a volley URL has no query",
		"volley://eve@game.example":              "it must not have a user name or a password",
		"https://eve:secret@game.example/join":   "it must not have a user name or a password",
		"volley://" + strings.Repeat("a", 3000):  "it is longer than 2048 bytes",
		"volley://game.example#" + strings.Repeat(pinA+",", 8) + pinA: "it has more than 8 pins",

		// No part of a fragment is ignored, and none means that CAs decide.
		"volley://game.example#":                         cut,
		"https://play.example/join#":                     cut,
		"volley://game.example#" + pinA[:51]:             cut,
		"volley://game.example#" + pinA + "a":            cut,
		"volley://game.example#" + pinA + ",":            cut,
		"volley://game.example#," + pinA:                 cut,
		"volley://game.example#" + pinA + "," + pinB[1:]: cut,
		"volley://game.example#" + pinA + "#" + pinB:     cut,
		"volley://game.example#" + strings.ToUpper(pinA): cut,
		"volley://game.example#" + pinA[:50] + "1a":      cut, // 1 is not in base32
		"volley://game.example#" + pinA[:50] + "\r\n":    cut,
		"volley://game.example#" + pinB[:51] + "b":       cut, // a bit beyond the 256
		"volley://game.example# " + pinA[1:]:             cut,
		"volley://game.example#%75" + pinA[3:]:           cut,
	} {
		a, err := parseURL(in)
		require.Empty(t, a, in)
		var failed *urlError
		require.ErrorAs(t, err, &failed, in)
		require.ErrorContains(t, err, want, in)
		require.NotContains(t, err.Error(), "secret", "an error must not show a password")
	}
	_, err := parseURL("volley://::1:7777")
	require.ErrorAs(t, err, new(*urlError))
}

// FuzzParseURL checks that a URL is read as it is written, and that a fragment is
// never ignored.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{
		"volley://game.example:7777#" + pinA + "," + pinB, "volley://[fe80::1%25eth0]", "volley://game.example#",
		"https://play.example/join?v=%20#" + pinA, "volley://%67ame.example", "volley://a:b:c", "https://[::1]/../a;b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseURL(s)
		if err != nil {
			require.ErrorAs(t, err, new(*urlError))
			require.Empty(t, a)
			return
		}
		require.NotEmpty(t, a.url.Hostname())
		require.Equal(t, strings.Contains(s, "#"), len(a.pins) > 0)
		again, err := parseURL(a.String())
		require.NoError(t, err)
		require.Equal(t, a.String(), again.String())
		require.Equal(t, a.tokenURL(), again.tokenURL())
		require.Equal(t, a.pins, again.pins)
	})
}
