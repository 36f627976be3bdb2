package reliable

import (
	"fmt"
	"testing"
	"time"
)

// Many connections carry a few packets and then nothing but keepalives.
func TestFewPacketsTakeLittle(t *testing.T) {
	a, b := newLoop(t)
	for range 3 {
		a.say(b)
		b.say(a)
	}
	for name, e := range map[string]*Endpoint{"first": a.Endpoint, "second": b.Endpoint} {
		if n := e.MemoryUsage(); n > 336 || n != measure(e) {
			t.Errorf("the %s endpoint holds %d bytes, counted %d, want at most 336", name, measure(e), n)
		}
		e.Compact(e.Time().Add(11 * time.Second))
		if n := e.MemoryUsage(); n > 256 || n != measure(e) {
			t.Errorf("in idleness the %s endpoint holds %d bytes, counted %d, want at most 256", name, measure(e), n)
		}
	}
}

// However many packets leave before the first ack comes, the window that starts
// small forgets none of them; and it reaches its usual size though all is acked.
func TestFirstWindows(t *testing.T) {
	for n := 1; n <= 32; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a, b := newLoop(t)
			for range n {
				a.say(b)
			}
			if a.InFlight() != n {
				t.Errorf("%d packets are in flight, want %d", a.InFlight(), n)
			}
			b.say(a)
			if c := a.Counters(); a.InFlight() != 0 || c.PacketsAcked != uint64(n) || a.lost != 0 {
				t.Errorf("%d of %d packets acked, %d lost, %d in flight", c.PacketsAcked, n, a.lost, a.InFlight())
			}
			for range firstSentWindow {
				a.say(b)
				b.say(a)
			}
			if len(a.out.ring) < firstSentWindow {
				t.Errorf("the window has %d entries, want at least %d", len(a.out.ring), firstSentWindow)
			}
			if a.Update(a.now); a.Stats().PacketLoss != 0 {
				t.Errorf("PacketLoss = %v on a link that lost nothing", a.Stats().PacketLoss)
			}
		})
	}
}

// Packets without a message, as a server sends that answers many, push no message out of the
// first windows before it can be acknowledged.
func TestEmptyPacketsPushNothingOut(t *testing.T) {
	for messages := 1; messages <= 20; messages++ {
		for empties := 1; empties <= 100; empties++ {
			a, b := newLoop(t)
			for range messages {
				a.say(b)
			}
			acks := b.in.header(b.out.nextID)
			a.sayNothing(empties)
			a.Receive(a.now, append(AppendHeader(nil, acks), 1))
			if a.lost > 0 || a.InFlight() > 0 {
				t.Fatalf("%d messages before %d empty packets: %d are lost, %d in flight", messages, empties, a.lost, a.InFlight())
			}
		}
	}
}

// Nor do they behind Compact, however old the oldest message is that waits for an ack.
func TestCompactKeepsRoom(t *testing.T) {
	for before := 0; before <= 70; before++ {
		for after := 1; after <= 100; after++ {
			a, b := newLoop(t)
			a.say(b)
			acks := b.in.header(b.out.nextID)
			a.sayNothing(before)
			a.Compact(a.now)
			a.sayNothing(after)
			a.Receive(a.now, append(AppendHeader(nil, acks), 1))
			if a.lost > 0 || a.InFlight() > 0 {
				t.Fatalf("%d packets before Compact and %d after: %d messages are lost, %d in flight", before, after, a.lost, a.InFlight())
			}
		}
	}
}

// A loopEnd is one of two endpoints with nothing between them.
type loopEnd struct {
	*Endpoint
	t    *testing.T
	now  time.Time
	lost int
}

func newLoop(t *testing.T) (a, b *loopEnd) {
	ends := [2]*loopEnd{}
	for i := range ends {
		l := &loopEnd{t: t, now: testTime(0)}
		l.Endpoint, _ = newEndpoint(connConfig(), l.now, l)
		ends[i] = l
	}
	return ends[0], ends[1]
}

func (l *loopEnd) HandleMessage(uint16, []byte) bool { return true }

func (l *loopEnd) HandleFate(_ uint64, fate Fate, _ time.Duration) {
	if fate == FateLost {
		l.lost++
	}
}

// sayNothing sends empty packets that do not arrive.
func (l *loopEnd) sayNothing(times int) {
	var out Batch
	for range times {
		out.Reset()
		mustSend(l.t, l.Endpoint, l.now, nil, &out)
	}
}

// say sends a packet to the other end, which takes a millisecond.
func (l *loopEnd) say(to *loopEnd) {
	var out Batch
	mustSend(l.t, l.Endpoint, l.now, []byte("x"), &out)
	l.now = l.now.Add(time.Millisecond)
	to.now = l.now
	if v := to.Receive(to.now, out.At(0)); v != Delivered {
		l.t.Errorf("Receive = %v, want delivered", v)
	}
}
