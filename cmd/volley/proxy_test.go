package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
)

// A proxied is a proxy that runs as a program, and what a test does with it.
type proxied struct {
	*running
	stdin   io.WriteCloser
	address string // for clients
	server  *net.UDPConn
}

// startProxy starts the proxy in front of a socket of the test's own, with JSON.
func startProxy(t *testing.T, args ...string) *proxied {
	t.Helper()
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: loopback.Host().AsSlice()}) // where no stranger sends
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	server.SetDeadline(time.Now().Add(longest))
	p := &proxied{running: &running{t: t}, server: server}
	args = append([]string{"proxy", "--json", "--interval", "0", "--to", server.LocalAddr().String()}, args...)
	p.cmd = newProgram(t, args...)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	p.cmd.Stderr = &p.stderr
	p.lines = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { p.cmd.Process.Kill(); p.cmd.Wait() })
	p.address = p.event("listening").Listen
	return p
}

// event returns the next event of a type.
func (p *proxied) event(kind string) (e proxyEvent) {
	p.t.Helper()
	line := p.line(`"type":"` + kind + `"`)
	require.NoError(p.t, json.Unmarshal([]byte(line), &e), line)
	return e
}

// command types a line.
func (p *proxied) command(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	require.NoError(p.t, err)
}

// client returns a socket that sends to the proxy.
func (p *proxied) client() net.Conn {
	p.t.Helper()
	c, err := net.Dial("udp", p.address)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(longest))
	return c
}

// pass sends a datagram to the server and one back, and returns the round-trip
// time, and the address of the client to the server.
func (p *proxied) pass(c net.Conn) (time.Duration, string) {
	p.t.Helper()
	start := time.Now()
	_, err := c.Write([]byte("there"))
	require.NoError(p.t, err)
	buf := make([]byte, 2000)
	_, from, err := p.server.ReadFromUDP(buf)
	require.NoError(p.t, err)
	_, err = p.server.WriteTo([]byte("and back"), from)
	require.NoError(p.t, err)
	n, err := c.Read(buf)
	require.NoError(p.t, err)
	require.Equal(p.t, "and back", string(buf[:n]))
	return time.Since(start), from.String()
}

// TestProxyProgram runs the program and changes its settings.
func TestProxyProgram(t *testing.T) {
	p := startProxy(t, "--latency", "20ms", "--jitter", "0s", "--down", "latency 30ms mtu 1000", "--preset", "5g")
	c := p.client()
	rtt, from := p.pass(c)
	require.GreaterOrEqual(t, rtt, 50*time.Millisecond)

	p.command("up latency 0")
	e := p.event("change")
	require.Contains(t, *e.UpLink, "rate 21.08Mbit/s", "what is not mentioned stays")
	require.NotContains(t, *e.UpLink, "latency")
	require.Contains(t, *e.DownLink, "latency 30ms")
	require.Contains(t, *e.DownLink, "mtu 1000")

	p.command("  loss 5%  # as at home")
	e = p.event("change")
	require.Equal(t, "loss 5%", e.Text)
	require.Contains(t, *e.UpLink, "loss 5%")
	require.NotContains(t, *e.DownLink, "burst", "loss is all the loss there is")

	p.command("los 7%")
	e = p.event("error")
	require.Equal(t, "los 7%", e.Text)
	require.Contains(t, e.Error, `unknown setting "los"`)

	p.command("loss 0")
	p.event("change")
	p.command("rebind")
	p.event("change")
	_, again := p.pass(c)
	require.NotEqual(t, from, again)

	p.command("stats")
	e = p.event("stats")
	require.EqualValues(t, 2, e.Up.Delivered)
	require.EqualValues(t, 10, e.Up.Bytes)
	require.EqualValues(t, 2, e.Down.Delivered)
	require.EqualValues(t, 1, *e.Clients)

	p.command("down loss 100%")
	p.event("change")
	_, err := p.server.WriteTo([]byte("lost"), addrOf(t, again))
	require.NoError(t, err)
	for e.Down.Lost == 0 {
		p.command("stats")
		e = p.event("stats")
	}
	p.command("reset")
	e = p.event("change")
	require.Contains(t, *e.UpLink, "latency 20ms")
	require.Contains(t, *e.UpLink, "burst")

	o := p.interrupt()
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Contains(t, o.stdout, `"type":"summary"`)
	require.Contains(t, o.stdout, `"lost":1,`)
}

func addrOf(t *testing.T, s string) net.Addr {
	t.Helper()
	a, err := net.ResolveUDPAddr("udp", s)
	require.NoError(t, err)
	return a
}

// TestProxyTable: the output for people, with lines for each interval and a
// summary, and the end by --duration, by a line, and that of standard input,
// which ends nothing.
func TestProxyTable(t *testing.T) {
	p := start(t, "proxy", "--to", "127.0.0.1:9", "--interval", "20ms",
		"--script", "# nothing\n\nat 20ms loss 100%\n50ms down latency 5ms for 10ms\n")
	p.line("-- end of down latency 5ms")
	p.line("clients      up/s") // which comes again every few lines
	o := p.interrupt()
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Equal(t, exitOK, program(t, "proxy", "--to", "127.0.0.1:9", "--duration", "20ms").status)
	for _, want := range []string{
		"127.0.0.1:", " -> 127.0.0.1:9\n", "nothing happens to datagrams", "clients      up/s         rate    loss",
		"-- loss 100%\n", "-- down latency 5ms for 10ms\n", "-- end of down latency 5ms\n", "\nin ", "delivered                   0",
	} {
		require.Contains(t, o.stdout, want)
	}
	for line := range strings.Lines(o.stdout) {
		require.LessOrEqual(t, len(line), 81, line)
	}
	cmd := newProgram(t, "proxy", "--to", "127.0.0.1:9", "--script", "at 10m quit")
	cmd.Stdin = strings.NewReader("show\nhelp\nnonsense\nquit\n")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "datagrams                   0")
	require.Contains(t, stderr.String(), "preset NAME, reset")
	require.Contains(t, stderr.String(), `volley: nonsense: unknown setting "nonsense"; "help" lists them`)
}

// TestProxyActsSoon: of many changes that are typed while datagrams pass, the
// fastest acts within 50 ms, as a program sees it. Others may wait for a machine
// that is busy.
func TestProxyActsSoon(t *testing.T) {
	p := startProxy(t)
	c := p.client()
	const soon = 50 * time.Millisecond
	best := time.Hour
	for i := 0; i < 50 && best > soon; i++ {
		p.pass(c)
		began := time.Now()
		p.command("blackout")
		last := began // the latest datagram that has passed
		buf := make([]byte, 100)
		for time.Since(began) < 2*soon {
			sent := time.Now()
			c.Write([]byte("x"))
			p.server.SetReadDeadline(sent.Add(5 * time.Millisecond))
			if _, err := p.server.Read(buf); err == nil {
				last = sent
			}
		}
		p.server.SetReadDeadline(time.Now().Add(longest))
		best = min(best, last.Sub(began))
		p.command("blackout off")
		p.event("change")
		p.event("change")
	}
	require.LessOrEqual(t, best, soon)
}
