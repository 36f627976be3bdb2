package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPingServe: the programs as users run them.
func TestPingServe(t *testing.T) {
	server, address := serving(t)
	o := program(t, "ping", "-c", "5", "-i", "0.02", address)
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Equal(t, 5, strings.Count(o.stdout, "64 bytes: number"), o.stdout)
	require.Contains(t, o.stdout, "5 sent, 5 answered, 0.0 % lost")
	require.Contains(t, o.stdout, "median")
	require.Contains(t, o.stdout, "█")
	require.Contains(t, server.line("has gone after"), "6 messages received")
	o = server.interrupt()
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Contains(t, o.stdout, "served 1 connection in")
	require.Contains(t, o.stdout, "5 answered")
}
