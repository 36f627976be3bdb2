package reliable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// acknowledging returns a packet that acknowledges one, with a message or without.
func acknowledging(sequence, ack uint16, message bool) []byte {
	if message {
		return append(AppendHeader(nil, Header{sequence, ack, 1}), 1, 2, 3, 4)
	}
	return AppendHeader(nil, Header{sequence, ack + 1, 2})
}

// nearRestart returns an endpoint that has sent two packets, 1000 and 1001, at once, and
// then 1002. It has received 10,000 to 10,004, and then 10,006, a message or not, which
// acknowledges 1001.
func nearRestart(t testing.TB, message bool) (s *restarter, now time.Time) {
	s, now = newRestarter(t, someTime, 1000), someTime
	for i := range uint16(5) {
		now = now.Add(20 * time.Millisecond)
		require.Equal(t, Delivered, s.Receive(now, heardNothing(10_000+i)))
	}
	s.message(now, 0, 8)
	s.message(now, 1, 8)
	now = now.Add(20 * time.Millisecond)
	require.Equal(t, Delivered, s.Receive(now, acknowledging(10_006, 1001, message)))
	s.message(now, 2, 8)
	return s, now.Add(20 * time.Millisecond)
}

// A packet that fills a hole in the window shows that the other side has started anew
// if it acknowledges what none that was sent later did.
func TestRestartNearFillsHole(t *testing.T) {
	for name, test := range map[string]struct {
		spoke   bool // 10,006 was a message
		packet  []byte
		renewed bool
	}{
		"news in a message":             {true, acknowledging(10_005, 1002, true), true},
		"news without":                  {true, acknowledging(10_005, 1002, false), true},
		"news from before the window":   {true, acknowledging(9990, 1002, true), true},
		"what was sent at once":         {true, acknowledging(10_005, 1000, true), false},
		"what was said later":           {true, acknowledging(10_005, 1001, true), false},
		"nothing":                       {true, heardNothing(10_005), false},
		"what was never sent":           {true, acknowledging(10_005, 1003, true), false},
		"the next":                      {true, acknowledging(10_007, 1002, true), false},
		"only a control packet spoke":   {false, acknowledging(10_005, 1002, true), false},
		"heard nothing before the hole": {false, acknowledging(9999, 1002, true), true},
	} {
		s, now := nearRestart(t, test.spoke)
		require.Equal(t, Delivered, s.Receive(now, test.packet), name)
		require.Equal(t, test.renewed, s.Inner().Renewals() == 1, name)
		require.False(t, s.in.asking, name)
		require.Equal(t, Duplicate, s.Receive(now, test.packet), "%s: again", name)
	}
}

// A fragment that moves the window has said nothing: a packet that was sent before it may
// tell news.
func TestRestartNearFragmentSaysNothing(t *testing.T) {
	s, now := nearRestart(t, true)
	c := newRestarter(t, now, 10_008)
	all := c.message(now, 1, 3000)
	require.Equal(t, fragmentStored, s.Receive(now, all[1]))
	require.Equal(t, Delivered, s.Receive(now, acknowledging(10_007, 1002, true)))
	require.Equal(t, fragmentStored, s.Receive(now, all[0]))
	require.Equal(t, Delivered, s.Receive(now, all[2]))
	require.Zero(t, s.Inner().Renewals())
}

// A packet that comes too late for the window may tell news, too, while messages that were
// sent after it lack fragments.
func TestRestartNearUnfinishedSaysNothing(t *testing.T) {
	s, now := nearRestart(t, true)
	for _, sequence := range []uint16{10_060, 10_110} { // one further ahead would be parked
		all := newRestarter(t, now, sequence).message(now, 1, 3000)
		require.Equal(t, fragmentStored, s.Receive(now, all[1]))
	}
	require.Equal(t, Duplicate, s.Receive(now, acknowledging(10_010, 1002, true)))
	require.Zero(t, s.Inner().Renewals())
	require.Equal(t, Delivered, s.Receive(now.Add(10*time.Second), acknowledging(10_010, 1002, true)), "nothing is that late")
	require.EqualValues(t, 1, s.Inner().Renewals())
}

// The first fragment tells acks, too. If none that was sent later tells an ack as new, a packet
// that tells news shows that the other side has started anew.
func TestRestartNearUnfinishedSaysLess(t *testing.T) {
	const news, plain = 1002, 10_010 // what the packet plain tells
	for name, test := range map[string]struct {
		unfinished []Header
		message    bool
		renewed    bool
	}{
		"less":                        {[]Header{{10_060, news - 1, 1}}, true, true},
		"less, just behind it":        {[]Header{{plain + 1, news - 1, 1}}, true, true},
		"as much":                     {[]Header{{10_060, news, 1}}, true, false},
		"more":                        {[]Header{{10_060, news + 1, 1}}, true, false},
		"less and as much":            {[]Header{{10_060, news - 1, 1}, {10_061, news, 1}}, true, false},
		"as much and less":            {[]Header{{10_060, news, 1}, {10_061, news - 1, 1}}, true, false},
		"nothing heard":               {[]Header{{10_060, noneHeard, 0}}, true, false},
		"less than without a message": {[]Header{{10_060, news - 1, 1}}, false, true},
		"as much as without":          {[]Header{{10_060, news, 1}}, false, false},
	} {
		s, now := nearRestart(t, true)
		s.message(now, 3, 8) // so that there may be an ack of 1003
		for _, h := range test.unfinished {
			first := AppendHeader(AppendFragmentHeader(nil, FragmentHeader{h.Sequence, 0, 3}), h)
			require.Equal(t, fragmentStored, s.Receive(now, append(first, noise[:defaultFragmentSize]...)), name)
		}
		for _, sequence := range []uint16{10_062, plain + 64} { // so that the window forgets whether it came
			second := AppendFragmentHeader(nil, FragmentHeader{sequence, 1, 3})
			require.Equal(t, fragmentStored, s.Receive(now, append(second, noise[:defaultFragmentSize]...)), name)
		}
		v := s.Receive(now, acknowledging(plain, news, test.message))
		require.Equal(t, test.renewed, s.Inner().Renewals() == 1, "%s: %v", name, v)
	}

	s, now := nearRestart(t, true)
	first := AppendHeader(AppendFragmentHeader(nil, FragmentHeader{10_005, 0, 3}), Header{10_005, news - 1, 1})
	require.Equal(t, fragmentStored, s.Receive(now, append(first, noise[:defaultFragmentSize]...)))
	require.Equal(t, Duplicate, s.Receive(now, acknowledging(10_006, news, true)), "what was sent before it may say less")
}

// After a jump of forged fragments, the next message that tells news brings the window back.
func TestRestartNearBehindForgedFragments(t *testing.T) {
	s, now := nearRestart(t, true)
	for _, sequence := range []uint16{20_000, 20_001} {
		all := newRestarter(t, now, sequence).message(now, 1, 3000)
		s.Receive(now, all[1])
	}
	require.Equal(t, 1, s.parts.open)
	require.Equal(t, Delivered, s.Receive(now, acknowledging(10_007, 1002, true)))
	require.EqualValues(t, 1, s.Inner().Renewals())
}

// So it may where all that has come whole names none of the packets from before its own ack.
func TestRestartNearPassesOver(t *testing.T) {
	for ack, renewed := range map[uint16]bool{1030: false, 1060: false, 1061: true} {
		s, now := nearRestart(t, true)
		for i := range uint32(100) {
			s.message(now, 3+i, 8)
		}
		for _, sequence := range []uint16{10_060, 10_110} {
			require.Equal(t, Delivered, s.Receive(now, append(AppendHeader(nil, Header{sequence, 1060, 0}), 1, 2, 3, 4)))
		}
		late := append(AppendHeader(nil, Header{10_010, ack, 1 << 10}), 1, 2, 3, 4)
		require.Equal(t, renewed, s.Receive(now, late) == Delivered, "%d", ack)
		require.Equal(t, renewed, s.Inner().Renewals() == 1, "%d", ack)
	}
}

// An ack of a packet that was yet to be sent, as of one that speaks of our predecessor,
// is no news when a copy brings it after that packet has left.
func TestRestartNearCopyOfEarlyAck(t *testing.T) {
	for _, ahead := range []uint16{1, 2, 1024, 1025, 32_767, 32_768} {
		s, now := nearRestart(t, true)
		early := acknowledging(10_007, 1002+ahead, true)
		require.Equal(t, Delivered, s.Receive(now, early))
		require.Equal(t, Delivered, s.Receive(now, acknowledging(10_008, 1003, true)))
		for i := range uint32(ahead) {
			s.message(now, 3+i, 8)
		}
		require.Equal(t, ahead > halfRange, s.Receive(now, early) == Delivered, "%d ahead", ahead)
		s.message(now, 5000, 8)
		require.Equal(t, Delivered, s.Receive(now, acknowledging(10_007, 1003+ahead, true)), "%d ahead: no copy", ahead)
		require.EqualValues(t, 1, s.Inner().Renewals())
	}
}

// Nor is it where the window has forgotten which packets came, and of these there may be
// copies; after a silence there are none.
func TestRestartNearEarlyAckOfStalePacket(t *testing.T) {
	for sequence, name := range map[uint16]string{9000: "before the first", 10_007: "forgotten"} {
		s, now := nearRestart(t, true)
		early := acknowledging(sequence, 1003, true)
		s.Receive(now, acknowledging(10_007, 1003, true))
		for s.in.seen.Next()-sequence < uint16(s.in.seen.Track()) {
			require.Equal(t, Delivered, s.Receive(now, acknowledging(s.in.seen.Next(), 1001, true)))
		}
		s.message(now, 3, 8)
		require.Equal(t, Duplicate, s.Receive(now, early), name)
		require.Zero(t, s.Inner().Renewals(), name)
		require.Equal(t, Delivered, s.Receive(now.Add(10*time.Second), early), name)
		require.EqualValues(t, 1, s.Inner().Renewals(), name)
	}
}

// A packet that was sent to our predecessor, and comes for the first time when what it names
// has left, acknowledges nothing, however many come: a packet that was sent later had come when that
// left. It is forgotten after 10 s, because it may be forged.
func TestRestartNearLateEarlyAck(t *testing.T) {
	for _, message := range []bool{false, true} {
		s, now := nearRestart(t, true)
		require.Equal(t, Delivered, s.Receive(now, acknowledging(10_040, 1010, true)), "as its predecessor said")
		require.Equal(t, Delivered, s.Receive(now, acknowledging(10_050, 1002, message)))
		for i := range uint32(20) {
			s.message(now, 3+i, 8)
		}
		acked := func() uint64 { return s.Counters().PacketsAcked }
		before := acked()
		for i := range uint16(28) {
			require.Equal(t, Delivered, s.Receive(now, acknowledging(10_010+i, 1010, i > 0)))
			now = now.Add(350 * time.Millisecond)
		}
		require.Equal(t, before, acked())
		require.Zero(t, s.Inner().Renewals())
		now = now.Add(time.Second)
		require.Equal(t, Delivered, s.Receive(now, acknowledging(10_039, 1010, true)))
		require.Equal(t, before+1, acked(), "it forgot the packet that had come")
	}
}

// A packet of the other side that shows a window without our predecessor's packets shows that what
// was sent before it may be about these.
func TestRestartNearLateEarlyAckBehindFloor(t *testing.T) {
	for _, message := range []bool{false, true} {
		s, now := newRestarter(t, someTime, 1000), someTime
		s.message(now, 0, 8)
		require.Equal(t, Delivered, s.Receive(now, AppendHeader(nil, Header{10_000, 1010, 0xfff7})), "as its predecessor said")
		for i := range uint32(20) {
			s.message(now, 1+i, 8)
		}
		require.Equal(t, Delivered, s.Receive(now, AppendHeader(nil, Header{10_005, 1007, 1})), "as its window says, which takes late packets")
		require.EqualValues(t, 10_000, s.Endpoint.out.outdated.to)
		require.Equal(t, Delivered, s.Receive(now, acknowledging(10_020, 1003, message)))
		require.EqualValues(t, 2, s.Counters().PacketsAcked)
		require.Equal(t, Delivered, s.Receive(now, AppendHeader(nil, Header{10_019, 1010, 0x3ff})))
		require.EqualValues(t, 2, s.Counters().PacketsAcked, "sent before")
		require.Equal(t, Delivered, s.Receive(now, AppendHeader(nil, Header{10_018, 1009, 1})))
		require.EqualValues(t, 3, s.Counters().PacketsAcked, "sent before, of another packet")
		require.Equal(t, Delivered, s.Receive(now, acknowledging(10_021, 1010, true)))
		require.EqualValues(t, 4, s.Counters().PacketsAcked, "sent after")
	}
}

// An endpoint forgets which packets are outdated when the window begins anew, or has gone far ahead.
func TestOutdatedIsForgotten(t *testing.T) {
	for name, forget := range map[string]func(*restarter, time.Time){
		"renewed by news": func(s *restarter, now time.Time) { s.Receive(now, acknowledging(9990, 1004, true)) },
		"renewed":         func(s *restarter, _ time.Time) { s.Inner().Renew() },
		"reset":           func(s *restarter, _ time.Time) { s.Reset() },
		"far ahead":       func(s *restarter, now time.Time) { forward(t, s, now, halfRange/2) },
		"behind a jump": func(s *restarter, now time.Time) {
			now = now.Add(10 * time.Second)
			s.Receive(now, acknowledging(55_000, 1001, true))
			require.Equal(t, Delivered, s.Receive(now, acknowledging(55_001, 1001, true)))
			require.Zero(t, s.Inner().Renewals())
		},
	} {
		s, now := nearRestart(t, true)
		require.Equal(t, Delivered, s.Receive(now, acknowledging(10_040, 1003, true)), "as its predecessor said")
		s.message(now, 3, 8)
		s.message(now, 4, 8)
		require.True(t, s.Endpoint.out.outdated.covers(10_040, s.now), name)
		require.False(t, s.Endpoint.out.outdated.covers(10_041, s.now), name)
		forget(s, now)
		require.Zero(t, s.Endpoint.out.outdated.at, name)
	}
	s, now := nearRestart(t, true)
	s.Receive(now, acknowledging(10_040, 1003, true))
	s.Inner().Renew()
	s.message(now, 3, 8)
	require.Zero(t, s.Endpoint.out.outdated.at, "nothing has come")

	s, now = nearRestart(t, true)
	s.Receive(now, acknowledging(10_040, 1005, true))
	s.Receive(now, acknowledging(10_041, 1003, true))
	s.message(now, 3, 8)
	s.Receive(now, acknowledging(10_050, 1003, true))
	s.message(now, 4, 8)
	require.EqualValues(t, 10_041, s.Endpoint.out.outdated.to, "what came later may know of the first")

	s, now = nearRestart(t, true)
	s.Receive(now, acknowledging(10_040, 1004, true))
	s.SendControl(now, &s.out) // the acknowledgement that is owed
	require.Zero(t, s.Endpoint.out.outdated.at)
	s.SendControl(now, &s.out) // a probe
	require.EqualValues(t, 1006, s.NextSequence())
	require.EqualValues(t, 10_040, s.Endpoint.out.outdated.to, "the first was left out")

	s, now = nearRestart(t, true)
	s.Receive(now, acknowledging(10_040, 1003, true))
	s.message(now, 3, 8)
	forward(t, s, now, halfRange/2-1)
	require.NotZero(t, s.Endpoint.out.outdated.at)
}

// forward has packets accepted up to so many behind 10,040, none of which tells anything.
func forward(t testing.TB, s *restarter, now time.Time, n int) {
	for i := 0; i < n; {
		i = min(i+60, n)
		require.Equal(t, Delivered, s.Receive(now, AppendHeader(nil, Header{uint16(10_040 + i), 1002, 2})))
	}
}

// However long ago it was shown that packets are outdated, that holds for 10 s only, and is forgotten then.
func TestOutdatedEnds(t *testing.T) {
	for _, begin := range []time.Duration{0, time.Second, 7 * time.Hour} {
		for after, want := range map[time.Duration]bool{0: true, 10 * time.Second: true, 11 * time.Second: false, 3 * time.Hour: false, 4 * time.Hour: false} {
			var o outdated
			require.False(t, o.covers(0, int64(begin)))
			o.reach(1000, int64(begin))
			o.reach(999, int64(begin+after))
			require.False(t, o.covers(1001, int64(begin)))
			require.Equal(t, want, o.covers(1000, int64(begin+after)), "%v after %v", after, begin)
			require.Equal(t, want, o.covers(999, int64(begin)), "%v after %v", after, begin)
			if !want {
				o.reach(990, int64(begin+after))
				require.True(t, o.covers(990, int64(begin+after)))
				require.False(t, o.covers(991, int64(begin+after)))
			}
		}
	}
}

// Acks that were early are remembered as one span, at most 1024 long: of the latest packets.
func TestForetold(t *testing.T) {
	for name, test := range map[string]struct {
		ids        []uint32
		first, end uint32
	}{
		"one":               {[]uint32{5000}, 5000, 5001},
		"a later one":       {[]uint32{5000, 5003}, 5000, 5004},
		"an earlier one":    {[]uint32{5000, 4990}, 4990, 5001},
		"one between":       {[]uint32{5000, 5009, 5003}, 5000, 5010},
		"far later":         {[]uint32{5000, 6023}, 5000, 6024},
		"too far later":     {[]uint32{5000, 5002, 6024}, 6024, 6025},
		"far earlier":       {[]uint32{5000, 3977}, 3977, 5001},
		"too far earlier":   {[]uint32{5000, 3976}, 5000, 5001},
		"around 2^32":       {[]uint32{1<<32 - 2, 1}, 1<<32 - 2, 2},
		"far ahead of zero": {[]uint32{1<<31 + 5}, 1<<31 + 5, 1<<31 + 6},
	} {
		var o overdue
		for _, id := range test.ids {
			o.foretell(id)
		}
		require.False(t, o.early(test.first-1), name)
		require.True(t, o.early(test.first) && o.early(test.end-1), name)
		require.False(t, o.early(test.end), name)
		require.True(t, o.earliest(test.first), name)
		require.False(t, o.earliest(test.first+1), name)
	}
	require.False(t, new(overdue).earliest(0))
}

// The newest message that spoke counts, until it is too far behind to be compared.
func TestNewestThatSpoke(t *testing.T) {
	s, now := nearRestart(t, true)
	a := &s.acks
	a.speaks(10_005, 0)
	a.reach(10_005)
	require.True(t, a.late(10_005))
	require.False(t, a.late(10_006))
	for sequence := uint16(10_008); a.spoken; sequence += 60 {
		require.LessOrEqual(t, sequence, uint16(10_006+halfRange/2+60))
		require.False(t, a.late(sequence))
		require.Equal(t, Delivered, s.Receive(now, AppendHeader(nil, Header{sequence, 1002, 2})))
	}
	require.False(t, a.late(10_000))

	s, now = nearRestart(t, true)
	require.Equal(t, Delivered, s.Receive(now, acknowledging(9990, 1002, true)))
	require.EqualValues(t, 9990, s.acks.spoke, "of one that has started anew")
	now = now.Add(10 * time.Second)
	s.Receive(now, acknowledging(55_000, 1002, true))
	require.Equal(t, Delivered, s.Receive(now, acknowledging(55_001, 1002, true)))
	require.EqualValues(t, 55_001, s.acks.spoke, "behind a jump")
	s.Reset()
	require.False(t, s.acks.spoken)
}

// Once the other side has shown by news that it has started anew, its opening is what
// came shortly before: an opening elsewhere is the next one.
func TestRestartAfterNews(t *testing.T) {
	for sequence, renewed := range map[uint16]bool{30_000: true, 10_005 - 129: true, 10_005 - 128: false, 10_004: false,
		10_005 + 63: false, 10_005 + 64: true} {
		s, now := nearRestart(t, true)
		require.Equal(t, Delivered, s.Receive(now, acknowledging(10_005, 1002, true)))
		s.Receive(now.Add(10*time.Millisecond), heardNothing(sequence))
		require.Equal(t, renewed, s.Inner().Renewals() == 2, "%d", sequence)
	}
}
