package simnet

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"volley/internal/loopback"
)

// echoServer answers each datagram on a real socket, after the sender's
// address and a space. It stops when the test ends.
func echoServer(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, maxDatagram)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			c.WriteTo(append([]byte(from.String()+" "), buf[:n]...), from)
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return c
}

func newProxy(t *testing.T, cfg ProxyConfig) *Proxy {
	t.Helper()
	p, err := NewProxy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func dialUDP(t *testing.T, addr *net.UDPAddr) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a message and returns the address under which the server has seen
// the sender. It sends again after a while, since UDP may lose it.
func ask(t *testing.T, c *net.UDPConn, msg string) (seenAs string) {
	t.Helper()
	buf := make([]byte, maxDatagram)
	for range 20 {
		c.Write([]byte(msg))
		c.SetReadDeadline(time.Now().Add(time.Second))
		n, err := c.Read(buf)
		if err != nil {
			continue
		}
		from, answer, _ := strings.Cut(string(buf[:n]), " ")
		if answer == msg {
			return from
		}
	}
	t.Fatalf("no answer to %.20q", msg)
	return ""
}

func TestProxy(t *testing.T) {
	server := echoServer(t)
	p := newProxy(t, ProxyConfig{Target: server.LocalAddr().String(), Up: Link{Latency: 5 * ms}, Down: Link{Latency: 5 * ms}})
	c1, c2 := dialUDP(t, p.Addr()), dialUDP(t, p.Addr())
	start := time.Now()
	from1 := ask(t, c1, "hello")
	if d := time.Since(start); d < 10*ms {
		t.Errorf("round trip took %v, less than the latency of the links", d)
	}
	from2 := ask(t, c2, strings.Repeat("large ", 5000))
	if from1 == from2 || from1 == p.Addr().String() {
		t.Errorf("the server sees the clients as %s and %s", from1, from2)
	}
	if again := ask(t, c1, "again"); again != from1 {
		t.Errorf("the server sees the client as %s, then as %s", from1, again)
	}
	up, down := p.Stats()
	if up.Delivered < 3 || down.Delivered < 3 {
		t.Errorf("stats up %+v, down %+v, want at least 3 delivered", up, down)
	}
}

func TestProxyImpairs(t *testing.T) {
	server := echoServer(t)
	p := newProxy(t, ProxyConfig{Target: server.LocalAddr().String(), Down: Link{Loss: 1}})
	c := dialUDP(t, p.Addr())
	c.Write([]byte("x"))
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(ms) {
		if _, down := p.Stats(); down.Lost == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the answer was not lost")
		}
	}
	p.SetLinks(Link{}, Link{})
	ask(t, c, "y")
	if _, down := p.Stats(); down.Delivered == 0 || down.Lost != 1 {
		t.Errorf("stats down = %+v", down)
	}
}

// TestProxyPlay checks that each direction has a script of its own.
func TestProxyPlay(t *testing.T) {
	server := echoServer(t)
	p := newProxy(t, ProxyConfig{Target: server.LocalAddr().String(), Down: Link{MTU: 1500}})
	lose := func(l *Link) { l.Loss = 1 }
	p.Play([]Step{{Set: func(l *Link) { l.Latency = ms }}}, []Step{{Set: lose}, {At: time.Hour, Set: lose}})
	if up, down := p.Links(); up != (Link{Latency: ms}) || down != (Link{MTU: 1500, Loss: 1}) {
		t.Errorf("Links = %+v, %+v", up, down)
	}
	c := dialUDP(t, p.Addr())
	if n := p.Clients(); n != 0 {
		t.Errorf("%d clients before the first datagram", n)
	}
	c.Write([]byte("x"))
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(ms) {
		if up, down := p.Stats(); up.Delivered == 1 && down.Lost == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the datagram or its answer has not passed")
		}
	}
	if n := p.Clients(); n != 1 {
		t.Errorf("%d clients, want 1", n)
	}
}

func TestProxyRebind(t *testing.T) {
	server := echoServer(t)
	p := newProxy(t, ProxyConfig{Target: server.LocalAddr().String()})
	c := dialUDP(t, p.Addr())
	before := ask(t, c, "x")
	if err := p.Rebind(); err != nil {
		t.Fatal(err)
	}
	if after := ask(t, c, "y"); after == before {
		t.Errorf("the server sees the client as %s before and after", before)
	}
	p.Close()
	if err := p.Rebind(); err == nil {
		t.Error("Rebind after Close succeeded")
	}
}

// TestProxySource checks the address from which the target is sent to, also
// after a change.
func TestProxySource(t *testing.T) {
	const source = "127.0.0.1" // which every system has
	server := echoServer(t)
	p := newProxy(t, ProxyConfig{Target: server.LocalAddr().String(), Source: source})
	if p.source == nil || p.source.IP.String() != source || p.source.Port != 0 {
		t.Errorf("source = %v, want %v", p.source, source)
	}
	if runtime.GOOS == "linux" { // where all of 127.0.0.0/8 is there
		p = newProxy(t, ProxyConfig{Target: server.LocalAddr().String(), Source: "127.1.2.3"})
	}
	want := p.source.IP.String()
	c := dialUDP(t, p.Addr())
	for range 2 {
		if host, _, _ := net.SplitHostPort(ask(t, c, "x")); host != want {
			t.Errorf("the target sees %s, want %s", host, want)
		}
		if err := p.Rebind(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProxyMaxClients(t *testing.T) {
	server := echoServer(t)
	p := newProxy(t, ProxyConfig{Target: server.LocalAddr().String(), MaxClients: 2})
	c1, c2, c3 := dialUDP(t, p.Addr()), dialUDP(t, p.Addr()), dialUDP(t, p.Addr())
	from1, from2 := ask(t, c1, "1"), ask(t, c2, "2")
	ask(t, c1, "1")
	ask(t, c3, "3") // takes the place of c2
	p.mu.Lock()
	if len(p.clients) != 2 {
		t.Errorf("%d clients, want 2", len(p.clients))
	}
	p.mu.Unlock()
	if held, err := net.ListenPacket("udp", from2); err == nil { // so that c2 does not get it by chance
		defer held.Close()
	}
	if got := ask(t, c1, "1"); got != from1 {
		t.Errorf("client 1 seen as %s, want %s", got, from1)
	}
	if got := ask(t, c2, "2"); got == from2 {
		t.Errorf("client 2 still seen as %s", got)
	}
}

// TestProxyRefused checks that a target that isn't there, or not yet, doesn't
// stop the proxy.
func TestProxyRefused(t *testing.T) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: loopback.Host().AsSlice()})
	if err != nil {
		t.Fatal(err)
	}
	addr := server.LocalAddr().(*net.UDPAddr)
	server.Close()
	p := newProxy(t, ProxyConfig{Target: addr.String()})
	c := dialUDP(t, p.Addr())
	for range 10 {
		c.Write([]byte("x"))
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(ms) {
		if up, _ := p.Stats(); up.Delivered == 10 || time.Now().After(deadline) {
			break
		}
	}
	server, err = loopback.Again(func() (*net.UDPConn, error) { return net.ListenUDP("udp", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	buf := make([]byte, 10)
	var got string
	for end := time.Now().Add(30 * time.Second); got != "y" && time.Now().Before(end); {
		c.Write([]byte("y")) // lost if the last refusal has not been read yet
		server.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, _, err := server.ReadFrom(buf)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		got = string(buf[:n])
	}
	if got != "y" {
		t.Error("nothing comes to a target that is there after all")
	}
}

func TestProxyConfigErrors(t *testing.T) {
	for _, test := range []struct {
		cfg  ProxyConfig
		want string
	}{
		{ProxyConfig{}, "ProxyConfig.Target"},
		{ProxyConfig{Target: "127.0.0.1:0"}, "no port"},
		{ProxyConfig{Target: "127.0.0.1:1", Listen: "nonsense"}, "ProxyConfig.Listen"},
		{ProxyConfig{Target: "127.0.0.1:1", Listen: "192.0.2.1:1"}, "ProxyConfig.Listen"},
		{ProxyConfig{Target: "127.0.0.1:1", Source: "127.0.0.1:1"}, "ProxyConfig.Source"},
	} {
		p, err := NewProxy(test.cfg)
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("NewProxy(%+v): %v, want an error with %q", test.cfg, err, test.want)
		}
	}
}

func TestProxyClose(t *testing.T) {
	server := echoServer(t)
	p := newProxy(t, ProxyConfig{Target: server.LocalAddr().String()})
	ask(t, dialUDP(t, p.Addr()), "x")
	for range 2 {
		if err := p.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	if c := p.client(addrPort("127.0.0.1:1")); c != nil {
		t.Error("a new client after Close")
	}
}

// What is kept of clients that have given way to others is their share of the
// counters, and nothing of each.
func TestProxyForgetsClients(t *testing.T) {
	server := echoServer(t)
	p := newProxy(t, ProxyConfig{Target: server.LocalAddr().String(), MaxClients: 1})
	const clients = 20
	for range clients {
		ask(t, dialUDP(t, p.Addr()), "hello")
	}
	p.net.mu.Lock()
	flows := len(p.net.flows)
	p.net.mu.Unlock()
	if flows > 2 {
		t.Errorf("%d flows are kept for one client, want 2", flows)
	}
	if up, down := p.Stats(); up.Delivered < clients || down.Delivered < clients {
		t.Errorf("%d datagrams delivered up and %d down, want %d at least", up.Delivered, down.Delivered, clients)
	}
}
