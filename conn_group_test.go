package volley

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/inner"
	"volley/internal/wire"
	"volley/reliable"
)

// Grouping keeps every datagram, the order of first fragments and of the rest
// within their kind, and lets no message overtake groupReach others.
func TestGroupFragments(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e, err := reliable.New(&reliable.Config{}, time.Unix(1, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		b := new(wire.Batch)
		for range r.IntN(40) {
			e.Send(time.Unix(1, 0), make([]byte, 1+r.IntN(5000)), b)
		}
		var before []string
		for i := range b.Len() {
			before = append(before, string(b.At(i)))
		}
		out := groupFragments(b)
		var after []string
		newest := -1
		for i := range out.Len() {
			d := out.At(i)
			after = append(after, string(d))
			at := int(d[1]) | int(d[2])<<8
			if newest-at >= groupReach {
				t.Fatalf("a datagram of message %d leaves behind one of %d", at, newest)
			}
			newest = max(newest, at)
		}
		slices.Sort(before)
		slices.Sort(after)
		if !slices.Equal(before, after) {
			t.Fatal("grouping changed the datagrams")
		}
	}
}

// A fateCounter counts what became of messages.
type fateCounter struct{ delivered, lost int }

func (*fateCounter) HandleMessage(uint16, []byte) bool { return true }

func (f *fateCounter) HandleFate(_ uint64, fate reliable.Fate, _ time.Duration) {
	if fate == reliable.FateDelivered {
		f.delivered++
	} else {
		f.lost++
	}
}

// A groupFlood sends batches of messages in grouped fragments to an endpoint that
// acknowledges as a Conn does.
type groupFlood struct {
	t             *testing.T
	now           time.Time
	a, b          *reliable.Endpoint
	fates         fateCounter
	controls      int              // packets without a message that b has sent
	drop, dropAck func(i int) bool // of datagrams of a, and of b
	sent, answers int
}

func newGroupFlood(t *testing.T) *groupFlood {
	f := &groupFlood{t: t, now: time.Unix(1, 0)}
	cfg := &reliable.Config{AckDelay: 10 * time.Millisecond, JumpGuard: true, MaxWindow: 16384, AckBuffer: -1, LostAfter: time.Second}
	var err error
	f.a, err = reliable.New(cfg, f.now, &f.fates)
	require.NoError(t, err)
	f.b, err = reliable.New(cfg, f.now, new(fateCounter))
	require.NoError(t, err)
	f.drop = func(int) bool { return false }
	f.dropAck = f.drop
	return f
}

// batch sends n messages of the given size; then b answers with a message, if talk.
func (f *groupFlood) batch(n, size int, talk bool) {
	out, back := new(wire.Batch), new(wire.Batch)
	for range n {
		_, err := f.a.Send(f.now, make([]byte, size), out)
		require.NoError(f.t, err)
	}
	out = groupFragments(out)
	f.now = f.now.Add(20 * time.Microsecond)
	for i := range out.Len() {
		if f.sent++; !f.drop(f.sent) {
			f.b.Receive(f.now, out.At(i))
			if inner.Of(f.b).ControlPresses() {
				f.control(back)
			}
		}
	}
	f.control(back)
	if talk {
		f.b.Send(f.now, []byte("x"), back)
	}
	f.now = f.now.Add(20 * time.Microsecond)
	for i := range back.Len() {
		if f.answers++; !f.dropAck(f.answers) {
			f.a.Receive(f.now, back.At(i))
		}
	}
}

func (f *groupFlood) control(back *wire.Batch) {
	if wait, due := f.b.ControlDue(f.now); due && wait == 0 {
		f.b.SendControl(f.now, back)
		f.controls++
	}
}

// settle has both sides wait until all fates are decided.
func (f *groupFlood) settle() {
	for range 20 {
		f.now = f.now.Add(10 * time.Millisecond)
		f.batch(1, 10, false)
	}
	f.now = f.now.Add(100 * time.Millisecond)
	var last wire.Batch // what was left to wait for a message
	f.control(&last)
	for i := range last.Len() {
		f.a.Receive(f.now, last.At(i))
	}
	f.now = f.now.Add(2 * time.Second)
	f.a.Update(f.now)
}

// First fragments that go ahead of the others bring no acknowledgements of
// messages that are not there yet: a flood in fragments has no more of them than one of
// single datagrams, and each tells of all that it should.
func TestGroupsAreAcknowledgedOnce(t *testing.T) {
	for _, size := range []int{100, 2000, 4096, 9000} {
		for _, per := range []int{1, 3, 12, 14, 31, 50} {
			for _, talk := range []bool{false, true} {
				f := newGroupFlood(t)
				const batches = 60
				for range batches {
					f.batch(per, size, talk)
				}
				sent, controls := batches*per, f.controls
				f.settle()
				require.Equal(t, sent+20, f.fates.delivered, "%d a batch, %d bytes, talk: %t", per, size, talk)
				require.Zero(t, f.fates.lost)
				require.LessOrEqual(t, controls, 9+sent/13, "%d a batch, %d bytes, talk: %t", per, size, talk)
			}
		}
	}
}

// Where every other acknowledgement is lost, what arrived is hardly ever taken for
// lost; nor is it where fragments are lost, and then there are more of them.
func TestGroupsWithLoss(t *testing.T) {
	for _, size := range []int{100, 4096} {
		for _, talk := range []bool{false, true} {
			f := newGroupFlood(t)
			for range 300 {
				f.batch(14, size, talk)
			}
			usual := f.controls
			f = newGroupFlood(t)
			f.dropAck = func(i int) bool { return i%2 == 0 }
			for range 300 {
				f.batch(14, size, talk)
			}
			f.settle()
			require.GreaterOrEqual(t, f.fates.delivered, 300*14, "%d bytes, talk: %t", size, talk)

			f = newGroupFlood(t)
			rng := rand.New(rand.NewPCG(4, 5))
			f.drop = func(int) bool { return rng.IntN(50) == 0 }
			for range 300 {
				f.batch(14, size, talk)
			}
			require.Greater(t, f.controls, usual+usual/8, "%d bytes, talk: %t", size, talk)
			f.drop = func(int) bool { return false }
			f.settle()
			received := int(f.b.Counters().PacketsReceived)
			require.LessOrEqual(t, f.fates.delivered, received, "%d bytes, talk: %t", size, talk)
			require.InDelta(t, received, f.fates.delivered, 4, "%d bytes, talk: %t", size, talk)
		}
	}
}
