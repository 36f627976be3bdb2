package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/netcode"
	"volley/simnet"
)

func TestHarmless(t *testing.T) {
	require.Equal(t, `\xff`+"\ufffd", harmless("\xff\ufffd"))
	for text, want := range map[string]string{
		"plain é 😀\nline":      "plain é 😀\nline",
		"\x1b[2J":              `\x1b[2J`,
		"a\u009b2Jb\x7f\r\x00": `a\u009b2Jb\x7f\r\x00`,
		"\u202e\U000E0001\t":   `\u202e\U000e0001\t`,
		"\ufffd":               "\ufffd",
	} {
		require.Equal(t, want, harmless(text))
		plain, err := json.Marshal(text)
		require.NoError(t, err)
		b := harmlessJSON(plain)
		require.False(t, bytes.ContainsFunc(b, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", b)
		var back string
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, text, back)
	}
}

// TestBenchHostileReports: a server may report what it likes; what cannot be true
// is left out, and said.
func TestBenchHostileReports(t *testing.T) {
	for _, body := range []string{
		`{"elapsed_ns":1000000000,"received":1,"jitter":1e308}`,
		`{"elapsed_ns":1000000000,"received":1,"jitter":-1}`,
		`{"elapsed_ns":-1,"received":1}`,
		`{"elapsed_ns":9223372036854775807,"received":1}`,
		`{"elapsed_ns":1000000000,"received":18446744073709551615}`,
		`{"elapsed_ns":1000000000,"received":1,"bytes":18446744073709551615}`,
		`{"elapsed_ns":1000000000,"received":1,"expected":18446744073709551615}`,
		`{"elapsed_ns":1000000000,"received":1,"out_of_order":18446744073709551615}`,
	} {
		var out bytes.Buffer
		o := (&virtual{}).bench(20*time.Second, 1e6, 1000)
		v := newBenchView(&out, &o)
		b := &bencher{opts: &o, view: v}
		b.report(reply{probe: probe{kind: probeReport}, body: []byte(`{"elapsed_ns":1000000000,"received":10,"bytes":1000,"expected":10}`)})
		b.report(reply{probe: probe{kind: probeReport}, body: []byte(body)})
		v.finish("x")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var e benchEvent
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &e))
		require.EqualValues(t, 10, e.Messages, body)
		require.Equal(t, []string{"the server has sent reports that cannot be true; they are left out"}, e.Notes, body)
	}
}

// TestBenchReportsOnlyGrow: a report that takes something back is left out.
func TestBenchReportsOnlyGrow(t *testing.T) {
	before := benchFigures{Elapsed: 1e9, Received: 10, Bytes: 1000, Expected: 12, OutOfOrder: 2}
	for _, change := range []func(*benchFigures){
		func(f *benchFigures) { f.Received-- }, func(f *benchFigures) { f.Bytes-- },
		func(f *benchFigures) { f.Expected-- }, func(f *benchFigures) { f.OutOfOrder-- },
	} {
		o := (&virtual{}).bench(20*time.Second, 1e6, 1000)
		v := newBenchView(new(bytes.Buffer), &o)
		v.show(before)
		after := before
		after.Elapsed, after.Final = 2e9, true
		change(&after)
		v.show(after)
		require.Equal(t, before, v.now)
	}
}

// FuzzBenchReport: no report breaks the lines of JSON.
func FuzzBenchReport(f *testing.F) {
	f.Add([]byte(`{"elapsed_ns":1000000000,"received":1,"jitter":1e308}`), []byte(`{"elapsed_ns":1,"bytes":1125899906842624,"final":true}`))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		var out bytes.Buffer
		o := (&virtual{}).bench(20*time.Second, 1e6, 1000)
		v := newBenchView(&out, &o)
		b := &bencher{opts: &o, view: v}
		for _, body := range [][]byte{x, y} {
			b.report(reply{probe: probe{kind: probeReport}, body: body})
		}
		v.finish("x")
		for line := range strings.Lines(out.String()) {
			var e benchEvent
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			require.False(t, math.IsInf(e.Rate, 0) || e.Rate < 0 || e.Start > e.End, line)
		}
	})
}

// TestBenchRefusalControls: the reason of a server that does not measure cannot
// control the terminal.
func TestBenchRefusalControls(t *testing.T) {
	l, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		c, err := l.AcceptConn(context.Background())
		if err != nil {
			return
		}
		defer c.Close()
		for range 2 {
			if _, err := c.ReadMessage(context.Background(), nil); err != nil {
				return
			}
			c.Write(append((&probe{kind: probeRefused}).append(nil, probeSize), "\x1b[2J\u009b1mno\xff"...))
		}
	}()
	o := program(t, "bench", l.Addr().String())
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.stderr, `refuses to measure: \x1b[2J\u009b1mno\xff`)
}

// TestPingSecureThroughProxy: a server that does not find the proxy's address among
// its own is silent. Ping says so, and what helps.
func TestPingSecureThroughProxy(t *testing.T) {
	key := netcode.GenerateKey()
	text, err := key.MarshalText()
	require.NoError(t, err)
	_, server := serving(t, "--key", string(text))
	p, err := simnet.NewProxy(simnet.ProxyConfig{Target: server})
	require.NoError(t, err)
	defer p.Close()
	address := p.Addr().String()
	o := program(t, "ping", "-c", "1", "--key", string(text), "--connect-timeout", "300ms", address)
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.stderr, `"volley token new --server `+address+` --internal ITS-OWN-ADDRESS"`)

	token := filepath.Join(t.TempDir(), "token")
	o = program(t, "token", "new", "--key", string(text), "--id", "1", "--server", address, "--internal", server, "--out", token)
	require.Equal(t, exitOK, o.status, o.stderr)
	o = program(t, "ping", "-c", "1", "-W", "30", "--token", token, address)
	require.Equal(t, exitOK, o.status, o.stderr)
	require.NoError(t, os.Remove(token))
}
