package main

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/internal/loopback"
	"volley/netcode"
)

// TestCheckProgram runs check against serve.
func TestCheckProgram(t *testing.T) {
	_, address := serving(t)
	o := program(t, "check", address)
	require.Equal(t, exitOK, o.status, o.stdout+o.stderr)
	for _, want := range []string{"ok     reachable", "volley serve, round trip", "ok     large messages", "ok     NAT", "none: ", "It works"} {
		require.Contains(t, o.stdout, want)
	}
	for line := range strings.Lines(o.stdout) {
		require.LessOrEqual(t, len(line), 81, line)
	}
}

// TestCheckSecure: a server with sessions, reached by its key, and not reached
// by another one.
func TestCheckSecure(t *testing.T) {
	key, err := netcode.GenerateKey().MarshalText()
	require.NoError(t, err)
	_, address := serving(t, "--key", string(key))
	o := program(t, "check", address, "--key", string(key))
	require.Equal(t, exitOK, o.status, o.stdout+o.stderr)
	require.Contains(t, o.stdout, "volley serve, round trip")
	require.Contains(t, o.stdout, "NAT               none: ")
	o = program(t, "check", address, "-W", "500ms", "--connect-timeout", "500ms")
	require.Equal(t, exitNegative, o.status, o.stdout+o.stderr)
	require.Contains(t, o.stdout, "nothing came back from")
	require.Contains(t, o.stderr, "a check failed")
}

// TestCheckRefused: nobody listens on the port.
func TestCheckRefused(t *testing.T) {
	host := loopback.Host().String() // where the port stays free
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host)})
	require.NoError(t, err)
	address := c.LocalAddr().String()
	c.Close()
	o := command(t.Context(), nil, "check", "-W", "3s", address)
	require.Equal(t, exitNegative, o.status)
	require.Contains(t, o.stdout, host+" is there, but nobody listens on UDP")
	o = command(t.Context(), nil, "check", "--json", "-W", "3s", address)
	require.Contains(t, o.stdout, `"verdict":"unreachable"`)
}

// TestCheckEcho: a server that knows nothing but to echo.
func TestCheckEcho(t *testing.T) {
	ln, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan bool)
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 2000)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			c.Write(buf[:n])
			if p, _ := parseProbe(buf[:n]); p.kind == probeBye {
				return
			}
		}
	}()
	o := command(t.Context(), nil, "check", ln.Addr().String())
	ln.Close()
	<-done
	require.Equal(t, exitOK, o.status, o.stdout)
	require.Contains(t, o.stdout, "a server that echoes")
	require.Contains(t, o.stdout, "?      NAT")
	require.Contains(t, o.stdout, "ok     large messages")
	require.Contains(t, o.stdout, "1 unknown")
}

func TestCheckUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "needs the address of a server"},
		{[]string{"localhost"}, "is not an address such as"},
		{[]string{"127.0.0.1:9", "-W", "0"}, "--timeout must be more than 0"},
		{[]string{"127.0.0.1:9", "--token", "/does/not/exist"}, "--token: open"},
	} {
		o := command(t.Context(), nil, append([]string{"check"}, test.args...)...)
		require.Equal(t, exitFailure, o.status, test.args)
		require.Contains(t, o.stderr, test.want, test.args)
		require.Empty(t, o.stdout, test.args)
	}
}

// TestCheckFindings: what is said about what was measured.
func TestCheckFindings(t *testing.T) {
	server := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7777}
	local, outside := netip.MustParseAddrPort("10.0.0.5:5000"), netip.MustParseAddrPort("198.51.100.1:6000")
	now := time.Now()
	refused := func(err error) *hello { return &hello{refused: &net.OpError{Op: "read", Err: err}} }
	serve := func(ahead time.Duration) *hello {
		return &hello{rtt: 10 * time.Millisecond, known: true, asked: now, reply: checkReply{Time: now.Add(ahead)}}
	}
	token := func(created, expires time.Duration) netcode.TokenInfo {
		return netcode.TokenInfo{Created: now.Add(created), Expires: now.Add(expires)}
	}
	for _, test := range []struct {
		name                string
		do                  func(r *checkReport)
		state, text, advice string
	}{
		{"silence", func(r *checkReport) { r.reached(&hello{}, server, time.Second) }, "wrong", "nothing came back from 192.0.2.1:7777 within 1s", "UDP port 7777 and the answers pass"},
		{"refused", func(r *checkReport) { r.reached(refused(syscall.ECONNREFUSED), server, 0) }, "wrong", "nobody listens on UDP port 7777", "start"},
		{"firewall", func(r *checkReport) { r.reached(refused(syscall.EPERM), server, 0) }, "wrong", "does not let", "firewall here"},
		{"route", func(r *checkReport) { r.reached(refused(syscall.ENETUNREACH), server, 0) }, "wrong", "no route to", "routes"},
		{"reached", func(r *checkReport) { r.reached(serve(0), server, 0) }, "ok", "volley serve, round trip 10.0 ms", ""},

		{"clock", func(r *checkReport) { r.clock(serve(time.Second)) }, "ok", "1000.0 ms ahead of ours, within 5.0 ms", ""},
		{"clock behind", func(r *checkReport) { r.clock(serve(-3 * time.Second)) }, "wrong", "3000.0 ms behind ours", "NTP"},
		{"clock far", func(r *checkReport) { r.clock(serve(2 * time.Hour)) }, "wrong", "2h0m0s ahead of ours", "NTP"},
		{"token", func(r *checkReport) { r.token(token(-10*time.Second, 20*time.Second), now) }, "ok", "valid for 20s, of 30s", ""},
		{"token of the future", func(r *checkReport) { r.token(token(10*time.Second, 40*time.Second), now) }, "wrong", "made in 10s", "clocks"},
		{"token of the past", func(r *checkReport) { r.token(token(-time.Minute, -30*time.Second), now) }, "wrong", "expired 30s ago, and was valid for 30s", "new token"},
		{"token without an end", func(r *checkReport) { r.token(netcode.TokenInfo{Created: now}, now) }, "ok", "never expires", ""},

		{"large messages", func(r *checkReport) { r.size(true) }, "ok", "1200 bytes pass there and back", ""},
		{"small messages only", func(r *checkReport) { r.size(false) }, "wrong", "1200 bytes do not come back", "ping --size"},

		{"no NAT", func(r *checkReport) { r.nat(local, local) }, "ok", "none", ""},
		{"NAT", func(r *checkReport) { r.nat(local, outside) }, "ok", "maps 10.0.0.5:5000 to 198.51.100.1:6000", ""},
		{"NAT unknown", func(r *checkReport) { r.nat(local, netip.AddrPort{}) }, "unknown", "does not say", "serve"},

		{"buffers", func(r *checkReport) {
			r.transport(&volley.TransportStats{ReadBuffer: 212992, WriteBuffer: 4 << 20})
		}, "hint", "grants 208 KiB to receive", "4194304"},
		{"offload", func(r *checkReport) { r.Kernel = "Linux 4.1"; r.transport(&volley.TransportStats{SegmentedSend: true}) }, "hint", "(GSO) on, receiving (GRO) off, Linux 4.1", "Linux 5.0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &checkReport{Protocol: "volley"}
			test.do(r)
			require.NotEmpty(t, r.Findings)
			f := r.Findings[0]
			require.Equal(t, test.state, f.State)
			require.Contains(t, f.Text, test.text)
			require.Contains(t, f.Advice, test.advice)
			require.Equal(t, test.advice == "", f.Advice == "")
			require.Equal(t, test.state == stateWrong, r.wrong())
		})
	}
	require.True(t, unreachable(refused(syscall.EHOSTUNREACH).refused))
	require.False(t, unreachable(errors.New("anything else")))
}

func TestWrap(t *testing.T) {
	require.Equal(t, "one two\n  three\n  12 ms", wrap("one two three 12 ms", 2, 10))
	require.Equal(t, "", wrap("", 2, 10))
	var b bytes.Buffer
	r := &checkReport{Address: "x", Protocol: "volley", begin: time.Now()}
	r.add(stateHint, "a", "b", "c")
	r.print(&b, false)
	require.Contains(t, b.String(), "hint   a                 b\n                      -> c\n\nIt works, 1 hint.\n")
}
