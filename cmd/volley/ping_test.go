package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/internal/loopback"
	"volley/simnet"
)

// TestPingServe: the programs as users run them.
func TestPingServe(t *testing.T) {
	server, address := serving(t)
	o := program(t, "ping", "-c", "5", "-i", "0.02", "-W", "30", address)
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

// TestPingInterrupt: Ctrl-C ends with a summary.
func TestPingInterrupt(t *testing.T) {
	_, address := serving(t)
	p := start(t, "ping", "-i", "0.01", "-W", "30", address)
	p.line("number 3")
	o := p.interrupt()
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Contains(t, o.stdout, "round trip  min")
}

// TestPingNobody: what there is to say where nobody answers.
func TestPingNobody(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0") // which is silent
	require.NoError(t, err)
	defer pc.Close()
	address := pc.LocalAddr().String()
	o := program(t, "ping", "-c", "2", "-i", "0.01", "-W", "0.1", address)
	require.Equal(t, exitNegative, o.status)
	require.Contains(t, o.stdout, "2 sent, 0 answered, 100.0 % lost")
	require.Contains(t, o.stdout, `is "volley serve" running there`)
	require.Contains(t, o.stderr, "no answer")
	for _, flags := range [][]string{{"--protocol", "porous"}, {"--key", strings.Repeat("1a", 32)}} {
		o = program(t, append([]string{"ping", "-c", "2", "--connect-timeout", "200ms", address}, flags...)...)
		require.Equal(t, exitFailure, o.status)
		require.Contains(t, o.stderr, `is "volley serve `+flags[0], "%v", flags)
	}
}

// TestPingProtocols: over each of them, with a key that serve has made and with a
// token.
func TestPingProtocols(t *testing.T) {
	for _, protocol := range []string{"volley", "porous"} {
		for _, secure := range []bool{false, true} {
			flags := []string{"--protocol", protocol}
			if secure {
				flags = append(flags, "--key", strings.Repeat("1a", 32))
			}
			server, address := serving(t, flags...)
			o := program(t, append([]string{"ping", "-c", "3", "-i", "0.01", "-W", "30", address, "--json"}, flags...)...)
			require.Equal(t, exitOK, o.status, "%v: %s", flags, o.stderr)
			require.Equal(t, 3, strings.Count(o.stdout, `"type":"answer"`), o.stdout)
			if secure {
				token := t.TempDir() + "/token"
				o = program(t, "token", "new", "--key", strings.Repeat("1a", 32), "--server", address, "--id", "7", "--out", token)
				require.Equal(t, exitOK, o.status, o.stderr)
				o = program(t, "ping", "-c", "3", "-i", "0.01", "-W", "30", address, "--token", token, "--protocol", protocol)
				require.Equal(t, exitOK, o.status, o.stderr)
				require.Contains(t, o.stdout, "3 answered")
			}
			require.Equal(t, exitOK, server.interrupt().status)
		}
	}
}

// TestPingRestart: a server that starts again is found again.
func TestPingRestart(t *testing.T) {
	first := start(t, "serve", loopback.Addr()) // where the port stays free
	_, rest, _ := strings.Cut(first.line("listening on "), "listening on ")
	address, _, _ := strings.Cut(rest, ",")
	p := start(t, "ping", "-i", "0.02", "-W", "0.2", address)
	p.line("number 3")
	first.interrupt()
	p.line("closed by the peer; connecting anew")
	p.line("no answer")
	second := start(t, "serve", address)
	second.line("listening on")
	p.line("64 bytes: number")
	require.Equal(t, exitOK, p.interrupt().status)
}

// TestPingIsToldTheReason: ping ends with what the server has given as its reason.
func TestPingIsToldTheReason(t *testing.T) {
	lc := volley.ListenConfig{MaxConns: 1}
	l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	first, err := volley.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	s, err := l.AcceptConn(t.Context())
	require.NoError(t, err)
	o := program(t, "ping", "-i", "0.02", l.Addr().String())
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.stderr, "refused: full\n")
	first.Close()
	s.Close()
	require.Eventually(t, func() bool { return l.Stats().Conns == 0 }, 10*time.Second, time.Millisecond)
	go func() {
		if c, err := l.AcceptConn(context.Background()); err == nil {
			c.Read(make([]byte, 100))
			c.CloseWithReason("kicked")
		}
	}()
	o = program(t, "ping", "-i", "0.02", l.Addr().String())
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.stderr, "closed by the peer: kicked\n")
}

func TestPingFlags(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"ping", "needs the address of a server"},
		{"ping a:1 b:1", "takes one address"},
		{"ping example.com", "not an address such as"},
		{"ping 127.0.0.1:99999", "from 1 to 65535"},
		{"ping -c -1 127.0.0.1:9", "--count"},
		{"ping -i 1us 127.0.0.1:9", "volley bench"},
		{"ping -i -1 127.0.0.1:9", "interval"},
		{"ping -W 0 127.0.0.1:9", "--timeout"},
		{"ping -s 31 127.0.0.1:9", "--size must be from 32 to 65536"},
		{"ping -s 1M 127.0.0.1:9", "--size"},
		{"ping --protocol tcp 127.0.0.1:9", "volley or porous"},
		{"ping --key 12 127.0.0.1:9", "--key"},
		{"ping --key 12 --token x 127.0.0.1:9", "exclude each other"},
		{"ping --token /nonexistent 127.0.0.1:9", "--token"},
		{"serve 1 2", "arg"},
		{"serve nonsense", "nonsense"},
		{"serve --max-rate 5", "no unit"},
		{"bench -t 0 127.0.0.1:9", "--time"},
		{"bench -i 1ms 127.0.0.1:9", "--interval"},
		{"bench -l 1 127.0.0.1:9", "--length"},
		{"bench -b 100 127.0.0.1:9", "no unit"},
		{"bench -b x 127.0.0.1:9", "must be a rate"},
	} {
		o := command(t.Context(), devNull(t), strings.Fields(test.args)...)
		require.Equal(t, exitFailure, o.status, test.args)
		require.Contains(t, o.stderr, test.want, test.args)
	}
}

// A virtual network has a server, in the time of a bubble.
type virtual struct {
	net    *simnet.Network
	out    safeBuffer
	cancel context.CancelFunc
	done   chan struct{}
}

// safeBuffer is a buffer that two goroutines may use.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

const virtualServer = "10.0.0.1:7777"

// newVirtual starts a server behind a link, the same each way.
func newVirtual(t *testing.T, link simnet.Link, options ...func(*serveOptions)) *virtual {
	v := &virtual{net: simnet.New(1), done: make(chan struct{})}
	v.net.SetDefault(link)
	o := serveOptions{maxRate: 1e9}
	o.protocol = protocolVolley
	for _, set := range options {
		set(&o)
	}
	o.packet = func(address string) (net.PacketConn, error) { return v.net.Listen(address) }
	ctx, cancel := context.WithCancel(t.Context())
	v.cancel = cancel
	go func() {
		defer close(v.done)
		o.run(ctx, virtualServer, &v.out, &v.out)
	}()
	synctest.Wait()
	return v
}

func (v *virtual) dial(address string) (net.Conn, error) { return v.net.Dial("10.0.0.2:0", address) }

func (v *virtual) close() {
	v.cancel()
	<-v.done
	v.net.Close()
}

// lastLine decodes the last line of JSON.
func lastLine(t *testing.T, out string, v any) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), v), out)
}

// TestPingTruth: over a link that is known ping finds out how it is.
func TestPingTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, simnet.Link{Latency: 50 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.05})
		defer v.close()
		o := pingOptions{count: 10000, interval: span(20 * time.Millisecond), timeout: span(2 * time.Second), size: 64, json: true, quiet: true}
		o.protocol, o.inner = protocolVolley, v.dial
		var out bytes.Buffer
		require.NoError(t, o.run(t.Context(), virtualServer, &out))
		var s pingSummary
		lastLine(t, out.String(), &s)
		require.EqualValues(t, 10000, s.Sent)
		require.Equal(t, s.Sent, s.Answered+s.Lost)
		require.InDelta(t, 1-0.95*0.95, s.Loss, 0.01)
		require.InDelta(t, 5, 100*float64(*s.LostThere)/10000, 1)
		require.InDelta(t, 5, 100*float64(*s.LostBack)/9500, 1)
		// Two delays, each equally likely from 30 to 70 ms.
		for want, got := range map[float64]float64{60: s.RTT.Min, 100: s.RTT.Median, 127.4: s.RTT.P95, 134.3: s.RTT.P99, 140: s.RTT.Max} {
			require.InEpsilon(t, want, got, 0.05)
		}
		require.InEpsilon(t, 100, s.RTT.Mean, 0.05)
		require.InEpsilon(t, 16.3, s.RTT.Deviation, 0.05) // 40 / sqrt(6)
		count := 0
		for _, b := range s.Histogram {
			count += b.Count
			require.Less(t, b.From, b.To)
		}
		require.EqualValues(t, s.Answered, count)
	})
}

// TestPingLate: answers beyond the timeout count as lost until they come.
func TestPingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, simnet.Link{Latency: 350 * time.Millisecond}) // so that no answer to the first comes just when it is given up
		defer v.close()
		o := pingOptions{count: 20, interval: span(100 * time.Millisecond), timeout: span(500 * time.Millisecond), size: 64, json: true}
		o.protocol, o.inner = protocolVolley, v.dial
		var out bytes.Buffer
		require.NoError(t, o.run(t.Context(), virtualServer, &out))
		var s pingSummary
		lastLine(t, out.String(), &s)
		require.Greater(t, s.Late, uint64(5))
		require.Equal(t, s.Late, s.Answered)
		require.Contains(t, out.String(), `{"type":"lost","number":0`)
	})
}
