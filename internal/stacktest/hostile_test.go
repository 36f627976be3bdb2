package stacktest

import (
	"context"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"
	"volley"

	"volley/internal/pattern"
	"volley/reliable"
	"volley/simnet"
)

// One datagram from a forged address makes a listener send no more than
// docs/THREATS.md says: six packets of fewer than 40 bytes, headers included.
func TestForgedOpeningIsNotAmplified(t *testing.T) {
	for name, opening := range map[string][]byte{
		"empty":    reliable.AppendHeader(nil, reliable.Header{Ack: 65535}),
		"message":  append(reliable.AppendHeader(nil, reliable.Header{Ack: 65535}), "x"...),
		"gap":      append(reliable.AppendHeader(nil, reliable.Header{Sequence: 60, Ack: 65535}), "x"...),
		"fragment": append(append(reliable.AppendFragmentHeader(nil, reliable.FragmentHeader{Count: 2}), reliable.AppendHeader(nil, reliable.Header{Ack: 65535})...), make([]byte, 1024)...),
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := network(t, &volley.ListenConfig{})
			victim, err := n.Listen("10.0.0.9:1")
			if err != nil {
				t.Fatal(err)
			}
			victim.WriteTo(opening, l.Addr())
			packets := 0
			b := make([]byte, 2000)
			for {
				victim.SetReadDeadline(time.Now().Add(time.Minute))
				size, _, err := victim.ReadFrom(b)
				if err != nil {
					break
				}
				packets++
				if size+28 >= 40 {
					t.Errorf("%s: a packet of %d bytes", name, size+28)
				}
			}
			if packets == 0 || packets > 6 {
				t.Errorf("%s: %d packets, want at most 6", name, packets)
			}
			victim.Close()
		})
	}
}

// rawPeer dials a Conn's worth of simulated network from a bare socket, and
// returns the socket and the accepted connection.
func rawPeer(t *testing.T, n *simnet.Network, l *volley.Listener, addr string) (net.Conn, *volley.Conn) {
	t.Helper()
	raw, err := n.Dial(addr, "10.0.0.1:7777")
	if err != nil {
		t.Fatal(err)
	}
	raw.Write(reliable.AppendHeader(nil, reliable.Header{Sequence: 0, Ack: 65535}))
	return raw, accept(t, l)
}

func TestBadInputIsCountedAndDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &volley.ListenConfig{})
		raw, c := rawPeer(t, n, l, "10.0.0.2:1")
		defer raw.Close()
		defer c.Close()
		good := append(reliable.AppendHeader(nil, reliable.Header{Sequence: 1, Ack: 65535}), "good"...)
		for _, bad := range [][]byte{
			{},
			{0},
			{0x3e, 1, 0},             // regular, too short
			{0x01, 1, 0, 0},          // fragment, too short
			{0x03, 1, 0, 0, 0, 1, 2}, // fragment with a wrong prefix
			{0x01, 1, 0, 5, 3, 1, 2}, // fragment 5 of 4
			{0x01, 1, 0, 0, 3, 0xff}, // fragment 0 without a header
			{0x01, 1, 0, 1, 3, 1, 2}, // fragment of a wrong size
			make([]byte, 20000)[:20000],
		} {
			raw.Write(bad)
		}
		raw.Write(good)
		wantMessage(t, c, "good")
		s := c.Stats()
		if got := s.PacketsInvalid + s.FragmentsInvalid + s.PacketsTooLarge; got < 8 {
			t.Errorf("%d bad datagrams counted: %+v", got, s)
		}
		if s.MessagesReceived != 1 {
			t.Errorf("%d messages received, want 1", s.MessagesReceived)
		}
	})
}

// No datagram that is not a peer's first makes a connection.
func TestGarbageMakesNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &volley.ListenConfig{})
		r := rand.New(rand.NewPCG(1, 2))
		raw, err := n.Dial("10.0.0.2:1", "10.0.0.1:7777")
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		for range 10000 {
			b := make([]byte, r.IntN(64))
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			if seen, ok := reliable.Inspect(&reliable.Config{}, b); ok && seen.Opening || len(b) == 25 && b[0] == 5 {
				continue // a first packet, or a hello
			}
			raw.Write(b)
			time.Sleep(time.Millisecond)
		}
		wantNoConn(t, l)
	})
}

// startReassemblies opens reassemblies and never finishes them, with new sequences all the
// time.
func startReassemblies(raw net.Conn, r *rand.Rand, datagrams int) {
	data := make([]byte, 1024)
	for i := range datagrams {
		h := reliable.FragmentHeader{Sequence: uint16(1 + i/15), ID: uint8(1 + i%15), Count: 16}
		if h.ID == 15 {
			continue
		}
		raw.Write(append(reliable.AppendFragmentHeader(nil, h), data...))
		if r.IntN(50) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func TestReassembliesStayWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perConn, perListener = 100 << 10, 1 << 20
		n, l, _ := network(t, &volley.ListenConfig{
			Config:    &volley.Config{ReassemblyBuffer: perConn},
			MaxMemory: perListener,
		})
		r := rand.New(rand.NewPCG(1, 2))
		var conns []*volley.Conn
		for i := range 20 {
			raw, c := rawPeer(t, n, l, "10.0.0.2:"+string(rune('1'+i/10))+string(rune('0'+i%10)))
			defer raw.Close()
			defer c.Close()
			conns = append(conns, c)
			startReassemblies(raw, r, 3000)
			time.Sleep(time.Second)
			if m := c.Stats().Memory; m > perConn+32<<10 {
				t.Errorf("connection %d holds %d bytes, limit %d and its windows", i, m, perConn)
			}
			if m := l.Stats().Memory; m > perListener {
				t.Errorf("%d connections hold %d bytes, limit %d", i+1, m, perListener)
			}
		}
		if m := l.Stats().Memory; m < perListener/2 {
			t.Errorf("20 connections hold %d bytes only: the limit was not tested", m)
		}
		time.Sleep(20 * time.Second) // age and idleness give all back
		if m := l.Stats().Memory; m > 64<<10 {
			t.Errorf("%d bytes held when all is over", m)
		}
		for _, c := range conns {
			c.Close()
		}
		if m := l.Stats().Memory; m != 0 {
			t.Errorf("%d bytes held by closed connections", m)
		}
	})
}

// Unread messages count against the Listener's limit and come back to it.
func TestUnreadMessagesStayWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 512 << 10
		_, l, dial := network(t, &volley.ListenConfig{MaxMemory: limit})
		var all []*volley.Conn
		for range 4 {
			c := dial("10.0.0.2:0", nil)
			s := accept(t, l)
			all = append(all, c, s)
			for i := range 400 {
				c.Write(make([]byte, 1000))
				if i%10 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			time.Sleep(100 * time.Millisecond)
			if m := l.Stats().Memory; m > limit {
				t.Errorf("%d bytes held, limit %d", m, limit)
			}
		}
		if all[len(all)-1].Stats().MessagesRefused == 0 {
			t.Error("the limit was never met")
		}
		for i := 1; i < len(all); i += 2 {
			for range all[i].Stats().MessagesReceived {
				all[i].ReadMessage(context.Background(), nil)
			}
		}
		all[0].Write([]byte("room"))
		wantMessage(t, all[1], "room")
		for _, c := range all {
			c.Close()
		}
		if m := l.Stats().Memory; m != 0 {
			t.Errorf("%d bytes held by closed connections", m)
		}
	})
}

// A peer that jumps in its sequence, or whose ancient datagram shows up, costs
// a few messages at most.
func TestJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &volley.ListenConfig{})
		raw, c := rawPeer(t, n, l, "10.0.0.2:1")
		defer raw.Close()
		defer c.Close()
		sent, received := uint32(1), map[uint32]bool{}
		send := func(n uint32) {
			h := reliable.Header{Sequence: uint16(n), Ack: 65535}
			raw.Write(append(reliable.AppendHeader(nil, h), pattern.New(n, 8)...))
		}
		flow := func(count int) (got int) {
			for i := range count {
				send(sent)
				sent++
				if i%100 == 99 {
					time.Sleep(20 * time.Millisecond)
				}
			}
			time.Sleep(20 * time.Millisecond)
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			for {
				m, err := c.ReadMessage(context.Background(), nil)
				if err != nil {
					return got
				}
				n, err := pattern.Check(m)
				if err != nil || received[n] {
					t.Fatalf("message %d: delivered before: %v, error %v", n, received[n], err)
				}
				received[n] = true
				got++
			}
		}
		if got := flow(40000); got != 40000 {
			t.Fatalf("%d of 40000 messages delivered", got)
		}
		send(sent - 33100) // again
		if got := flow(20000); got < 20000-16 {
			t.Errorf("after a duplicate 33,100 late: %d of 20000 messages delivered", got)
		}
		for late := uint32(31999); late > 16400; late -= 1 + late%16 {
			send(sent - late)
		}
		if got := flow(20000); got != 20000 {
			t.Errorf("after duplicates that follow each other: %d of 20000 messages delivered", got)
		}
		sent += 32600
		if got := flow(20000); got < 20000-16 {
			t.Errorf("after a gap of 32600: %d of 20000 messages delivered", got)
		}
		sent += 40000
		time.Sleep(10 * time.Second)
		if got := flow(20000); got < 20000-16 {
			t.Errorf("after a gap of 40000 and a silence: %d of 20000 messages delivered", got)
		}
	})
}
