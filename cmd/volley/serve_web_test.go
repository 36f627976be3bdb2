package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// serve --web says where browsers get in, and refuses what does not go with it.
func TestServeWeb(t *testing.T) {
	r := start(t, "serve", "127.0.0.1:0", "--web", "127.0.0.1:0")
	require.Regexp(t, `^browsers: https://127\.0\.0\.1:\d+/join\n`, r.line("browsers: "))
	require.Regexp(t, `^certificate hash: [A-Za-z0-9+/]{43}=\n`, r.line("certificate hash: "))

	for args, want := range map[string]string{
		"--web none":                          "--web: address none: missing port",
		"--web 127.0.0.1:0 --protocol porous": "--web is for clients of volley",
		"--web 127.0.0.1:0 --secure":          "--web is for clients of volley",
		"--web 203.0.113.1:0":                 "203.0.113.1",
	} {
		out := program(t, append([]string{"serve", "127.0.0.1:0"}, strings.Fields(args)...)...)
		require.NotZero(t, out.status, args)
		require.Contains(t, out.stderr, want, args)
	}
}
