package reliable

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// warm makes d one that has exchanged n messages with the other side, one each
// 100 ms, over a path of 40 ms: the other side acknowledges each at once, and says
// so. It returns the time of the last one, and the other side's next sequence.
func (d *dialogue) warm(n int) (at float64, s uint16) {
	d.t.Helper()
	for i := range n {
		at = 100 * float64(i)
		d.send(at)
		d.hear(at+40, Header{uint16(i), uint16(i), 1<<min(31, i+1) - 1 | 1})
		d.due(at+40, -1)
	}
	return at, uint16(n)
}

// header returns what SendControl writes now.
func (d *dialogue) header(at float64) Header {
	d.t.Helper()
	d.due(at, at)
	d.out.Reset()
	d.e.SendControl(ms(at), &d.out)
	if d.out.Len() != 1 {
		d.t.Fatalf("at %v ms: %d packets, want 1", at, d.out.Len())
	}
	h, n, err := ParseHeader(d.out.At(0))
	if err != nil || n != len(d.out.At(0)) {
		d.t.Fatalf("at %v ms: %x is no header alone", at, d.out.At(0))
	}
	return h
}

// Only an empty packet that says that it did not wait is a round-trip sample, and
// the first one ends those of messages.
func TestPromptSamples(t *testing.T) {
	d := newStranger(t)
	d.receive(0, 0)
	d.send(0)
	d.hear(90, Header{1, 0, 1}, 'x') // a message carries it, late
	if got := d.e.Stats().RTT; got != 90 {
		t.Errorf("RTT = %v before a packet that says that it did not wait, want 90", got)
	}
	d.send(100)
	d.hear(140, Header{2, 1, 0b11})
	if s := d.e.Stats(); s.RTT != 40 {
		t.Errorf("RTT = %v, want 40", s.RTT)
	}
	d.send(200)
	d.hear(290, Header{3, 3, 0b1110}) // it waited, and says so
	d.send(300)
	d.hear(390, Header{4, 3, 0b1111}, 'x')
	d.send(400)
	d.hear(440, Header{5, 4, 0b11111})
	d.hear(2440, Header{6, 4, 0b11111}) // again, by one that knows nothing of this
	d.e.Update(ms(2500))
	if s := d.e.Stats(); s.RTT != 40 || s.RTTMin != 40 || s.RTTMax != 40 || s.RTTAvg != 40 || s.JitterMax != 0 {
		t.Errorf("figures %+v, want 40 everywhere", s)
	}
	if n := d.e.Counters().PacketsAcked; n != 5 {
		t.Errorf("%d packets acknowledged, want 5", n)
	}
}

// What an empty packet of ours says: bit 0 only where it leaves as the packet
// arrives.
func TestPatientHeaders(t *testing.T) {
	for _, h := range []Header{{1, 5, 0b111}, {1, 65535, 1}, {1, 5, 1 << 31}, {1, 5, 0}, {1, 65535, 0}, {1, 0, noBits}} {
		p := h.patient()
		if p.AckBits&1 != 0 {
			t.Errorf("%+v: patient has bit 0", h)
		}
		back := p.plain()
		if h.AckBits&1 == 0 && p != h || h.AckBits&1 != 0 && (back.Ack != h.Ack || back.AckBits != h.AckBits&^(1<<31)) {
			t.Errorf("%+v: patient is %+v, and plain of that %+v", h, p, back)
		}
	}
	d := newDialogue(t)
	d.receive(0, 0, 'x')
	d.due(0, 0)
	if h := d.header(0.5); h.Ack != 1 || h.AckBits != 0b10 { // it has waited meanwhile
		t.Errorf("an acknowledgement that waited is %+v", h)
	}
	d.out.Reset()
	mustSend(t, d.e, ms(1), nil, &d.out)
	if h, _, _ := ParseHeader(d.out.At(0)); h.Ack != 1 || h.AckBits != 0b10 {
		t.Errorf("a keepalive is %+v", h)
	}
}

// A header that is one ahead of what was sent, with bit 0 clear, is no ack of what
// was never sent.
func TestAckGuardKnowsPatientHeaders(t *testing.T) {
	e, _ := newEndpoint(connConfig(), testTime(0), nil)
	var out Batch
	mustSend(t, e, testTime(0), []byte{1}, &out)
	e.Receive(testTime(0), AppendHeader(nil, Header{0, 1, 0b10}))
	if c := e.Counters(); c.AcksInvalid != 0 || c.PacketsAcked != 1 {
		t.Errorf("%d headers invalid, %d packets acknowledged, want 0 and 1", c.AcksInvalid, c.PacketsAcked)
	}
	// An old connection's: nothing up to what it has seen counts, and no more.
	e, _ = newEndpoint(connConfig(), testTime(0), nil)
	e.Receive(testTime(0), AppendHeader(nil, Header{0, 6, 0b11111110}))
	for range 7 {
		mustSend(t, e, testTime(0), []byte{1}, &out)
	}
	e.Receive(testTime(0), AppendHeader(nil, Header{1, 7, 0b11111110}))
	if c := e.Counters(); c.AcksInvalid != 1 || c.PacketsAcked != 1 {
		t.Errorf("%d headers invalid, %d packets acknowledged, want 1 and 1", c.AcksInvalid, c.PacketsAcked)
	}
}

// What a header does not tell of stays owed, and an empty packet is worth an answer
// until the packet is confirmed that told of the newest message.
func TestAckState(t *testing.T) {
	a := ackState{}
	a.owe(10, 5)
	a.message = true
	a.sent(1, 9, 6)
	if !a.owed || !a.message || a.asked || a.last != 9 {
		t.Errorf("after a header that tells of less: %+v", a)
	}
	a.sent(2, 10, 7)
	if a.owed || a.message || !a.asked || a.last != 10 {
		t.Errorf("after a header that tells of all: %+v", a)
	}
	a.sent(3, 8, 8)
	if a.last != 10 || a.told != 2 {
		t.Errorf("after a header with an older ack: %+v", a)
	}
	if a.confirmed(1); !a.asked {
		t.Error("confirmed by an earlier packet")
	}
	if a.confirmed(3); a.asked {
		t.Error("not confirmed by a later packet")
	}
}

// A message that comes so late that ordinary headers hardly name it is named by a
// header of its own, together with its neighbours.
func TestAckOfLateMessage(t *testing.T) {
	d := newDialogue(t)
	d.listen()
	for s := uint16(4); s < 64; s++ {
		if s < 30 || s > 33 {
			d.receive(4000, s, 'x')
		}
		if wait, ok := d.e.ControlDue(ms(4000)); ok && wait == 0 {
			d.e.SendControl(ms(4000), &d.out)
		}
	}
	acked := func(h Header, s uint16) bool {
		h = h.plain()
		return h.Ack-s < 32 && h.AckBits>>(h.Ack-s)&1 != 0
	}
	d.e.acks.talk.left = 50 // none of those is a sample
	for _, s := range []uint16{31, 30} {
		d.receive(4010, s, 'x')
	}
	named := map[uint16]int{}
	for at := 4010.0; at < 4020; at++ {
		for {
			wait, ok := d.e.ControlDue(ms(at))
			if !ok || wait > 0 {
				break
			}
			h := d.header(at)
			if h.AckBits&1 != 0 {
				t.Errorf("at %v ms: %+v claims that %d has just arrived", at, h, h.Ack)
			}
			for s := uint16(30); s < 34; s++ {
				if acked(h, s) {
					named[s]++
				}
			}
		}
	}
	if named[30] == 0 || named[31] == 0 || named[32]+named[33] > 0 {
		t.Errorf("named: %v, want 30 and 31 only", named)
	}
	// Far apart, they do not wait for each other.
	for _, around := range []uint16{100, 2, 65533} {
		a := ackState{}
		a.oweLate(around, 5)
		require.EqualValues(t, 1, a.late)
		a.oweLate(around-2, 6)
		a.oweLate(around-1, 6)
		a.oweLate(around, 6)
		require.EqualValues(t, 3, a.late)
		a.oweLate(around+1, 7)
		require.Equal(t, []any{uint8(4), around + 1}, []any{a.late, a.lateTo})
		require.EqualValues(t, 5+latePause, a.lateDue(7))
		b, c := a, a
		a.oweLate(around+1-lateSpan+1, 8)
		require.EqualValues(t, 5+latePause, a.lateDue(8), "eight of them")
		a.oweLate(around+1-lateSpan, 8)
		require.EqualValues(t, 8, a.lateDue(8), "too far apart to wait for each other")
		b.oweLate(around+1+lateSpan, 8)
		require.EqualValues(t, 8, b.lateDue(8))
		c.oweLate(around+1000, 8)
		c.oweLate(around-1000, 8)
		require.EqualValues(t, 8, c.lateDue(8), "further apart than can be counted")
	}
}

// The last message before silence is probed: a gap that is always answered. The
// sequence that it skips is never acknowledged, whatever the other side says.
func TestProbe(t *testing.T) {
	d := newDialogue(t)
	at, s := d.warm(10)
	d.send(at + 100)
	wait, ok := d.e.ControlDue(ms(at + 100))
	if !ok || wait <= 40*time.Millisecond || wait > 180*time.Millisecond {
		t.Fatalf("a probe is due in %v, %v, want after a round trip and the peer's wait", wait, ok)
	}
	next, sent := uint16(d.e.NextID()), d.e.Counters().PacketsSent
	probeAt := at + 100 + float64(wait)/1e6
	h := d.header(probeAt)
	if h.Sequence != next+1 || d.e.Counters().PacketsSent != sent+1 {
		t.Errorf("the probe has sequence %d, want %d", h.Sequence, next+1)
	}
	acked := d.e.Counters().PacketsAcked
	d.hear(probeAt+40, Header{s, h.Sequence, 0b011})
	if got := d.e.Counters().PacketsAcked; got != acked+1 || d.e.InFlight() != 0 {
		t.Errorf("%d packets acknowledged by an answer to the probe, %d in flight, want 1 and 0", got-acked, d.e.InFlight())
	}
	d.due(probeAt+40, -1)
}

// Probes are few, and none leaves before the other side has acknowledged anything.
func TestProbesAreFew(t *testing.T) {
	for _, known := range []bool{false, true} {
		d := newStranger(t)
		at := 0.0
		if known {
			at, _ = d.warm(10)
		}
		d.send(at + 100)
		n, last := 0, at+100
		for now := at + 100; now < at+60_000; now++ {
			if wait, ok := d.e.ControlDue(ms(now)); ok && wait == 0 {
				d.header(now)
				if gap := now - last; n > 1 && gap < 200 {
					t.Errorf("probe %d after %v ms, want doubling distances", n, gap)
				}
				n, last = n+1, now
			}
		}
		if want := map[bool]int{true: maxProbes}[known]; n != want {
			t.Errorf("known: %t: %d probes, want %d", known, n, want)
		}
	}
}

// The rhythm is that of steady messages; pauses, bursts and single ones are none.
func TestRhythm(t *testing.T) {
	const milli = int64(time.Millisecond)
	r := rhythm{latest: never}
	r.note(0)
	if _, ok := r.next(0); ok {
		t.Error("one message makes a rhythm")
	}
	for i := range int64(20) {
		r.note((i + 1) * 20 * milli)
		r.note((i+1)*20*milli + milli/4) // a second one of the same burst
	}
	latest := 400*milli + milli/4
	if at, ok := r.next(latest + 5*milli); !ok || at < latest+20*milli || at > latest+26*milli {
		t.Errorf("next = %v, %t, want 20 ms and a quarter after the last one", time.Duration(at-latest), ok)
	}
	if at, ok := r.next(latest + 30*milli); !ok || at > latest+36*milli {
		t.Errorf("next of one that comes later than ours = %v, %t, want a quarter of the interval later", time.Duration(at-latest), ok)
	}
	if r.alive(latest + 50*milli) {
		t.Error("the rhythm is alive after two and a half intervals")
	}
	for interval, longest := range map[int32]int64{4: 9, 400: 900} {
		r := rhythm{interval: interval}
		require.True(t, r.alive(longest))
		require.False(t, r.alive(longest+1))
	}
	r.note(latest + rhythmRest)
	if _, ok := r.next(latest + rhythmRest); ok {
		t.Error("the rhythm is alive after a pause")
	}
}

// The loss figure counts what was decided last, and falls in idleness.
func TestRecentFates(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var f recentFates
	var model []bool
	for range 2000 {
		if rng.IntN(20) == 0 {
			f.revoke()
			for i := len(model) - 1; i >= max(0, len(model)-recentMost); i-- {
				if model[i] {
					model[i] = false
					break
				}
			}
		} else {
			lost := rng.IntN(4) == 0
			f.add(lost)
			model = append(model, lost)
		}
		overdue := rng.IntN(80)
		n, lost := min(overdue, recentMost), min(overdue, recentMost)
		for i := len(model) - 1; i >= 0 && n < recentMost; i-- {
			n++
			if model[i] {
				lost++
			}
		}
		if got, want := f.share(overdue), float32(lost)/float32(max(n, recentLeast)); got != want {
			t.Fatalf("share(%d) of %v = %v, want %v", overdue, model, got, want)
		}
	}
}

// TestAnswersEnd runs two endpoints over links that lose half of the packets. In
// idleness each keepalive causes less than one answer on average, so answers end.
func TestAnswersEnd(t *testing.T) {
	for _, link := range []simLink{
		{delay: 20 * time.Millisecond, loss: 0.5},
		{delay: 20 * time.Millisecond, loss: 0.5, jitter: 30 * time.Millisecond, dup: 0.3},
		{delay: 20 * time.Millisecond, dup: 0.5, jitter: 30 * time.Millisecond},
	} {
		s := newSim(t, connConfig(), link)
		for range 100 {
			s.send(0, s.peers[0].message(20))
			s.send(1, s.peers[1].message(20))
			s.advance(30 * time.Millisecond)
		}
		s.advance(30 * time.Second) // the last probes
		before := s.peers[0].Counters().PacketsSent + s.peers[1].Counters().PacketsSent
		const keepalives = 2000
		for range keepalives {
			s.send(0, nil)
			s.advance(2500 * time.Millisecond)
			s.send(1, nil)
			s.advance(2500 * time.Millisecond)
		}
		n := s.peers[0].Counters().PacketsSent + s.peers[1].Counters().PacketsSent - before
		t.Logf("%+v: %d packets for %d keepalives", link, n, 2*keepalives)
		if n > 3*keepalives {
			t.Errorf("%+v: %d packets for %d keepalives, want fewer than half as many answers", link, n, 2*keepalives)
		}
	}
}

// LossDue is when Update presumes the oldest packet lost.
func TestLossDue(t *testing.T) {
	for _, after := range []time.Duration{0, 2 * time.Second, -1} {
		cfg := connConfig()
		cfg.LostAfter = after
		e, _ := newEndpoint(cfg, testTime(0), nil)
		var out Batch
		if _, ok := e.Inner().LossDue(testTime(0)); ok {
			t.Error("a loss is due before anything was sent")
		}
		mustSend(t, e, testTime(1), []byte{1}, &out)
		mustSend(t, e, testTime(2), []byte{1}, &out)
		wait, ok := e.Inner().LossDue(testTime(2))
		want := map[time.Duration]time.Duration{0: 9 * time.Second, 2 * time.Second: time.Second}[after]
		if wait != want || ok != (after >= 0) {
			t.Errorf("LostAfter %v: LossDue = %v, %t, want %v", after, wait, ok, want)
		}
		if ok {
			e.Update(testTime(2).Add(want - 1))
			if e.InFlight() != 2 {
				t.Errorf("LostAfter %v: lost too early", after)
			}
			e.Update(testTime(2).Add(want))
			if wait, ok := e.Inner().LossDue(testTime(2).Add(want)); e.InFlight() != 1 || wait != time.Second || !ok {
				t.Errorf("LostAfter %v: %d in flight, LossDue = %v, %t, want 1 and 1s", after, e.InFlight(), wait, ok)
			}
		} else if e.Update(testTime(1e6)); e.InFlight() != 2 {
			t.Error("age has decided, though it should not")
		}
	}
}

// A message whose last fragment comes late is acknowledged at once, as a late
// packet is: headers have told for some time that it is missing.
func TestAckOfLateFragment(t *testing.T) {
	d := newDialogue(t)
	d.listen()
	fragment := func(at float64, id uint8) {
		b := AppendFragmentHeader(nil, FragmentHeader{4, id, 2})
		if id == 0 {
			b = AppendHeader(b, Header{4, 65535, 0})
		}
		d.e.Receive(ms(at), append(b, make([]byte, defaultFragmentSize)...))
	}
	fragment(4000, 0)
	for s := range uint16(ackLate) {
		d.receive(4000, 5+s, 'x')
		if wait, _ := d.e.ControlDue(ms(4000)); wait == 0 {
			d.e.SendControl(ms(4000), &d.out)
		}
	}
	d.header(4500)
	d.e.acks.talk.left = 10 // so that it is no sample
	fragment(5000, 1)
	d.control(5000, 5+ackLate, 0x3ffe)
}

// A message that is arriving, fragment by fragment, is none that is missing: in a
// flood of them one acknowledgement tells of sixteen, too.
func TestAckOfFragmentedFlood(t *testing.T) {
	d := newDialogue(t)
	sender, err := newEndpoint(&Config{MaxWindow: 256}, testTime(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	var flood Batch
	const messages = 40 * ackDistance
	controls := 0
	message := make([]byte, 4000)
	for range messages {
		flood.Reset()
		mustSend(t, sender, ms(0), message, &flood)
		for i := range flood.Len() {
			if v := d.e.Receive(ms(0), flood.At(i)); !v.Live() {
				t.Fatalf("fragment %d: %v", i, v)
			}
			if d.e.Inner().ControlPresses() {
				controls++
				d.e.SendControl(ms(0), &d.out)
			}
		}
	}
	// The first few messages are sampled, and then one in maxListenEvery, so hardly
	// any has to be acknowledged for the distance.
	if most := messages / 11; controls > most {
		t.Errorf("%d packets acknowledge %d messages, want at most %d", controls, messages, most)
	}
}

// talkEvery exchanges n messages each way, one in a step, from a time in ms on, and
// returns how many arrivals were answered at once, and the time after.
func (d *dialogue) talkEvery(from, step float64, n int) (sampled int, at float64) {
	d.t.Helper()
	at = from
	for range n {
		s := d.e.in.seen.Next()
		h := Header{s, uint16(d.e.out.nextID) - 1, 1<<32 - 1}
		if d.e.out.nextID < 32 {
			h.AckBits = 1<<d.e.out.nextID - 1
		}
		d.hear(at, h, 'x')
		if d.e.Inner().ControlPresses() {
			sampled++
			d.e.SendControl(ms(at), &d.out)
		}
		d.out.Reset()
		d.send(at)
		d.out.Reset()
		at += step
	}
	return sampled, at
}

// Where many messages go both ways, measuring takes a packet in 20 ms, not one in so
// many messages; and when they get seldom again, it does not wait for as many.
func TestSamplesOfManyMessages(t *testing.T) {
	d := newDialogue(t)
	_, at := d.talkEvery(0, 1000./60, 300)
	if n, _ := d.talkEvery(at, 0.05, 20000); n < 20 || n > 100 {
		t.Errorf("%d of 20,000 messages in a second are samples, want about 50", n)
	}
	for at += 1000; ; at += 0.05 {
		if n, _ := d.talkEvery(at, 0.05, 1); n > 0 {
			break // many are to come before the next sample
		}
	}
	before := d.e.acks.talk.sampledAt
	d.talkEvery(at+100, 100, 120)
	if since := d.e.acks.talk.sampledAt - before; since <= int64(time.Second) {
		t.Errorf("at 10 messages a second there was no sample in 12 s")
	}
	n, _ := d.talkEvery(at+12100, 100, 120)
	if n < 6 {
		t.Errorf("%d of the next 120 messages are samples, want one in 1.4 s", n)
	}
}

// What an Endpoint knows of an exchange shares no line of a processor's cache with
// anything else: an allocation of a power of two bytes is aligned to that.
func TestTalkFillsCacheLines(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("a talk is smaller where integers are aligned to 4 bytes")
	}
	require.Equal(t, 128, talkSize)
}
