package main

import (
	"errors"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/secure"
)

// freeAddress returns an address that was free in UDP and TCP a moment ago.
func freeAddress(t *testing.T) string {
	l, err := secure.Listen("udp", "127.0.0.1:0", nil)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestDemo(t *testing.T) {
	var out strings.Builder
	err := error(syscall.EADDRINUSE)
	for tries := 0; errors.Is(err, syscall.EADDRINUSE) && tries < 10; tries++ {
		out.Reset()
		err = demo(t.Context(), freeAddress(t), &out)
	}
	require.NoError(t, err)
	const seen = `the server sees (127\.0\.0\.1:\d+)\n`
	m := regexp.MustCompile(`^` + seen +
		`-- the router forgets the client\n` + seen + `  after \S+ of silence; moves of this session: [1-9]\d*\n` +
		`-- the server is restarted\nthe session is over: .*moved.*\n` + seen + `  after \S+ of silence; moves of this session: \d+\n`).FindStringSubmatch(out.String())
	require.NotNil(t, m, out.String())
	require.NotEqual(t, m[1], m[2])
}

// A client whose server refuses it ends with that.
func TestRoamWithoutServer(t *testing.T) {
	var out strings.Builder
	var op *net.OpError
	err := (&client{out: &out}).roam(t.Context(), "volley://"+freeAddress(t))
	require.ErrorAs(t, err, &op)
	require.Empty(t, out.String())
}
