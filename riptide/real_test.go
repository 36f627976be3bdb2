package riptide

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"

	"volley/internal/testenv"
)

// patient is for connections over real sockets, of which nothing may end one
// because the machine has other things to do.
var patient = &Config{ConnectAttempts: 60, Timeout: time.Minute, IgnoreQuality: true}

// TestRealSockets talks over UDP and TCP at the same time, by the names of
// hosts.
func TestRealSockets(t *testing.T) {
	s := &Server{Config: patient, Unhandled: func(p *Peer, m *Message) error { return p.Send(m) }}
	pc, err := net.ListenPacket("udp", loopback.Addr())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", pc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	for _, serve := range []func() error{func() error { return s.ServeOn(pc) }, func() error { return s.Serve(l) }} {
		served.Go(func() {
			if err := serve(); err != errServerClosed {
				t.Errorf("serving: %v", err)
			}
		})
	}
	for _, network := range []string{"udp", "tcp"} {
		back := make(chan string, 1)
		c := &Client{Config: patient, Unhandled: func(_ *Client, m *Message) error { back <- m.ReadString(); return m.Err() }}
		if err := c.Connect(t.Context(), network, pc.LocalAddr().String()); err != nil {
			t.Fatalf("%s: %v", network, err)
		}
		if c.ID() == 0 || c.LocalAddr() == nil || c.RemoteAddr().String() != pc.LocalAddr().String() {
			t.Errorf("%s: ID %d, %v to %v", network, c.ID(), c.LocalAddr(), c.RemoteAddr())
		}
		if err := c.Send(text(nil, Reliable, 1, network)); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-back:
			if got != network {
				t.Errorf("%s came back as %s", network, got)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: nothing came back", network)
		}
		c.Close()
		<-c.Done()
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	served.Wait()
}

// TestServerAllocs counts allocations of a round of messages of each mode from
// a client to the server and back, with all that belongs to them, in the steady
// state.
func TestServerAllocs(t *testing.T) {
	for _, network := range []string{"udp", "tcp"} {
		t.Run(network, func(t *testing.T) { testServerAllocs(t, network) })
	}
}

func testServerAllocs(t *testing.T, network string) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	back := func(p *Peer, m *Message) error { return p.Send(m) }
	s := &Server{Unhandled: back, Notify: back, Config: patient}
	served := make(chan error)
	var addr net.Addr
	if network == "udp" {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		addr = pc.LocalAddr()
		go func() { served <- s.ServeOn(pc) }()
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr = l.Addr()
		go func() { served <- s.Serve(l) }()
	}
	came := make(chan struct{}, 16)
	got := func(*Client, *Message) error { came <- struct{}{}; return nil }
	c := &Client{Unhandled: got, Notify: got, Config: patient}
	require.NoError(t, c.Connect(t.Context(), network, addr.String()))
	patience := time.NewTimer(0)
	<-patience.C
	msg := NewMessage(Reliable, 1)
	round := func() {
		for _, m := range []Mode{Reliable, Unreliable, Notify} {
			msg.Reset(m, 1)
			Add[uint64](msg, 1)
			c.Send(msg)
			patience.Reset(30 * time.Second)
			select {
			case <-came:
			case <-patience.C:
				t.Error("nothing came back")
			}
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n > 0 {
		t.Errorf("%v allocations for 6 messages", n)
	}
	c.Close()
	<-c.Done()
	s.Close()
	<-served
}
