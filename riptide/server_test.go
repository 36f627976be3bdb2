package riptide

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"volley/simnet"
)

const serverAddr = "10.0.0.1:7777"

// A world is a server on a simulated network.
type world struct {
	t      *testing.T
	net    *simnet.Network
	server *Server
	served chan error
}

// newWorld starts a server in a network. It ends with the test's bubble.
func newWorld(t *testing.T, s *Server, link simnet.Link) *world {
	t.Helper()
	w := &world{t: t, net: simnet.New(1), server: s, served: make(chan error, 1)}
	w.net.SetDefault(link)
	pc, err := w.net.Listen(serverAddr)
	if err != nil {
		t.Fatal(err)
	}
	pc.SetReadBuffer(16 << 20)
	go func() { w.served <- s.ServeOn(pc) }()
	return w
}

// close ends the server and the network.
func (w *world) close() {
	w.t.Helper()
	w.server.Close()
	if err := <-w.served; !errors.Is(err, net.ErrClosed) {
		w.t.Errorf("ServeOn = %v, want one that matches net.ErrClosed", err)
	}
	w.net.Close()
}

// dial connects a client from an address.
func (w *world) dial(c *Client, from string) error {
	w.t.Helper()
	conn, err := w.net.Dial(from, serverAddr)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.ConnectOn(context.Background(), conn)
}

func (w *world) mustDial(c *Client, from string) {
	w.t.Helper()
	if err := w.dial(c, from); err != nil {
		w.t.Fatal(err)
	}
}

// A journal collects lines from several goroutines.
type journal struct {
	mu    sync.Mutex
	lines []timed
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, timed{fmt.Sprintf(format, args...), time.Now()})
}

// timed returns what was added since the last call, and when.
func (j *journal) timed() []timed {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

func (j *journal) take() []string { return whats(j.timed()) }

// want compares what was added since the last call, once everything rests.
func (j *journal) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	got := j.take()
	slices.Sort(got) // goroutines have no order
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// record makes a server and clients write to the journal.
func (j *journal) server(s *Server) *Server {
	s.Connected = func(p *Peer) { j.add("server: %d connected", p.ID()) }
	s.Disconnected = func(p *Peer, r Reason) { j.add("server: %d %v", p.ID(), r) }
	s.ConnectionFailed = func(p *Peer) { j.add("server: %d failed", p.ID()) }
	s.Unhandled = func(p *Peer, m *Message) error {
		j.add("server: %d: %v message %d: %s", p.ID(), m.Mode(), m.ID(), m.ReadString())
		return m.Err()
	}
	return s
}

func (j *journal) client(name string, cfg *Config) *Client {
	c := &Client{Config: cfg}
	c.Disconnected = func(_ *Client, r Reason, data *Message) {
		if data != nil {
			j.add("%s: %v: %s", name, r, data.ReadString())
			return
		}
		j.add("%s: %v", name, r)
	}
	c.ClientConnected = func(_ *Client, id uint16) { j.add("%s: %d has come", name, id) }
	c.ClientDisconnected = func(_ *Client, id uint16) { j.add("%s: %d has gone", name, id) }
	c.Unhandled = func(_ *Client, m *Message) error {
		j.add("%s: %v message %d: %s", name, m.Mode(), m.ID(), m.ReadString())
		return m.Err()
	}
	return c
}

func text(cfg *Config, m Mode, id uint16, s string) *Message {
	msg := cfg.NewMessage(m, id)
	msg.AddString(s)
	return msg
}

const ms = time.Millisecond

// TestTalk goes through everything that two clients and a server do.
func TestTalk(t *testing.T) {
	for _, cfg := range []*Config{nil, {Version21: true}, {NotesLayout: true}} {
		t.Run(cfg.layout().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				w := newWorld(t, j.server(&Server{Config: cfg}), simnet.Link{Latency: 10 * ms})
				a, b := j.client("a", cfg), j.client("b", cfg)
				w.mustDial(a, "10.0.0.2:1")
				time.Sleep(100 * ms)
				j.want(t, "server: 1 connected")
				w.mustDial(b, "10.0.0.3:1")
				time.Sleep(100 * ms)
				j.want(t, "server: 2 connected", "a: 2 has come")
				if a.ID() != 1 || b.ID() != 2 {
					t.Errorf("ids %d, %d", a.ID(), b.ID())
				}
				a.Send(text(cfg, Reliable, 5, "hello"))
				time.Sleep(100 * ms)
				j.want(t, "server: 1: reliable message 5: hello")
				w.server.SendAll(text(cfg, Unreliable, 6, "all"))
				time.Sleep(100 * ms)
				j.want(t, "a: unreliable message 6: all", "b: unreliable message 6: all")
				w.server.SendAll(text(cfg, Reliable, 7, "b"), w.server.Peer(1))
				time.Sleep(100 * ms)
				j.want(t, "b: reliable message 7: b")
				w.server.Handle(8, func(p *Peer, m *Message) error { return w.server.SendAll(m, p) })
				b.Send(text(cfg, Reliable, 8, "x"))
				time.Sleep(100 * ms)
				j.want(t, "a: reliable message 8: x")
				w.server.Handle(8, nil)
				b.Send(text(cfg, Reliable, 8, "y"))
				time.Sleep(100 * ms)
				j.want(t, "server: 2: reliable message 8: y")
				kick := cfg.NewData()
				kick.AddString("out")
				w.server.Peer(2).Kick(kick)
				time.Sleep(100 * ms)
				j.want(t, "server: 2 kicked", "b: kicked: out", "a: 2 has gone")
				w.mustDial(b, "10.0.0.3:1")
				time.Sleep(100 * ms)
				j.want(t, "server: 3 connected", "a: 3 has come")
				a.Close()
				time.Sleep(100 * ms)
				j.want(t, "a: disconnected", "server: 1 disconnected", "b: 1 has gone")
				if err := a.Send(text(cfg, Reliable, 5, "late")); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Send after the end: %v", err)
				}
				w.server.Close()
				time.Sleep(100 * ms)
				j.want(t, "server: 3 server stopped", "b: server stopped")
				<-b.Done()
				if de, ok := errors.AsType[*DisconnectError](b.Err()); !ok || de.Reason != ServerStopped {
					t.Errorf("Err() = %v", b.Err())
				}
				w.close()
			})
		})
	}
}
