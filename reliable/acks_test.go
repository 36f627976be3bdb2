package reliable

import (
	"testing"
	"time"
)

// TestAckDue follows the policy of ack-only packets, packet by packet.
func TestAckDue(t *testing.T) {
	const delay = 10 * time.Millisecond
	ms := func(n float64) time.Time { return testTime(n / 1000) }
	e, _ := New(nil, ms(0), nil)
	var out Batch
	receive := func(at float64, s uint16, payload ...byte) {
		t.Helper()
		if v := e.Receive(ms(at), append(AppendHeader(nil, Header{s, 65535, 0}), payload...)); v != Delivered {
			t.Fatalf("packet %d: %v", s, v)
		}
	}
	check := func(at float64, want bool, wantAt float64) {
		t.Helper()
		wait, owed := e.AckDue(ms(at), delay)
		switch {
		case wantAt < 0:
			if owed || wait != 0 {
				t.Errorf("at %v ms: AckDue = %v, %v, want nothing owed", at, wait, owed)
			}
		case !owed || (wait == 0) != want || wait != ms(wantAt).Sub(ms(at)):
			t.Errorf("at %v ms: AckDue = %v, %v, want %v", at, wait, owed, ms(wantAt).Sub(ms(at)))
		}
	}
	check(0, false, -1)
	receive(1, 0) // empty
	check(1, false, -1)
	receive(2, 1, 'x') // nothing of ours ever left
	check(2, true, 2)
	mustSend(t, e, ms(3), nil, &out)
	check(3, false, -1)
	receive(4, 2, 'x')
	check(4, false, 13)
	receive(5, 4, 'x')
	check(5, false, 13)
	check(13, true, 13)
	mustSend(t, e, ms(13), nil, &out)
	check(13, false, -1)
	receive(14, 3, 'x') // overtaken, and not in the last header
	check(14, false, 23)
	mustSend(t, e, ms(15), []byte("data acks too"), &out)
	check(15, false, -1)
	if v := e.Receive(ms(15), append(AppendHeader(nil, Header{3, 65535, 0}), 'x')); v != Duplicate {
		t.Errorf("duplicate: %v", v)
	}
	check(15, false, -1)
	for s := uint16(5); s < 20; s++ { // 4 is the ack of our last header
		receive(16, s, 'x')
		check(16, false, 25)
	}
	receive(16, 20, 'x')
	check(16, true, 16)
	mustSend(t, e, ms(16), nil, &out)
	receive(17, 36) // a gap, but empty
	check(17, false, -1)
	receive(17, 40, 'x')
	check(17, true, 17)
	mustSend(t, e, ms(17), nil, &out)
	e.stats.PacketLoss = 2.1
	receive(18, 47, 'x')
	check(18, false, 27)
	receive(18, 48, 'x')
	check(18, true, 18)
	mustSend(t, e, ms(18), nil, &out)
	check(18, false, -1)
	fragment := AppendFragmentHeader(nil, FragmentHeader{49, 1, 2})
	e.Receive(ms(19), append(fragment, 'x'))
	check(19, false, 28)
	mustSend(t, e, ms(20), nil, &out)
	whole := AppendHeader(AppendFragmentHeader(nil, FragmentHeader{49, 0, 2}), Header{49, 65535, 0})
	if v := e.Receive(ms(21), append(whole, make([]byte, 1024)...)); v != Delivered {
		t.Errorf("last fragment: %v", v)
	}
	check(21, false, 30)
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
		if got != h || n != len(b) || n != h.Size() || err != nil {
			t.Errorf("ParseHeader(%x) = %+v, %d, %v, want %+v", b, got, n, err, h)
		}
		for cut := range b {
			if _, _, err := ParseHeader(b[:cut]); err == nil {
				t.Errorf("ParseHeader(%x) succeeded, want an error", b[:cut])
			}
		}
	}
	// The packets arrive, and are acknowledged as they are to the writer.
	reader, _ := New(nil, testTime(0), nil)
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
	writer, _ := New(nil, testTime(0), nil)
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
	const all = 1<<32 - 1
	type step struct {
		sent    int // in all, before the header
		ack     uint16
		bits    uint32
		acked   int  // packets, in all
		invalid bool // counted
	}
	for name, steps := range map[string][]step{
		"heard nothing": {{10, 65535, 0, 0, false}, {10, 3, 0xf, 4, false}},
		"a fresh peer of one who has sent nothing": {{0, 65535, 0, 0, false}, {0, 0, 1, 0, true}},
		"bits behind a packet never sent":          {{10, 20, all, 0, true}},
		"the same later on":                        {{10, 9, 0x3ff, 10, false}, {20, 25, all, 10, true}, {20, 19, 0x3ff, 20, false}},
		"far ahead":                                {{10, 32000, all, 0, true}},
		"far behind":                               {{10, 65000, all, 0, true}, {10, 9, 1, 1, false}},
		"behind the first, with bits":              {{10, 65535, 1, 0, true}, {10, 9, 1, 1, false}},
		"seen but not received":                    {{10, 20, 0, 0, true}},
		// What the peer saw before it was sent stays in doubt, and what is sent
		// later does not.
		"an old connection": {
			{10, 40, all, 0, true}, {41, 40, all, 0, true}, {60, 40, all, 0, true},
			{60, 41, all, 1, false}, {60, 43, all, 3, false}, {90, 80, all, 35, false}, {200, 199, all, 67, false},
		},
		"an old connection that grows": {
			{10, 40, all, 0, true}, {10, 50, all, 0, true}, {10, 45, all, 0, true},
			{60, 50, all, 0, true}, {60, 51, all, 1, false},
		},
		// A header with a wrong ack costs no more than itself.
		"a forged header":         {{10, 30000, all, 0, true}, {10, 5, 0x3f, 6, false}, {20, 19, all, 20, false}},
		"forged once in sync":     {{10, 9, 0x3ff, 10, false}, {10, 1000, all, 10, true}, {20, 19, all, 20, false}},
		"one of an earlier lap":   {{40_000, 0, all, 0, true}, {40_000, 39_999, all, 32, false}},
		"an ack half a lap ahead": {{70_000, 37_231, all, 0, true}, {70_000, 4463, all, 32, false}},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := New(connConfig(), testTime(0), nil)
			var out Batch
			invalid := uint64(0)
			for i, s := range steps {
				for int(e.NextID()) < s.sent {
					out.Reset()
					mustSend(t, e, testTime(0), []byte{1}, &out)
				}
				if v := e.Receive(testTime(0), AppendHeader(nil, Header{uint16(i), s.ack, s.bits})); v != Delivered {
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

// A message that many empty packets follow is acknowledged while the ack field
// still covers it; empty packets alone are not.
func TestAckDueBehindEmptyPackets(t *testing.T) {
	now := testTime(0)
	e, _ := New(nil, now, nil)
	var out Batch
	receive := func(s uint16, payload ...byte) {
		t.Helper()
		if v := e.Receive(now, append(AppendHeader(nil, Header{s, 65535, 0}), payload...)); v != Delivered {
			t.Fatalf("packet %d: %v", s, v)
		}
	}
	receive(0, 'x')
	mustSend(t, e, now, nil, &out)
	for s := range uint16(100) {
		receive(1 + s)
		if _, owed := e.AckDue(now, time.Second); owed {
			t.Fatalf("an acknowledgement is owed after %d empty packets", s+1)
		}
	}
	mustSend(t, e, now, nil, &out)
	receive(101, 'x')
	for s := range uint16(ackDistance) {
		wait, owed := e.AckDue(now, time.Second)
		if !owed || (wait == 0) != (s == ackDistance-1) {
			t.Fatalf("%d empty packets behind a message: AckDue = %v, %v", s, wait, owed)
		}
		receive(102 + s)
	}
}
