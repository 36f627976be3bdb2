package reliable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A restarted side that begins a little below its predecessor's first packet fills the window before
// that, and goes on through the predecessor's sequences. Its packets there are taken for copies, and
// are not Delivered, however the other side tells of the rest.
func TestRestartBelow(t *testing.T) {
	for _, former := range []int{1, 2, 9, 23, 24, 31, 32, 33, 60, 100, 300} { // packets of the predecessor
		for below := 1; below < 100; below += 3 {
			for _, burst := range []int{1, 5, 24, 100} {
				restartBelow(t, former, below, burst)
			}
		}
	}
}

func restartBelow(t *testing.T, former, below, burst int) {
	const first = 10_000
	now := someTime
	s, p := newRestarter(t, now, 500), newRestarter(t, now, first)
	for n := uint32(0); int(p.Endpoint.out.sent()) < former; n++ {
		now = now.Add(50 * time.Millisecond)
		s.take(now, append(p.take(now, s.message(now, n, 8)), p.answer(&now)...))
	}
	now = now.Add(time.Minute)
	c := newRestarter(t, now, uint16(first-below))
	c.take(now, s.message(now, 1000, 8)) // which tells of the predecessor's
	for n := uint32(0); n < uint32(former+below+200); {
		var all [][]byte
		for range burst {
			all = append(all, c.message(now, n, 8)...)
			n++
		}
		now = now.Add(10 * time.Millisecond)
		answers := s.take(now, all)
		now = now.Add(10 * time.Millisecond)
		c.take(now, append(answers, s.answer(&now)...))
	}
	require.NotEmpty(t, c.fates)
	for n, fate := range c.fates {
		if fate == FateDelivered {
			require.Equal(t, 1, s.got[n], "%d packets before, %d below, %d at once: message %d", former, below, burst, n)
		}
	}
}

// answer waits for what is due, and returns it.
func (r *restarter) answer(now *time.Time) [][]byte {
	if wait, due := r.ControlDue(*now); due {
		*now = now.Add(wait)
		r.SendControl(*now, &r.out)
	}
	return r.taken()
}

// A header for a packet that our predecessor's window may have taken late is no sign that the window
// began with us. Of its bits, those for packets that may be our predecessor's say nothing.
func TestClaimsBelowFloor(t *testing.T) {
	const (
		first = firstID + 1000
		floor = first + 200
	)
	var (
		sampled = source{}
		waited  = source{waited: true}
		message = source{message: true}
		doubt   = source{doubtful: true}
	)
	type row struct {
		from         source
		before       uint32 // of the floor
		begun        bool
		id           uint64
		bits         uint32
		want         claim
		rest         uint32
		over, begins bool // there is no floor any more; the window seems to have begun with us
	}
	judge := func(name string, nextID uint64, r row) {
		c := claims{floor, r.before &^ begun}
		if r.begun {
			c.before |= begun
		}
		h, got := c.judge(Header{0, uint16(r.id), r.bits}, first, nextID, r.from)
		require.Equal(t, r.want, got, name)
		require.Equal(t, r.rest, h.AckBits, name)
		require.Equal(t, r.over, c.floor == 0, name)
		require.Equal(t, r.begins, c.begun(), name)
	}
	for name, r := range map[string]row{
		"behind the floor":                       {waited, 0b1011, false, floor, 0xff, credible, 0b11101001, false, false},
		"further behind":                         {waited, 0b1011, false, floor + 9, noBits, credible, noBits &^ (0b1011 << 10), false, false},
		"far behind":                             {waited, noBits, false, floor + 31, noBits, credible, noBits, false, false},
		"all behind the floor":                   {waited, noBits, false, floor + 3, noBits, credible, 0b1111, false, false},
		"the predecessor's newest":               {waited, 0b1011, true, floor - 1, noBits, predecessor, noBits, false, true},
		"in a gap, in a message":                 {message, 0b1011, false, floor - 3, noBits, credible, noBits, true, false},
		"in a gap, at once":                      {sampled, 0b1011, false, floor - 3, noBits, credible, noBits &^ 0b10, false, false},
		"in a gap, waited, which we have passed": {waited, 0b1011, false, floor - 3, noBits, credible, noBits &^ 0b10, false, false},
		"in a gap, however doubtful":             {doubt, 0b1011, false, floor - 3, noBits, credible, noBits &^ 0b10, false, false},
		"in a gap of many":                       {sampled, noBits &^ 0b100, false, floor - 3, noBits, credible, 0b1, false, false},
		"in a gap, many":                         {sampled, 1 << 23, false, floor - 30, noBits, credible, 0b11, false, false},
		"in a gap, few":                          {sampled, 1 << 22, false, floor - 30, noBits, credible, noBits, false, false},
		"in a gap, begun":                        {sampled, 1 << 23, true, floor - 30, noBits, credible, noBits, false, true},
		"the predecessor's, at once":             {sampled, 0b1011, false, floor - 2, noBits, alone, 1, false, false},
		"the predecessor's, as a message":        {message, 0b1011, false, floor - 2, noBits, credible, noBits, true, false},
		"the predecessor's, waited":              {waited, 0b1011, false, floor - 2, noBits, alone, 1, false, false},
		"the predecessor's, in doubt":            {doubt, 0b1011, false, floor - 2, noBits, credible, noBits, true, false},
		"the predecessor's, begun":               {waited, 0b1011, true, floor - 2, noBits, credible, noBits, true, false},
		"further back":                           {waited, 0, false, floor - 32, noBits, alone, 1, false, false},
		"further back, in doubt":                 {doubt, noBits, false, floor - 33, noBits, credible, noBits, false, true},
		"further back, begun":                    {waited, noBits, true, floor - 33, noBits, credible, noBits, false, true},
		"first ones":                             {waited, noBits, false, first + 23, 1<<24 - 1, credible, 1<<24 - 1, false, true},
		"first ones, too many":                   {waited, noBits, false, first + 24, 1<<25 - 1, alone, 1, false, false},
		"few, within reach":                      {doubt, 1 << 22, false, floor - lateReach, noBits, credible, noBits, false, true},
		"few, out of reach":                      {doubt, 1 << 22, false, floor - lateReach - 1, noBits, credible, noBits, true, false},
		"many, out of reach":                     {doubt, 1 << 23, false, floor - lateReach - 1, noBits, credible, noBits, false, true},
	} {
		judge(name, floor+100, r)
	}
	// Of packets that came late, only those at least so far behind have a header of their own.
	judge("waited", floor, row{waited, 0b1011, false, floor - 3, noBits, credible, noBits, true, false})
	judge("waited, furthest", floor, row{waited, 0b1011, false, floor - 16, 0xff, credible, 0xff, true, false})
	judge("waited, too far", floor, row{waited, 0b1011, false, floor - 17, 0xff, credible, 0xff, false, false})
	judge("waited, passed", floor+1, row{waited, 0b1011, false, floor - 3, noBits, credible, noBits &^ 0b10, false, false})
	judge("at once", floor, row{sampled, 0b1011, false, floor - 3, noBits, credible, noBits &^ 0b10, false, false})
	judge("the predecessor's", floor, row{waited, 0b1011, false, floor - 2, noBits, alone, 1, false, false})

	judge("long after", floor+1<<16+9, row{waited, 0b1011, false, floor + 1<<16 - 1, noBits, credible, noBits, false, false})
	judge("no more", floor+1<<16+9, row{waited, 0b1011, false, floor + 1<<16, noBits, credible, noBits, true, false})

	var c claims
	c.raise(100, 0b101)
	c.raise(100, 0b11)
	require.Equal(t, claims{floor: 100, before: 0b111}, c)
	c.raise(99, noBits)
	require.Equal(t, claims{floor: 100, before: 0b111}, c)
	c.raise(102, 0b1)
	require.Equal(t, claims{floor: 102, before: 0b1}, c)
	c.raise(102, noBits)
	require.False(t, c.begun())
	c.before |= begun
	c.raise(103, 0)
	require.Equal(t, claims{floor: 103, before: begun}, c)
	_, got := new(claims).judge(Header{0, 300, 1}, first, 1<<31+200, source{acked: true})
	require.Equal(t, invalid, got, "there is no floor")
	c = claims{floor: noBits}
	c.raise(5, 1)
	require.EqualValues(t, 5, c.floor)
	c = claims{}
	c.raise(1<<31+5, 1)
	require.EqualValues(t, uint32(1<<31+5), c.floor)
}
