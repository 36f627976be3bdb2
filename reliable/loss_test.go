package reliable

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLossOfSilence cuts a link. The loss figure has to show it, at any rate,
// and forget it when the link is back.
func TestLossOfSilence(t *testing.T) {
	for _, rate := range []int{1, 10, 60, 1000, 50_000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			s := newSim(t, connConfig(), simLink{delay: 5 * time.Millisecond})
			a, step := s.peers[0], time.Second/time.Duration(rate)
			var next time.Duration
			run := func(d time.Duration) {
				for end := s.now + d; s.now < end; s.advance(step) {
					s.send(0, a.message(20))
					if s.now >= next {
						next = s.now + time.Second/60
						a.Update(s.time())
						s.peers[1].Update(s.time())
					}
				}
			}
			pace := max(2*time.Second, 40*step)
			run(pace)
			if loss := a.Stats().PacketLoss; loss > 0 {
				t.Errorf("loss figure %.2f before, want 0", loss)
			}
			link := s.links
			s.links[0].loss, s.links[1].loss = 1, 1
			run(pace + overdueAge2)
			if loss := a.Stats().PacketLoss; loss < 50 {
				t.Errorf("loss figure %.2f after %v of silence, want more than half", loss, pace+overdueAge2)
			}
			s.links = link
			run(5*time.Second + 300*step) // more than a window
			if loss := a.Stats().PacketLoss; loss > 2 {
				t.Errorf("loss figure %.2f after the silence, want next to none", loss)
			}
			if o := a.out.overdue; o.count < 0 || int(o.count) > a.InFlight() {
				t.Errorf("%d packets are overdue, of %d in flight", o.count, a.InFlight())
			}
			s.settle()
			s.check()
			if n := a.out.overdue.count; n != 0 {
				t.Errorf("%d packets are overdue with none in flight", n)
			}
		})
	}
}

// A packet that falls out of the window is overdue no more.
func TestOverdueFallsOut(t *testing.T) {
	e, err := newEndpoint(&Config{MaxWindow: minMaxWindow}, testTime(0), nil)
	require.NoError(t, err)
	var out Batch
	for i := range 3 * minMaxWindow {
		out.Reset()
		mustSend(t, e, ms(float64(i*50)), []byte{1}, &out)
		e.Update(ms(float64(i * 50)))
	}
	require.InDelta(t, minMaxWindow-overdueAge2/(50*time.Millisecond), e.out.overdue.count, 1)
}

// TestLossOfOne loses one packet of many. However small and young the window
// is, the figure must not take that for an outage.
func TestLossOfOne(t *testing.T) {
	for _, rate := range []int{1, 3, 10, 20, 27, 60, 200} {
		for _, before := range []int{1, 3, 20, 40, 300} {
			s := newSim(t, connConfig(), simLink{delay: 20 * time.Millisecond})
			a := s.peers[0]
			send := func(n int) (worst float32) {
				for range n {
					s.send(0, a.message(20))
					for end := s.now + time.Second/time.Duration(rate); s.now < end; {
						s.advance(min(end-s.now, time.Second/60))
						a.Update(s.time())
						worst = max(worst, a.Stats().PacketLoss)
					}
				}
				return worst
			}
			send(before)
			for _, pause := range []bool{false, true} {
				if pause {
					s.advance(11 * time.Second)
					a.Compact(s.time())
					send(1)
				}
				s.links[0].loss = 1
				worst := send(1)
				s.links[0].loss = 0
				if worst = max(worst, send(80)); worst > 12 {
					t.Errorf("%d a second, one of %d lost, after a pause: %t: figure %.1f, want less", rate, before+81, pause, worst)
				}
			}
		}
	}
}

// TestLossOfLast loses the last of a few packets, and looks at the figure while
// nothing is sent and nothing heard: it is one of so many, and no outage.
func TestLossOfLast(t *testing.T) {
	for _, before := range []int{1, 3, 9, 39, 299} {
		s := newSim(t, connConfig(), simLink{delay: 20 * time.Millisecond})
		a := s.peers[0]
		for range before {
			s.send(0, a.message(20))
			s.advance(100 * time.Millisecond)
			a.Update(s.time())
		}
		s.links[0].loss = 1
		s.send(0, a.message(20))
		var worst float32
		for range 60 * 9 {
			s.advance(time.Second / 60)
			a.Update(s.time())
			worst = max(worst, a.Stats().PacketLoss)
		}
		if most := 100 / float32(min(before+1, 16)); worst > most+1 {
			t.Errorf("the last of %d lost: figure %.1f, want at most %.1f", before+1, worst, most)
		}
	}
}

// TestLossOfSlowLink has round trips of three seconds, and nothing is lost.
func TestLossOfSlowLink(t *testing.T) {
	s := newSim(t, connConfig(), simLink{delay: 1500 * time.Millisecond})
	a := s.peers[0]
	overdue := 0
	for i := range 10 * 60 {
		s.send(0, a.message(20))
		a.Update(s.time())
		overdue = max(overdue, int(a.out.overdue.count))
		if loss := a.Stats().PacketLoss; i > 100 && loss > 2 {
			t.Fatalf("loss figure %.2f after %v", loss, s.now)
		}
		s.advance(time.Second / 10)
	}
	if overdue == 0 {
		t.Error("nothing was overdue before the first ack")
	}
	s.settle()
	s.check()
	if n := a.out.overdue.count; n != 0 {
		t.Errorf("%d packets are overdue with none in flight", n)
	}
}

// overdueAge2 is overdueAge as a duration.
const overdueAge2 = time.Duration(overdueAge)

// TestLostByAge waits for the fate of packets that nobody answers.
func TestLostByAge(t *testing.T) {
	s := newSim(t, connConfig(), simLink{loss: 1})
	a := s.peers[0]
	for range 5 {
		s.send(0, a.message(20))
		s.advance(time.Second)
	}
	for want := range 6 {
		s.now = defaultLostAfter + time.Duration(want-1)*time.Second
		a.Update(s.time())
		if len(a.fates) != want || a.InFlight() != 5-want {
			t.Errorf("after %v: %d fates, %d in flight, want %d, %d", s.now, len(a.fates), a.InFlight(), want, 5-want)
		}
	}
	for id, fate := range a.fates {
		if fate != FateLost {
			t.Errorf("message %d: %v, want Lost", id, fate)
		}
	}
}

// A message is lost when one is acknowledged that was sent a margin later, and not
// before; the margin grows when that was wrong.
func TestLostByHeaders(t *testing.T) {
	d := newStranger(t)
	fates := 0
	d.e.fated = true
	d.e.handler = fateFunc(func(id uint64, fate Fate, _ time.Duration) {
		if fate == FateLost {
			fates++
		}
	})
	at, s := d.warm(10) // 40 ms: the margin is 45 ms
	lost := uint16(10)
	d.send(at + 100)
	d.send(at + 140)
	d.hear(at+180, Header{s, lost + 1, 1}, 'x')
	if fates != 0 {
		t.Fatal("lost 40 ms after a round trip of 40 ms")
	}
	d.send(at + 146)
	d.hear(at+186, Header{s + 1, lost + 2, 0b10}, 'x') // it names lost+1 at most
	if fates != 0 {
		t.Fatal("lost by an ack without its bit")
	}
	d.hear(at+186, Header{s + 2, lost + 2, 0b11}, 'x')
	if fates != 1 {
		t.Fatalf("%d lost when one is acknowledged that was sent 46 ms later, want 1", fates)
	}
	margin := d.e.lossMargin()
	d.hear(at+190, Header{s + 3, lost + 2, 0b111}, 'x')
	if grown := d.e.lossMargin(); grown < margin*5/4-int64(time.Millisecond) || grown > margin*5/4+int64(time.Millisecond) {
		t.Errorf("the margin was %v, and is %v after it was wrong", time.Duration(margin), time.Duration(grown))
	}
	if n := d.e.Counters().PacketsAcked; n != 13 || fates != 1 || d.e.InFlight() != 0 {
		t.Errorf("%d packets acknowledged, %d fates, %d in flight, want 13, 1, 0", n, fates, d.e.InFlight())
	}
}

// A header that shows many losses does not tell all of them at once, because that would take
// long. The next ones tell the rest.
func TestLostByOneHeader(t *testing.T) {
	for _, sent := range []int{3000, 900} {
		lost := 0
		d := &dialogue{t: t}
		d.e, _ = newEndpoint(&Config{AckDelay: 100 * time.Millisecond, MaxWindow: 16384}, testTime(0), fateFunc(func(_ uint64, fate Fate, _ time.Duration) {
			if fate == FateLost {
				lost++
			}
		}))
		for i := range sent {
			d.send(float64(i) / 10)
		}
		for s := uint16(0); lost < sent; s++ {
			d.send(5000)
			before := lost
			d.hear(5040, Header{s, uint16(sent) + s, 1}, 'x')
			require.LessOrEqual(t, lost-before, 2*mostDecided)
			require.Greater(t, lost, before)
		}
	}
}

// Nor does one look past all packets that are decided.
func TestDecidedByOneHeader(t *testing.T) {
	d := newStranger(t)
	o := &d.e.out
	*o = outbound{ring: make([]sentRecord, 4096), count: 3000, nextID: 3000}
	for i := range o.ring {
		o.ring[i].mark = markAcked
	}
	for o.decidedTo < 2999 {
		before := o.decidedTo
		o.passBy(Header{0, 2999, 1}, nil)
		require.LessOrEqual(t, o.decidedTo-before, uint64(2*mostDecided))
		require.Greater(t, o.decidedTo, before)
	}
}

type fateFunc func(uint64, Fate, time.Duration)

func (f fateFunc) HandleMessage(uint16, []byte) bool { return true }

func (f fateFunc) HandleFate(id uint64, fate Fate, rtt time.Duration) { f(id, fate, rtt) }

// The margin that was wrong often shrinks again while losses are true.
func TestMarginDecays(t *testing.T) {
	d := newDialogue(t)
	d.warm(10)
	first := d.e.lossMargin()
	for range 50 {
		d.e.out.overtaken()
	}
	most := d.e.lossMargin()
	if want := maxScale / scaleUnit * first; most > want || most < want*9/10 {
		t.Errorf("the margin has grown to %v, want %v", time.Duration(most), time.Duration(want))
	}
	at := 2000.0
	for d.e.out.scale > 0 && at < 200_000 {
		d.send(at)
		d.send(at + 900) // more than the margin
		d.hear(at+940, Header{d.e.in.seen.Next(), uint16(d.e.NextID()) - 1, 1}, 'x')
		at += 1000
	}
	if m := d.e.lossMargin(); m >= most {
		t.Errorf("the margin is still %v", time.Duration(m))
	}
}
