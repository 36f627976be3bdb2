package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// servingURL starts serve --secure, and returns the URL that it prints.
func servingURL(t *testing.T, args ...string) (server *running, url string) {
	t.Helper()
	server = start(t, append([]string{"serve", "127.0.0.1:0", "--secure"}, args...)...)
	_, url, _ = strings.Cut(server.line("clients dial "), "clients dial ")
	return server, strings.TrimSpace(url)
}

// unwrapped returns the output with spaces for ends of lines.
func (o outcome) unwrapped() string { return strings.Join(strings.Fields(o.stdout), " ") }

// TestSecure: all that takes an address takes the URL of serve --secure.
func TestSecure(t *testing.T) {
	for _, protocol := range []string{"volley", "porous"} {
		_, url := servingURL(t, "--protocol", protocol)
		require.Contains(t, url, "volley://127.0.0.1:")
		o := program(t, "ping", "-c", "3", "-i", "0.01", "-W", "30", "--protocol", protocol, url)
		require.Equal(t, exitOK, o.status, o.stderr)
		require.Contains(t, o.stdout, "64 bytes each 10ms over "+protocol+" over secure")
		require.Contains(t, o.stdout, place(url)+": 3 sent, 3 answered")
	}
	_, url := servingURL(t)
	o := program(t, "bench", "-t", "0.3", "-i", "0.1", url)
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Contains(t, o.stdout, "over volley over secure")

	o = program(t, "demo", "--duration", "300ms", "-i", "20ms", url)
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Contains(t, o.stdout, "15 sent")

	o = program(t, "check", url)
	require.Equal(t, exitOK, o.status, o.stdout+o.stderr)
	require.Contains(t, o.unwrapped(), "gives connect tokens, and the key is that of the URL")
	require.Contains(t, o.stdout, "volley serve, round trip")
	require.Contains(t, o.stdout, "NAT")
}

// TestSecureKeyFile: a server with a file has the same URL at each start.
func TestSecureKeyFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "server.key")
	first, one := servingURL(t, "--key-file", name)
	require.Equal(t, exitOK, first.interrupt().status)
	_, two := servingURL(t, "--key-file", name)
	_, pin, _ := strings.Cut(one, "#")
	require.Len(t, pin, 52)
	require.True(t, strings.HasSuffix(two, "#"+pin), "%s and %s", one, two)
}

// TestCheckTellsTCPFromUDP: what check says of a server that one of the two does not reach.
func TestCheckTellsTCPFromUDP(t *testing.T) {
	_, url := servingURL(t)
	relay, err := net.Listen("tcp", "127.0.0.1:0") // for a port that is free
	require.NoError(t, err)
	address := relay.Addr().String()
	relay.Close()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, relayTCP(ctx, address, place(url)))
	_, port, _ := net.SplitHostPort(address)

	beside := strings.Replace(url, place(url), address, 1)
	o := program(t, "check", beside, "--connect-timeout", "2s")
	require.Equal(t, exitNegative, o.status, o.stdout+o.stderr)
	require.Contains(t, o.unwrapped(), "TCP port "+port+" gives connect tokens, and UDP port "+port)
	require.Contains(t, o.unwrapped(), "let UDP port "+port+" pass")

	cancel()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, longest, longest/1000)
	o = program(t, "check", beside)
	require.Equal(t, exitNegative, o.status, o.stdout+o.stderr)
	require.Contains(t, o.unwrapped(), "TCP port "+port+" does not answer: connection refused")
	require.Contains(t, o.unwrapped(), `is "volley serve --secure" running there`)

	other := strings.Replace(url, url[len(url)-52:], strings.Repeat("a", 52), 1)
	o = program(t, "check", other)
	require.Equal(t, exitNegative, o.status, o.stdout+o.stderr)
	require.Contains(t, o.unwrapped(), "this is not the server of the URL")
}

// TestSecureFlags: what does not go together.
func TestSecureFlags(t *testing.T) {
	key := strings.Repeat("1a", 32)
	for want, args := range map[string][]string{
		"--secure and --key exclude each other":            {"serve", "--secure", "--key", key},
		"--key-file needs --secure":                        {"serve", "--key-file", "server.key"},
		"--key and --token are for an address":             {"ping", "--key", key, "volley://127.0.0.1:7777"},
		"invalid URL \"volley://127.0.0.1:7777#abc\": the": {"check", "volley://127.0.0.1:7777#abc"},
		"it must begin with volley:// or https://":         {"bench", "udp://127.0.0.1:7777"},
	} {
		o := command(t.Context(), nil, args...)
		require.Equal(t, exitFailure, o.status, "%v", args)
		require.Contains(t, o.stderr, want)
	}
}

// TestOwnHost: the URL of a server on all addresses has one that leads to it.
func TestOwnHost(t *testing.T) {
	require.Equal(t, "127.0.0.1", ownHost(&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))
	host := ownHost(&net.UDPAddr{IP: net.IPv6unspecified})
	if ip := net.ParseIP(host); ip == nil {
		require.Equal(t, "localhost", host)
	} else {
		require.False(t, ip.IsUnspecified())
	}
}
