package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A side is an endpoint that may be forgotten, and the payloads it was given.
type side struct {
	*Endpoint
	got []byte // the first bytes of the payloads
}

func newSide(t *testing.T, now time.Time) *side {
	s := new(side)
	var err error
	s.Endpoint, err = newEndpoint(&Config{MaxWindow: 16384, JumpGuard: true, AckGuard: true, MidStream: true, AckBuffer: -1,
		AckDelay: time.Second, FragmentAbove: 1000}, now, HandlerFunc(func(_ uint16, p []byte) bool {
		if len(p) > 0 {
			s.got = append(s.got, p[0])
		}
		return true
	}))
	require.NoError(t, err)
	return s
}

// datagrams returns those of a packet with one byte, or many.
func (s *side) datagrams(t *testing.T, now time.Time, p byte, size int) [][]byte {
	var b Batch
	payload := make([]byte, size)
	if size > 0 {
		payload[0] = p
	}
	_, err := s.Send(now, payload, &b)
	require.NoError(t, err)
	var all [][]byte
	for i := range b.Len() {
		all = append(all, b.At(i))
	}
	return all
}

func give(t *testing.T, now time.Time, to *side, datagrams [][]byte) (v Verdict) {
	for _, d := range datagrams {
		v = to.Receive(now, d)
	}
	return v
}

// talked returns two sides that have exchanged n packets each way.
func talked(t *testing.T, now time.Time, n int) (a, b *side, old [][]byte) {
	a, b = newSide(t, now), newSide(t, now)
	for range n {
		d := a.datagrams(t, now, 'a', 1)
		old = append(old, d...)
		require.Equal(t, Delivered, give(t, now, b, d))
		require.Equal(t, Delivered, give(t, now, a, b.datagrams(t, now, 'b', 1)))
	}
	a.got, b.got = nil, nil
	return a, b, old
}

var someTime = time.Unix(1000, 0)

func TestMidStreamNeedsJumpGuard(t *testing.T) {
	_, err := newEndpoint(&Config{MidStream: true}, someTime, nil)
	require.Error(t, err)
}

// The first packet is believed whatever its sequence, and those that it has
// overtaken are too.
func TestMidStreamBegins(t *testing.T) {
	for _, n := range []int{1, 60, 70, 5000, 40_000, 65_530} {
		for _, size := range []int{1, 3000} {
			now := someTime
			a := newSide(t, now)
			for range n {
				a.datagrams(t, now, 'x', 1)
			}
			first, second := a.datagrams(t, now, '1', size), a.datagrams(t, now, '2', size)
			b := newSide(t, now)
			require.Equal(t, Delivered, give(t, now, b, second), "%d %d", n, size)
			require.Equal(t, Delivered, give(t, now, b, first), "%d %d", n, size)
			require.Equal(t, Duplicate, give(t, now, b, first[:1]))
			require.Equal(t, "21", string(b.got))
		}
	}
}

// One that has started anew and has heard us is believed at once; copies of what
// it sent before change nothing, then or later.
func TestMidStreamOtherSideStartsAnew(t *testing.T) {
	for _, n := range []int{1, 3, 100, 5000, 40_000} {
		for _, size := range []int{1, 3000} {
			now := someTime
			_, b, old := talked(t, now, n)
			for _, d := range old[max(0, len(old)-50):] {
				require.False(t, b.Receive(now, d).Live(), "after %d of %d bytes: %x", n, size, d)
			}
			fresh := newSide(t, now) // in a's place
			require.Equal(t, Delivered, give(t, now, fresh, b.datagrams(t, now, 'q', 1)))
			d := fresh.datagrams(t, now, '1', size)
			require.Equal(t, Delivered, give(t, now, b, d), "after %d of %d bytes", n, size)
			require.Equal(t, Duplicate, give(t, now, b, d[:1]))
			require.Equal(t, Delivered, give(t, now, b, fresh.datagrams(t, now, '2', size)))
			require.Equal(t, "12", string(b.got))
			require.Equal(t, Delivered, give(t, now, fresh, b.datagrams(t, now, 'r', 1)))
			require.NotZero(t, fresh.Counters().PacketsAcked)
		}
	}
}

// One that has heard nothing is believed after a silence, and asked before: what
// it sends next acknowledges the question.
func TestMidStreamOtherSideHasHeardNothing(t *testing.T) {
	for _, n := range []int{1, 3, 100, 5000} {
		now := someTime
		_, b, old := talked(t, now, n)
		fresh := newSide(t, now)
		lost := fresh.datagrams(t, now, '0', 1)
		require.NotEqual(t, Delivered, give(t, now, b, lost))
		now = now.Add(200 * time.Millisecond)
		require.NotEqual(t, Delivered, give(t, now, b, lost))
		require.True(t, b.Inner().InquiryDue(now))
		require.False(t, b.Inner().InquiryDue(now), "once")
		var out Batch
		b.Inner().SendInquiry(now, &out)
		require.Equal(t, 1, out.Len())
		give(t, now, fresh, [][]byte{out.At(0)})
		require.Zero(t, fresh.Counters().PacketsAcked, "an inquiry acknowledges nothing")
		require.Equal(t, Delivered, give(t, now, b, fresh.datagrams(t, now, '1', 1)))
		require.NotEqual(t, Delivered, give(t, now, b, old[:1]))
		require.Equal(t, "1", string(b.got))

		_, b, _ = talked(t, now, n)
		later := now.Add(11 * time.Second)
		fresh = newSide(t, later)
		for _, size := range []int{3000, 1} {
			require.Equal(t, Delivered, give(t, later, b, fresh.datagrams(t, later, '2', size)))
		}
		require.Equal(t, "22", string(b.got))
	}
}

// A copy of a first packet is a copy, whoever asks.
func TestMidStreamCopiesOfTheFirst(t *testing.T) {
	now := someTime
	a, b := newSide(t, now), newSide(t, now)
	first := a.datagrams(t, now, '1', 1)
	give(t, now, b, first)
	for range 3 {
		now = now.Add(3 * time.Second)
		give(t, now, a, b.datagrams(t, now, 'b', 1))
		give(t, now, b, a.datagrams(t, now, 'a', 1))
		require.Equal(t, Duplicate, give(t, now, b, first))
	}
	require.Equal(t, "1aaa", string(b.got))
	var out Batch
	if b.Inner().InquiryDue(now.Add(time.Second)) {
		b.Inner().SendInquiry(now.Add(time.Second), &out)
		require.Equal(t, Delivered, a.Receive(now.Add(time.Second), out.At(0)), "to the same side it is any packet")
	}
}

// After a silence, a message of one that has started anew is whole in whatever order
// its fragments come, though only the first of them says anything.
func TestMidStreamFragmentsOvertake(t *testing.T) {
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {2, 2, 1, 1, 0, 0}}
	for _, n := range []int{1, 3, 100, 5000, 40_000} {
		for _, order := range orders {
			for _, renewed := range []bool{false, true} {
				now := someTime
				_, b, _ := talked(t, now, n)
				now = now.Add(time.Duration(jumpSilence))
				fresh := newSide(t, now)
				first := fresh.datagrams(t, now, '1', 3000)
				require.Len(t, first, 3)
				for at, i := range order {
					if renewed && at > 0 && at == slices.Index(order, 0) { // by who sees that it is another first message
						b.Inner().Renew()
					}
					b.Receive(now, first[i])
				}
				require.Equal(t, "1", string(b.got), "%d %v %v", n, order, renewed)
				require.Equal(t, Duplicate, give(t, now, b, first[1:2]))
				require.Equal(t, Delivered, give(t, now, b, fresh.datagrams(t, now, '2', 3000)))
				require.Equal(t, "12", string(b.got))
			}
		}
	}
}

// Without the silence, such fragments may be copies.
func TestMidStreamOldFragments(t *testing.T) {
	for _, n := range []int{1, 3, 100, 5000} {
		now := someTime
		_, b, _ := talked(t, now, n)
		now = now.Add(time.Duration(jumpSilence - 1))
		first := newSide(t, now).datagrams(t, now, '1', 3000)
		for _, d := range [][]byte{first[1], first[2], first[0]} {
			require.False(t, b.Receive(now, d).Live(), "%d", n)
		}
	}

	now := someTime // and who may not be forgotten waits for no silence
	e, err := newEndpoint(&Config{JumpGuard: true}, now, nil)
	require.NoError(t, err)
	d := newSide(t, now).datagrams(t, now, '1', 3000)
	for _, d := range d {
		e.Receive(now, d)
	}
	require.Equal(t, Duplicate, e.Receive(now.Add(time.Duration(jumpSilence)), d[1]))
}

// Where nothing has been accepted yet, there is nothing to forget: a stray fragment
// does not cost the message that is arriving.
func TestMidStreamStrayFragment(t *testing.T) {
	for _, stray := range []int{0, 20_000} {
		now := someTime
		from, other, b := newSide(t, now), newSide(t, now), newSide(t, now)
		for range 10_000 {
			from.datagrams(t, now, 'x', 1)
		}
		for range stray {
			other.datagrams(t, now, 'x', 1)
		}
		first := from.datagrams(t, now, '1', 3000)
		give(t, now, b, first[:2])
		require.False(t, b.Receive(now, other.datagrams(t, now, 'o', 3000)[1]).Live(), "%d", stray)
		require.Equal(t, Delivered, give(t, now, b, first[2:]), "%d", stray)
	}
}

// A fragment of another packet, of which the first has come, goes when the window
// begins again.
func TestMidStreamRenewDropsFragments(t *testing.T) {
	now := someTime
	b := newSide(t, now)
	old := newSide(t, now).datagrams(t, now, 'o', 3000)
	give(t, now, b, old[:2])
	b.Inner().Renew()
	next := newSide(t, now).datagrams(t, now, 'n', 3000)
	require.Equal(t, fragmentStored, give(t, now, b, next[:2]))
	require.Equal(t, Delivered, give(t, now, b, next[2:]))
	require.Equal(t, "n", string(b.got))
	after := newSide(t, now)
	after.datagrams(t, now, '0', 1)
	require.Equal(t, fragmentStored, b.Receive(now, after.datagrams(t, now, '1', 3000)[1]))
	b.Inner().Renew() // what was accepted is forgotten
	require.Equal(t, Delivered, give(t, now, b, next))
	require.Equal(t, "nn", string(b.got))
}

// Where the window has grown, as few sequences before a new beginning may still come as in
// one that is new: others may be copies.
func TestMidStreamBeginsInGrownWindow(t *testing.T) {
	now := someTime
	s := newRestarter(t, now, 7)
	const first, last = 10_000, 10_999
	for sequence := uint16(first); sequence <= last; sequence++ {
		require.Equal(t, Delivered, s.Receive(now, heardNothing(sequence)))
		now = now.Add(time.Microsecond)
	}
	require.GreaterOrEqual(t, s.in.seen.Track(), 512)
	now = now.Add(10 * time.Second)
	next := uint16(last + 30)
	require.Equal(t, Delivered, s.Receive(now, heardNothing(next)), "it has started anew")
	require.EqualValues(t, 1, s.Inner().Renewals())
	require.Equal(t, Duplicate, s.Receive(now, heardNothing(next-minReceivedTrack)))
	require.Equal(t, Delivered, s.Receive(now, heardNothing(next-minReceivedTrack+1)))
}
