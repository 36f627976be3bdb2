package reliable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A side that hears nothing may go on behind any number of losses, at another rate than
// before. Most of its messages are believed, and late copies of those before the losses are not.
func TestOpeningGoesOnBehindLosses(t *testing.T) {
	now := someTime
	s := newRestarter(t, now, 7)
	received := make(map[uint16]int)
	take := func(sequence uint16) {
		now = now.Add(20 * time.Millisecond)
		received[sequence] += delivered(s.Receive(now, heardNothing(sequence)))
	}
	came := []uint16{31_228, 31_229, 31_233, 31_240, 31_244, 31_440, 31_642, 31_724, 31_726, 31_753, 31_856, 32_700, 33_900}
	for _, sequence := range came {
		take(sequence)
	}
	parked := 0
	for _, sequence := range came {
		parked += 1 - received[sequence]
	}
	require.LessOrEqual(t, parked, 3)
	for range 2 {
		for _, late := range came {
			take(late)
			take(late + 1)
		}
	}
	for sequence, times := range received {
		require.LessOrEqual(t, times, 1, "%d", sequence)
	}
	renewals := s.Inner().Renewals()
	take(came[0] - openingReach - 2)
	require.Equal(t, renewals+1, s.Inner().Renewals(), "behind, the other side has started anew")
	for _, late := range came {
		take(late)
	}
	require.Equal(t, renewals+1, s.Inner().Renewals(), "all that was said before is known")
}

// An opening of three messages goes on with one that is up to 4,096 ahead, unless a message
// has heard something.
func TestOpeningGap(t *testing.T) {
	for name, test := range map[string]struct {
		ahead   uint16
		few     bool // messages before
		heard   bool
		goes    bool
		renewed uint8
	}{
		"near":          {openingReach, true, false, true, 0},
		"behind losses": {openingReach + 1, false, false, true, 1},
		"far":           {openingGap, false, false, true, 1},
		"too far":       {openingGap + 1, false, false, false, 1},
		"few":           {openingReach + 1, true, false, false, 1},
		"it was over":   {openingReach + 3, false, true, false, 1},
	} {
		now := someTime
		s := newRestarter(t, now, 7)
		s.message(now, 1, 8)
		for _, sequence := range []uint16{10_000, 10_005, 10_010} {
			if test.few && sequence == 10_005 {
				continue
			}
			now = now.Add(50 * time.Millisecond)
			require.Equal(t, Delivered, s.Receive(now, heardNothing(sequence)), name)
		}
		if test.heard {
			require.Equal(t, Delivered, s.Receive(now, acknowledging(10_011, 7, true)), name)
		}
		now = now.Add(50 * time.Millisecond)
		require.Equal(t, Delivered, s.Receive(now, heardNothing(10_010+test.ahead)), name)
		require.Equal(t, test.renewed, s.Inner().Renewals(), name)
		want := opening{10_010 + test.ahead, 1}
		if test.goes {
			want = opening{10_000, 11 + test.ahead}
		}
		require.Equal(t, want, s.in.opening, name)
	}
}

// Refused packets belong to the opening, too, because the other side goes on, and has not started
// anew. So a copy of what was accepted before is one.
func TestOpeningRefused(t *testing.T) {
	for _, accepted := range []int{0, 1} {
		now := someTime
		s := newRestarter(t, now, 7)
		for i := range 1000 {
			s.full = i >= accepted
			s.Receive(now, heardNothing(10_000+uint16(i)))
			now = now.Add(time.Duration(1+i%20) * time.Millisecond)
		}
		require.Zero(t, s.Inner().Renewals())
		s.full = false
		for i := range uint16(accepted) {
			require.Equal(t, Duplicate, s.Receive(now, heardNothing(10_000+i)))
		}
		require.Equal(t, Delivered, s.Receive(now, heardNothing(10_063)))
	}
}

// Where a message that is refused begins the window again, copies from before are known
// as they are where it is accepted.
func TestOpeningBeginsWithRefused(t *testing.T) {
	for _, next := range []uint16{10_200, 20_000} {
		now := someTime
		s := newRestarter(t, now, 7)
		require.Equal(t, Delivered, s.Receive(now, heardNothing(10_000)))
		s.full = true
		for i := range uint16(3) {
			now = now.Add(20 * time.Millisecond)
			require.Equal(t, Refused, s.Receive(now, heardNothing(next+20*i)))
		}
		require.EqualValues(t, 1, s.Inner().Renewals())
		s.full = false
		require.False(t, s.Receive(now.Add(20*time.Millisecond), heardNothing(10_000)).Live(), "%d", next)
		require.EqualValues(t, 1, s.Inner().Renewals())
	}
}

// The same holds where only a fragment has come of that message.
func TestOpeningBeginsWithFragment(t *testing.T) {
	now := someTime
	s, c := newRestarter(t, now, 7), newRestarter(t, now, 20_000)
	require.Equal(t, Delivered, s.Receive(now, heardNothing(10_000)))
	now = now.Add(20 * time.Millisecond)
	all := c.message(now, 1, 3000)
	require.Equal(t, fragmentStored, s.Receive(now, all[0]))
	require.EqualValues(t, 1, s.Inner().Renewals())
	now = now.Add(20 * time.Millisecond)
	require.False(t, s.Receive(now, heardNothing(10_000)).Live())
	s.take(now, all[1:])
	require.Equal(t, 1, s.got[1])
}

// How fast a new opening comes is measured from its own beginning. What was sent before
// that tells no round-trip time.
func TestOpeningIsMeasuredAnew(t *testing.T) {
	now := someTime
	s := newRestarter(t, now, 7)
	require.Equal(t, Delivered, s.Receive(now, heardNothing(20_000)))
	for i := range uint32(3) {
		s.message(now, i, 8)
	}
	now = now.Add(5 * time.Second)
	for i := range uint16(1000) {
		require.Equal(t, Delivered, s.Receive(now, heardNothing(5000+i)))
		now = now.Add(100 * time.Microsecond)
	}
	require.EqualValues(t, 1, s.Inner().Renewals())
	require.EqualValues(t, 3, s.meter.blind)
	now = now.Add(50 * time.Millisecond)
	s.Receive(now, heardNothing(6400))
	require.EqualValues(t, 1, s.Inner().Renewals(), "the flood goes on")
}
