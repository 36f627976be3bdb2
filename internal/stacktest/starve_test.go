package stacktest

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
	"volley"

	"volley/internal/pattern"
	"volley/reliable"
)

// A spoofer sends datagrams from one address and hears no answer.
type spoofer struct {
	raw  net.Conn
	next uint16
}

// empty sends a packet without a message.
func (f *spoofer) empty() {
	f.raw.Write(reliable.AppendHeader(nil, reliable.Header{Sequence: f.next, Ack: 65535}))
	f.next++
}

// whole sends a message of 1000 bytes.
func (f *spoofer) whole() {
	h := reliable.AppendHeader(nil, reliable.Header{Sequence: f.next, Ack: 65535})
	f.raw.Write(append(h, make([]byte, 1000)...))
	f.next++
}

// unfinished sends 15 of the 16 fragments of a message.
func (f *spoofer) unfinished() {
	for id := range uint8(15) {
		b := reliable.AppendFragmentHeader(nil, reliable.FragmentHeader{Sequence: f.next, ID: id, Count: 16})
		if id == 0 {
			b = reliable.AppendHeader(b, reliable.Header{Sequence: f.next, Ack: 65535})
		}
		f.raw.Write(append(b, make([]byte, 1024)...))
	}
	f.next++
}

// Fragments that no whole message follows expire too, and what was kept for
// them goes.
func TestUnfinishedMessagesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &volley.ListenConfig{})
		raw, c := rawPeer(t, n, l, "10.0.0.2:1")
		defer raw.Close()
		defer c.Close()
		f := &spoofer{raw, 1}
		for range 62 {
			f.unfinished()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		if m := c.Stats().Memory; m < 900<<10 {
			t.Fatalf("62 messages that lack a fragment take %d bytes: too few for this test", m)
		}
		for at := time.Duration(0); at < time.Hour; at += 5 * time.Second {
			f.empty()
			time.Sleep(4900 * time.Millisecond)
			m := c.Stats().Memory
			switch {
			case at >= 30*time.Second && m > 32<<10: // two new ones at a time
				t.Fatalf("%d bytes held after %v with a new unfinished message each 5 s", m, at)
			case at >= 20*time.Second && at < 30*time.Second && m > 2<<10:
				t.Fatalf("%d bytes held after %v", m, at)
			case at >= 5*time.Second && m > 128<<10:
				t.Fatalf("%d bytes held after %v", m, at)
			}
			time.Sleep(100 * time.Millisecond)
			if at >= 30*time.Second {
				f.unfinished()
			}
		}
		if c.Stats().MessagesReceived != 0 {
			t.Error("a message was received: this test is of those without")
		}
	})
}

// TestForgersStarveNobody fills all memory of a Listener that peers can take
// who never acknowledge, and sends messages from honest ones, old and new.
func TestForgersStarveNobody(t *testing.T) {
	const forgers, messages = 36, 60
	for name, fill := range map[string]func(*spoofer){
		"fragments": (*spoofer).unfinished,
		"messages": func(f *spoofer) {
			for range 16 {
				f.whole()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, l, dial := network(t, &volley.ListenConfig{MaxMemory: 32 << 20})
				old := dial("10.0.0.3:1", nil)
				old.Write([]byte("hello"))
				conns := map[string]*volley.Conn{"old": accept(t, l)}
				wantMessage(t, conns["old"], "hello")
				all := make([]*spoofer, forgers)
				for i := range all {
					raw, c := rawPeer(t, n, l, fmt.Sprintf("10.0.0.2:%d", i+1))
					defer raw.Close()
					defer c.Close()
					all[i] = &spoofer{raw, 1}
				}
				attack := func() {
					for range 64 {
						for i, f := range all {
							fill(f)
							if i%4 == 3 {
								time.Sleep(time.Millisecond)
							}
						}
					}
				}
				attack()
				if m := l.Stats().Memory; m < 23<<20 {
					t.Fatalf("the forgers hold %d bytes, want 24 MiB", m)
				}
				fresh := dial("10.0.0.3:2", nil)
				conns["fresh"] = accept(t, l)
				full := 0
				for i := range messages {
					if l.Stats().Memory >= 23<<20 {
						full++
					}
					for _, c := range []*volley.Conn{old, fresh} {
						c.Write(pattern.New(uint32(i), 5000))
					}
					if i%20 == 19 { // before the last has expired
						attack()
					}
					time.Sleep(100 * time.Millisecond)
				}
				if full < messages*2/3 {
					t.Errorf("%d of %d messages met full memory: too few for this test", full, messages)
				}
				for who, lost := range map[string]uint64{"old": 0, "fresh": 1} {
					if got := conns[who].Stats().MessagesReceived; got < messages-lost {
						t.Errorf("%s peer: %d of %d messages received, want all but %d", who, got, messages, lost)
					}
				}
				old.Close()
				fresh.Close()
			})
		})
	}
}

// The timeout of reassemblies is kept to the moment, also by a connection that
// has nothing else to do.
func TestReassemblyTimeoutIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 5 * time.Second // of every connection that is not for the reference
		n, l, _ := network(t, &volley.ListenConfig{Config: &volley.Config{KeepAlive: -1, IdleTimeout: -1}})
		raw, c := rawPeer(t, n, l, "10.0.0.2:1")
		defer raw.Close()
		defer c.Close()
		f := &spoofer{raw, 1}
		time.Sleep(time.Minute)
		for range 3 {
			f.unfinished()
			time.Sleep(timeout + 9*time.Millisecond) // 10 ms of it are the way
			if m := c.Stats().Memory; m < 15<<10 {
				t.Errorf("%d bytes held before the timeout", m)
			}
			time.Sleep(2 * time.Millisecond)
			if m := c.Stats().Memory; m > 1<<10 {
				t.Errorf("%d bytes held after the timeout", m)
			}
		}
	})
}
