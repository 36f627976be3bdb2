package reliable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A dialogue drives one Endpoint with hand-made packets.
type dialogue struct {
	t   *testing.T
	e   *Endpoint
	out Batch
}

// newDialogue is newStranger with one that has acknowledged something, and so is
// answered at once where that is due.
func newDialogue(t *testing.T) *dialogue {
	d := newStranger(t)
	d.e.answered = true
	return d
}

func newStranger(t *testing.T) *dialogue {
	e, err := newEndpoint(&Config{AckDelay: 100 * time.Millisecond, MaxWindow: 256}, testTime(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &dialogue{t: t, e: e}
}

func ms(n float64) time.Time { return testTime(n / 1000) }

// receive hands in a packet that has heard nothing.
func (d *dialogue) receive(at float64, s uint16, payload ...byte) {
	d.t.Helper()
	d.hear(at, Header{s, 65535, 0}, payload...)
}

func (d *dialogue) hear(at float64, h Header, payload ...byte) {
	d.t.Helper()
	if v := d.e.Receive(ms(at), append(AppendHeader(nil, h), payload...)); v != Delivered {
		d.t.Fatalf("at %v ms: packet %d: %v", at, h.Sequence, v)
	}
}

// due checks when a control packet is due; negative: none is.
func (d *dialogue) due(at, want float64) {
	d.t.Helper()
	wait, ok := d.e.ControlDue(ms(at))
	switch {
	case want < 0:
		if ok || wait != 0 {
			d.t.Errorf("at %v ms: ControlDue = %v, %v, want nothing", at, wait, ok)
		}
	case !ok || wait != ms(want).Sub(ms(at)):
		d.t.Errorf("at %v ms: ControlDue = %v, %v, want %v", at, wait, ok, ms(want).Sub(ms(at)))
	}
}

// control makes the control packet that is due, and checks what it acknowledges.
func (d *dialogue) control(at float64, ack uint16, ackBits uint32) {
	d.t.Helper()
	d.due(at, at)
	d.out.Reset()
	d.e.SendControl(ms(at), &d.out)
	if d.out.Len() != 1 {
		d.t.Fatalf("at %v ms: %d packets, want 1", at, d.out.Len())
	}
	if h, n, err := ParseHeader(d.out.At(0)); h.Ack != ack || h.AckBits != ackBits || err != nil || n != len(d.out.At(0)) {
		d.t.Errorf("at %v ms: header %+v of %d bytes, %v, want ack %d and bits %b alone", at, h, len(d.out.At(0)), err, ack, ackBits)
	}
}

func (d *dialogue) send(at float64) {
	d.t.Helper()
	mustSend(d.t, d.e, ms(at), []byte("message"), &d.out)
}

// listen takes the first messages, which are all sampled, one a second.
func (d *dialogue) listen() (at float64, s uint16) {
	for i := range sampledFirst + 1 {
		at, s = float64(1000*i), uint16(i)
		d.receive(at, s, 'x')
		d.control(at, s, 1<<(i+1)-1)
	}
	return at, s
}

// The first messages and then one in a few are acknowledged at once, by a packet
// that says so; the others within half the delay, by one that does not.
func TestAckOneWay(t *testing.T) {
	d := newDialogue(t)
	d.due(0, -1)
	d.listen() // the last one was at 3000 ms
	d.due(3000, -1)
	d.receive(4000, 4, 'x')
	d.due(4000, 4050)
	d.due(4049, 4050)
	d.control(4050, 5, 0b111110)
	d.receive(5000, 5, 'x')
	d.receive(5049, 6, 'x')
	d.control(5049, 6, 0b1111111) // the third since the last sample
	d.due(5050, -1)
}

// A side that has acknowledged nothing, whose address may be forged, is not answered
// at once, but as late as one to whom a message of ours may tell it: half the delay. That
// holds until it acknowledges something, and while fewer than six sequences wait.
func TestAckOfStranger(t *testing.T) {
	d := newStranger(t)
	d.receive(0, 0, 'x')
	d.due(0, 50)
	if d.e.Inner().ControlPresses() {
		t.Error("a stranger's message presses")
	}
	d.control(50, 1, 0b10)
	last := uint16(ackDistanceLossy) // there is nothing before the first
	for s := uint16(1); s <= last; s++ {
		d.due(60, map[bool]float64{true: 110, false: -1}[s > 1])
		d.receive(60, s, 'x')
	}
	d.control(60, last+1, 1<<(last+2)-2)
	d.receive(70, last+1, 'x')
	d.due(70, 120)
	d.hear(80, Header{last + 2, 1, 0b11}, 'x')
	d.control(80, last+2, 1<<(last+3)-1) // as soon as it has
	d.receive(90, last+3, 'x')
	d.control(90, last+3, 1<<(last+4)-1)
}

// The other side has acknowledged something also if its ack comes when the packet has left the window:
// after a long silence, or behind many others.
func TestAckedBehindWindow(t *testing.T) {
	for h, want := range map[Header]bool{
		{1, 1001, 1}:       true,
		{1, 1000, 1}:       true,
		{1, 1001, 0b10}:    true,
		{1, 1002, 0b11}:    false, // the next
		{1, 999, 1}:        false, // before the first
		{1, noneHeard, 0}:  false,
		{1, 1001, 1 << 31}: false,
	} {
		s := newRestarter(t, someTime, 1000)
		for range 2 {
			_, err := s.Send(someTime, nil, &s.out)
			require.NoError(t, err)
		}
		now := someTime.Add(time.Minute)
		s.Compact(now)
		require.False(t, s.Acked())
		s.Receive(now, append(AppendHeader(nil, h), 1, 2, 3, 4))
		require.Equal(t, want, s.Acked(), "%v", h)
		require.Zero(t, s.Counters().PacketsAcked)
		s.Reset()
		require.False(t, s.Acked())
	}

	o := &outbound{first: 1000, nextID: 1050}
	for h, want := range map[Header]bool{
		{0, 1049, 1}: true, {0, 1049, 0}: false, {0, 1050, 1}: false, {0, 1050, 0b10}: true,
		{0, 1000, 1}: true, {0, 1000, 0b10}: false, {0, 999, 1}: false, {0, 1031, 1 << 31}: true, {0, 1030, 1 << 31}: false,
	} {
		require.Equal(t, want, o.names(h), "%v", h)
	}
	o.nextID = 2000
	require.True(t, o.names(Header{0, 1744, 1}))
	require.False(t, o.names(Header{0, 1743, 1}), "a guess would name it soon")
}

// Packets that left before anything was heard tell of no round trip: whoever they
// reached did not answer at once. Those behind them do, also by a message.
func TestNoSampleOfStranger(t *testing.T) {
	d := newStranger(t)
	d.send(0)
	d.send(1)
	d.hear(90, Header{0, 1, 0b11}, 'x')
	if s := d.e.Stats(); s.RTT != 0 || d.e.Counters().PacketsAcked != 2 {
		t.Errorf("RTT = %v of packets that were sent blindly, want none", s.RTT)
	}
	d.send(100)
	d.hear(140, Header{1, 2, 0b111}, 'x')
	if s := d.e.Stats(); s.RTT != 40 {
		t.Errorf("RTT = %v, want 40", s.RTT)
	}
}

// Messages of our own carry the acknowledgement where they come in a rhythm.
func TestAckInRhythm(t *testing.T) {
	d := newDialogue(t)
	d.listen()
	for at := 4000.0; at < 4200; at += 40 {
		d.send(at)
	}
	d.receive(4170, 4, 'x')
	d.due(4170, 4220) // half of the delay; the message was to come by 4210
	d.send(4200)
	if _, ok := d.e.ackDue(); ok {
		t.Error("a message did not acknowledge")
	}
	d.receive(4239, 5, 'x')
	d.due(4239, 4289) // half of the delay; the message was to come by 4250
	d.control(4289, 6, 0b1111110)
	d.receive(4400, 6, 'x')
	d.control(4400, 6, 0b1111111) // the third since the last sample
	d.receive(4500, 7, 'x')       // the rhythm is over
	d.due(4500, 4550)
}

// The next message of a rhythm is waited for, with the quarter by which it may be
// late: for half of the delay at least, and not where it comes after the delay.
func TestAckWaitsForRhythm(t *testing.T) {
	for _, test := range []struct{ interval, want float64 }{
		{0.6, 50}, {12, 50}, {39, 50}, {44, 55},
		{76, 95}, {80, 100}, {84, 50}, {200, 50},
	} {
		d := newDialogue(t)
		d.listen()
		at := 4000.0
		for range 5 {
			at += test.interval
			d.send(at)
		}
		d.receive(at, 4, 'x')
		d.due(at, at+test.want)
	}
}

// An empty packet is answered while the other side may not know what we have received,
// but not within a round trip of our last packet, which it has not seen yet. Otherwise
// two sides with a long way between them would answer each other's answers for ever.
func TestAckOfEmpty(t *testing.T) {
	for _, test := range []struct {
		rtt, recent, after float64
		answered           bool
	}{
		{0, 0, 1, true}, {40, 40, 39, false}, {40, 40, 40, true}, {40, 90, 89, false}, {90, 40, 89, false}, {90, 90, 91, true},
	} {
		d := newDialogue(t)
		d.listen()
		d.receive(4000, 4, 'x')
		d.e.meter.stats.RTT = float32(test.rtt)
		d.e.acks.talk.recent = int64(test.recent * 1e6)
		d.send(4010)
		at := 4010 + test.after
		d.receive(at, 5)
		if test.answered {
			d.due(at, at+50)
		} else if _, ok := d.e.ackDue(); ok {
			t.Errorf("%+v: an answer is due", test)
		}
	}
}

// A message that will be sampled is waited for where it should come within five
// eighths of the delay, with the quarter by which it may be late, but no longer.
func TestAckWaitsForSample(t *testing.T) {
	for _, test := range []struct{ interval, want float64 }{
		{22, 50}, {24, 54}, {27, 60.75}, {28, 62.5}, {31, 62.5}, {32, 50},
	} {
		d := newDialogue(t)
		at, s := d.listen()
		for range 3 {
			at, s = at+test.interval, s+1
			d.receive(at, s, 'x')
		}
		d.control(at, s, 1<<(s+1)-1) // one in three is sampled
		at, s = at+test.interval, s+1
		d.receive(at, s, 'x')
		d.due(at, at+test.want)
	}
}

// TestAckBitsPatterns checks that the header's ack bits are those of
// the packets received, in every pattern of each byte.
func TestAckBitsPatterns(t *testing.T) {
	for position := range 4 {
		for pattern := range 256 {
			for _, rest := range []uint32{0, 0xffffffff} {
				mask := uint32(0xff) << (8 * position)
				ackBits := rest&^mask | uint32(pattern)<<(8*position)
				checkAckBits(t, ackBits)
			}
		}
	}
}

func checkAckBits(t *testing.T, ackBits uint32) {
	t.Helper()
	for _, h := range []Header{{100, 99, ackBits}, {3, 65530, ackBits}, {0, 1, ackBits}, {300, 44, ackBits}, {300, 45, ackBits}} {
		b := AppendHeader(nil, h)
		got, n, err := ParseHeader(append(b, 0xff))
		if got != h || n != len(b) || n != h.size() || err != nil {
			t.Errorf("ParseHeader(%x) = %+v, %d, %v, want %+v", b, got, n, err, h)
		}
		for cut := range b {
			if _, _, err := ParseHeader(b[:cut]); err == nil {
				t.Errorf("ParseHeader(%x) succeeded, want an error", b[:cut])
			}
		}
	}
	// The packets arrive, and are acknowledged as they are to the writer.
	reader, _ := newEndpoint(nil, testTime(0), nil)
	for i := range uint16(32) {
		if s := 1000 + i; ackBits&(1<<(31-i)) != 0 || i == 31 {
			reader.Receive(testTime(0), AppendHeader(nil, Header{s, 65535, 0}))
		}
	}
	var out Batch
	mustSend(t, reader, testTime(0), nil, &out)
	if h, _, _ := ParseHeader(out.At(0)); h.Ack != 1031 || h.AckBits != ackBits|1 {
		t.Errorf("header %+v, want ack 1031 and bits %x", h, ackBits|1)
	}
	writer, _ := newEndpoint(nil, testTime(0), nil)
	for range 1032 {
		mustSend(t, writer, testTime(0), []byte{1}, &out)
	}
	writer.Receive(testTime(0), AppendHeader(nil, Header{0, 1031, ackBits}))
	want := 0
	for i := range uint16(32) {
		if ackBits&(1<<i) != 0 {
			if want >= len(writer.Acks()) || writer.Acks()[want] != 1031-i {
				t.Fatalf("ack bits %x: acks %v", ackBits, writer.Acks())
			}
			want++
		}
	}
	if len(writer.Acks()) != want {
		t.Errorf("ack bits %x: acks %v", ackBits, writer.Acks())
	}
}

// TestAckGuard gives an endpoint that has sent some packets one header after
// the other, and checks which packets each acknowledges.
func TestAckGuard(t *testing.T) {
	const (
		all        = 1<<32 - 1
		msg, empty = true, false
	)
	type step struct {
		sent    int // in all, before the header
		ack     uint16
		bits    uint32
		acked   int  // packets, in all
		invalid bool // counted
		message bool // behind the header
	}
	for name, steps := range map[string][]step{
		"heard nothing": {{10, 65535, 0, 0, false, msg}, {10, 3, 0xf, 4, false, msg}},
		"a fresh peer of one who has sent nothing": {{0, 65535, 0, 0, false, msg}, {0, 0, 1, 0, true, msg}},
		"bits behind a packet never sent":          {{10, 20, all, 0, true, msg}},
		"the same later on":                        {{10, 9, 0x3ff, 10, false, msg}, {20, 25, all, 10, true, msg}, {20, 19, 0x3ff, 20, false, msg}},
		"the first packet, before there was one":   {{0, 0, 1, 0, true, msg}, {2, 0, 1, 0, true, msg}, {2, 1, 0b11, 1, false, msg}},
		"far ahead":                                {{10, 32000, all, 0, true, msg}},
		"far behind":                               {{10, 65000, all, 0, true, msg}, {10, 9, 1, 1, false, msg}},
		"behind the first, with bits":              {{10, 65535, 1, 0, true, msg}, {10, 9, 1, 1, false, msg}},
		"seen but not received":                    {{10, 20, 0, 0, true, msg}},
		// What the peer saw before it was sent stays in doubt, and what is sent
		// later does not.
		"an old connection": {
			{10, 40, all, 0, true, msg}, {41, 40, all, 0, true, msg}, {60, 40, all, 0, true, msg},
			{60, 41, all, 1, false, msg}, {60, 43, all, 3, false, msg}, {90, 80, all, 35, false, msg}, {200, 199, all, 67, false, msg},
		},
		"an old connection that grows": {
			{10, 40, all, 0, true, msg}, {10, 50, all, 0, true, msg}, {10, 45, all, 0, true, msg},
			{60, 50, all, 0, true, msg}, {60, 51, all, 1, false, msg},
		},
		// The old connection takes 29 and 45 for two of our predecessor's that got
		// lost, and says so in packets of their own.
		"an old connection with gaps": {
			{10, 149, all, 0, true, msg}, {33, 29, 0xff, 1, false, empty}, {60, 45, all, 2, false, empty},
			{60, 150, all, 2, true, msg}, {149, 148, all, 3, false, empty}, {151, 150, all, 3, true, msg}, {160, 151, all, 4, false, msg},
		},
		"an old connection that begins anew": {
			{10, 149, all, 0, true, msg}, {60, 45, 0xff, 8, false, msg}, {60, 47, 0x3ff, 10, false, empty},
		},
		// A header with a wrong ack costs no more than itself.
		"a forged header":                {{10, 30000, all, 0, true, msg}, {10, 5, 0x3f, 6, false, msg}, {20, 19, all, 20, false, msg}},
		"forged once in sync":            {{10, 9, 0x3ff, 10, false, msg}, {10, 1000, all, 10, true, msg}, {20, 19, all, 20, false, msg}},
		"one of an earlier lap":          {{40_000, 0, all, 0, true, msg}, {40_000, 39_999, all, 32, false, msg}},
		"an ack half a lap ahead":        {{40, 32_807, all, 0, true, msg}, {40, 39, all, 32, false, msg}},
		"the same without more messages": {{40, 32_807, all, 0, true, msg}, {40, 39, all, 1, false, empty}},
		"nearly half a lap behind":       {{40_000, 7232, all, 0, false, msg}},
		"half a lap behind":              {{40_000, 7231, all, 0, true, msg}},
		// What is wrong once all that was in doubt has been sent costs no more than itself.
		"forged after an old connection": {
			{10, 40, all, 0, true, msg}, {33, 29, 0xff, 1, false, empty}, {41, 100, all, 1, true, msg}, {60, 45, all, 6, false, msg},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := newEndpoint(connConfig(), testTime(0), nil)
			var out Batch
			invalid := uint64(0)
			for i, s := range steps {
				for int(e.NextID()) < s.sent {
					out.Reset()
					mustSend(t, e, testTime(0), []byte{1}, &out)
				}
				datagram := AppendHeader(nil, Header{uint16(i), s.ack, s.bits})
				if s.message {
					datagram = append(datagram, 'x')
				}
				if v := e.Receive(testTime(0), datagram); v != Delivered {
					t.Fatalf("header %d: %v", i, v)
				}
				if s.invalid {
					invalid++
				}
				if c := e.Counters(); int(c.PacketsAcked) != s.acked || c.AcksInvalid != invalid {
					t.Errorf("header %d: %d acked, %d headers invalid, want %d and %d",
						i, c.PacketsAcked, c.AcksInvalid, s.acked, invalid)
				}
			}
		})
	}
}

// Empty packets alone end the doubt about what a predecessor has sent only when
// the peer has not spoken of that for half a minute.
func TestAckGuardInSilence(t *testing.T) {
	for _, test := range []struct {
		silence time.Duration
		acked   int
	}{{30 * time.Second, 1}, {30*time.Second + 1, 6}} {
		e, _ := newEndpoint(connConfig(), testTime(0), nil)
		var out Batch
		for range 60 {
			mustSend(t, e, testTime(0), []byte{1}, &out)
		}
		hear := func(at time.Duration, h Header, payload string) {
			e.Receive(testTime(0).Add(at), append(AppendHeader(nil, h), payload...))
		}
		hear(0, Header{0, 90, 1<<32 - 1}, "x")
		hear(time.Minute, Header{1, 90, 1<<32 - 1}, "")
		hear(time.Minute+test.silence, Header{2, 5, 0x3f}, "")
		if got := int(e.Counters().PacketsAcked); got != test.acked {
			t.Errorf("after %v: %d acked, want %d", test.silence, got, test.acked)
		}
	}
}

// A message that many empty packets follow is acknowledged while the ack field
// still covers it; empty packets alone are not, once the other side knows what
// we have received.
func TestAckBehindEmptyPackets(t *testing.T) {
	d := newDialogue(t)
	d.receive(0, 0, 'x')
	d.control(0, 0, 1)
	d.receive(0, 1)
	d.due(0, 50) // it does not know yet
	d.control(50, 2, 0b110)
	for s := range uint16(100) {
		d.hear(50, Header{2 + s, 2, 0b110})
		d.due(50, -1)
	}
	for s := uint16(102); s < 105; s++ { // samples
		d.receive(50, s, 'x')
		d.control(50, s, 0xffffffff)
	}
	d.receive(50, 105, 'x')
	for s := range uint16(ackDistance - 1) {
		d.due(50, 100)
		d.hear(50, Header{106 + s, 5, 0b111110})
	}
	d.due(50, 50)
}

// ControlPresses tells within a batch, at one time, what ControlDue would tell of
// each packet: samples, the distance of acks, a gap, and one that comes late.
func TestControlPresses(t *testing.T) {
	e, err := newEndpoint(&Config{AckDelay: 100 * time.Millisecond, MaxWindow: 256}, testTime(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.Inner().ControlPresses() {
		t.Error("a fresh endpoint wants a control packet")
	}
	e.answered = true
	var out Batch
	pressed := 0
	receive := func(now time.Time, s uint16) {
		e.Receive(now, append(AppendHeader(nil, Header{s, 65535, 0}), 'x'))
		wait, ok := e.ControlDue(now)
		if due := ok && wait == 0; due && !e.Inner().ControlPresses() {
			t.Errorf("packet %d: a control packet is due at once, and nothing presses", s)
		}
		if e.Inner().ControlPresses() {
			pressed++
			out.Reset()
			e.SendControl(now, &out)
		}
	}
	s := uint16(0)
	for batch := range 20 {
		now := testTime(float64(batch) * 10)
		if wait, ok := e.ControlDue(now); ok && wait == 0 { // by time
			e.SendControl(now, &out)
		}
		for range 40 {
			receive(now, s)
			s++
		}
	}
	if pressed < 20*40/ackDistance || pressed > 20*40/2 {
		t.Errorf("%d control packets for %d messages", pressed, 20*40)
	}
	now := testTime(1000)
	e.SendControl(now, &out) // what is owed by time
	receive(now, s)
	before := pressed
	receive(now.Add(time.Second), s+40)  // behind a gap
	receive(now.Add(2*time.Second), s+1) // and one of those that were missing, late
	if pressed < before+2 {
		t.Errorf("%d control packets for a gap and a late packet, want 2", pressed-before)
	}
}

// Copies of a message whose sender has heard nothing are acknowledged, since it may have
// started again: once in 100 ms, and once a millisecond if it has acknowledged something
// before, so that its address is not forged.
func TestAnswerBeginner(t *testing.T) {
	d := newStranger(t)
	answers := func(from, to int) (n int) {
		for at := from; at < to; at++ {
			d.e.Receive(ms(float64(at)), append(AppendHeader(nil, Header{0, 65535, 0}), 'x'))
			d.out.Reset()
			for wait, due := d.e.ControlDue(ms(float64(at))); due && wait == 0; wait, due = d.e.ControlDue(ms(float64(at))) {
				d.e.SendControl(ms(float64(at)), &d.out)
			}
			n += d.out.Len()
		}
		return n
	}
	require.LessOrEqual(t, answers(0, 1000), 10)
	require.GreaterOrEqual(t, answers(1000, 2000), 9)
	d.send(2000)
	d.hear(2040, Header{1, uint16(d.e.NextID() - 1), 1}, 'x')
	require.Greater(t, answers(3000, 3100), 90)
	require.LessOrEqual(t, answers(4000, 4100), 101)
}
