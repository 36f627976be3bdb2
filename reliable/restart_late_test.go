package reliable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A side that was started again may be believed by a jump of the window. Then a message of
// its opening that comes late is no second restart, and the window still knows the others.
func TestRestartByJump(t *testing.T) {
	s, now := nearRestart(t, true)
	take := func(datagram []byte) Verdict {
		now = now.Add(20 * time.Millisecond)
		return s.Receive(now, datagram)
	}
	require.Equal(t, parked, take(AppendHeader(nil, Header{20_000, noneHeard, 0})))
	for i := range uint16(5) {
		require.Equal(t, Delivered, take(acknowledging(20_002+i, 1001, true)))
	}
	require.NotEqual(t, Delivered, take(heardNothing(20_001)), "it was overtaken")
	require.NotEqual(t, Delivered, take(acknowledging(20_004, 1001, true)), "a copy")
	require.Zero(t, s.Inner().Renewals())

	require.Equal(t, Delivered, take(heardNothing(20_002-2*openingReach-1)), "further back, it has been started again")
	require.EqualValues(t, 1, s.Inner().Renewals())

	s, now = nearRestart(t, true)
	take(acknowledging(20_000, 1001, true))
	require.Equal(t, Delivered, take(acknowledging(20_001, 1001, true)))
	take(heardNothing(10_004 + formerReach))
	require.Zero(t, s.Inner().Renewals(), "a late copy from before the jump")

	s, now = nearRestart(t, true)
	take(acknowledging(42_000, 1001, true))
	require.Equal(t, Delivered, take(acknowledging(42_001, 1001, true)))
	take(acknowledging(42_500, 1001, true))
	require.Equal(t, Delivered, take(acknowledging(42_501, 1001, true)), "nothing from before a jump is ahead of it")
}

// Behind three messages of an opening that nobody has answered, a gap may follow. Those from
// before a jump do not count.
func TestRestartByJumpInOpening(t *testing.T) {
	for messages, renewals := range map[uint16]uint8{2: 2, 3: 1, 4: 1} {
		s, now := nearRestart(t, true)
		s.Receive(now, acknowledging(10_007, 1001, true))
		for i := range messages + 1 { // at once; the first is parked
			s.Receive(now, heardNothing(20_000+i))
		}
		now = now.Add(20 * time.Millisecond)
		require.Equal(t, Delivered, s.Receive(now, heardNothing(21_000)), "%d messages", messages)
		now = now.Add(20 * time.Millisecond)
		s.Receive(now, heardNothing(20_500))
		require.Equal(t, renewals, s.Inner().Renewals(), "%d messages", messages)
	}
}

// For 10 s after a restart, late packets of the former side do not confirm each other: the
// window stays where it is, and the other side is asked. It is believed by what it answers.
func TestRestartLatePackets(t *testing.T) {
	const soon, last = time.Second, jumpTime - time.Millisecond
	for name, test := range map[string]struct {
		former  uint16 // its newest sequence
		restart func(s *restarter, now time.Time)
	}{
		"a message that has heard nothing": {10_006, func(s *restarter, now time.Time) {
			s.Receive(now, heardNothing(7000))
		}},
		"news": {10_006, func(s *restarter, now time.Time) {
			s.Receive(now, acknowledging(7000, 1002, true))
		}},
		"news after a jump": {20_001, func(s *restarter, now time.Time) {
			s.Receive(now, acknowledging(20_000, 1001, true))
			s.Receive(now, acknowledging(20_001, 1001, true))
			s.Receive(now, acknowledging(7000, 1002, true))
		}},
	} {
		for _, late := range []struct {
			sequence uint16 // of the second of two
			after    time.Duration
			believed bool
		}{
			{7000 + minReceivedTrack, soon, true}, // the window tells copies from others
			{7000 + minReceivedTrack + 2, soon, false},
			{test.former - 1, soon, false},
			{test.former, last, false},
			{test.former, jumpTime, true},
			{test.former + jumpAhead + 1, soon, false},
			{test.former + jumpAhead + 2, soon, true},
		} {
			s, now := nearRestart(t, true)
			test.restart(s, now)
			require.EqualValues(t, 1, s.Inner().Renewals(), name)
			require.EqualValues(t, 7000, s.in.newest(), name)
			now = now.Add(late.after)
			s.Receive(now, acknowledging(late.sequence-1, 1001, true))
			v := s.Receive(now, acknowledging(late.sequence, 1001, true))
			require.Equal(t, late.believed, v == Delivered, "%s: %d after %v: %v", name, late.sequence, late.after, v)
			require.Equal(t, !late.believed, s.Inner().InquiryDue(now), "%s: %d after %v", name, late.sequence, late.after)
			if !late.believed {
				require.EqualValues(t, 7000, s.in.newest(), name)
				s.message(now, 3, 8)
				require.Equal(t, Delivered, s.Receive(now, acknowledging(7500, 1003, true)), "%s: its answer", name)
			}
		}
	}
}

// Packets of the side that has started anew are held back, too, if they follow a gap, until it has
// answered. Then its messages get through, also if none goes the other way.
func TestRestartThenGap(t *testing.T) {
	s, _, now := talkedTo(t, someTime, 500, 20_000, 40)
	c := newRestarter(t, now, 17_000)
	const before, after = 1000, 2000
	say := func(from uint32) {
		for i := range uint32(50) {
			now = pump(now, 20*time.Millisecond, s, c, c.message(now, from+i, 8), nil)
		}
	}
	say(before)
	require.Len(t, s.got, 50)
	now = pump(now, time.Second, s, c, nil, nil)
	s.take(now, c.message(now, before+50, 8)) // the next one tells no news
	c.skip(now, 200)
	say(after)
	pump(now, time.Second, s, c, nil, nil)
	require.EqualValues(t, 1, s.Inner().Renewals())
	for i := range uint32(50) {
		want := 1
		if i == 0 {
			want = 0
		}
		require.Equal(t, want, s.got[after+i], "message %d behind the gap", i)
		require.Equal(t, want == 1, c.fates[after+i] == FateDelivered, "message %d behind the gap", i)
	}
}
