package reliable

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newTalk returns two peers that have heard much of each other.
func newTalk(t *testing.T) (s *sim, a, b *simPeer) {
	s = newSim(t, connConfig(), simLink{delay: 2 * time.Millisecond})
	a, b = s.peers[0], s.peers[1]
	for range 20 {
		s.send(0, a.message(20))
		s.send(1, b.message(20))
		s.advance(10 * time.Millisecond)
	}
	return s, a, b
}

// Messages that are taken between many that are refused, or lost, are not called Lost: what
// waits for an ack is told although a jump takes it out of what ordinary headers tell of.
func TestFatesAcrossJumps(t *testing.T) {
	for _, test := range []struct{ taken, refused int }{
		{1, 15}, {1, 16}, {1, 31}, {1, 32}, {1, 33}, {1, 100}, {2, 40}, {5, 16}, {5, 20}, {5, 30}, {15, 20}, {20, 31}, {40, 40},
		{4, 62}, {12, 60}, {3, 128}, {15, 300},
	} {
		for _, lost := range []bool{false, true} {
			if lost && test.taken > 1 && test.refused >= 60 {
				continue // nothing comes before the window has left them behind, see docs/reliable.md
			}
			for _, how := range []struct {
				arrive string
				first  int // bytes of the first message that is taken; 3000 are three fragments
			}{{"at once", 20}, {"one by one", 20}, {"in batches", 20}, {"at once", 3000}, {"one by one", 3000}} {
				t.Run(fmt.Sprint(test, lost, how), func(t *testing.T) {
					s, a, b := newTalk(t)
					if !lost {
						first := a.NextID()
						b.refuse = func(id uint64) bool { return id >= first && (int(id-first)%(test.taken+test.refused)) >= test.taken }
					}
					for i := range 3000 {
						s.links[0].loss = 0
						if lost && i%(test.taken+test.refused) >= test.taken {
							s.links[0].loss = 1
						}
						size := 20
						if i%(test.taken+test.refused) == 0 {
							size = how.first
						}
						s.send(0, a.message(size))
						s.acks = how.arrive != "in batches" || i%64 == 0
						if how.arrive != "at once" {
							s.advance(100 * time.Microsecond)
						}
						if wait, due := b.ControlDue(s.time()); due && wait == 0 && b.Inner().ControlPresses() {
							s.control(1)
						}
					}
					s.links[0].loss, s.acks = 0, true
					b.refuse = nil
					s.settle()
					delivered, presumed := s.check()
					if delivered[0] == 0 || presumed[0] > 0 {
						t.Errorf("%d messages were delivered, and %d of them are called Lost", delivered[0], presumed[0])
					}
				})
			}
		}
	}
}

// One that has acknowledged nothing may have a forged address: a packet of it causes one answer
// at most.
func TestJumpsOfAStranger(t *testing.T) {
	s := newSim(t, connConfig(), simLink{})
	a, b := s.peers[0], s.peers[1]
	b.refuse = func(id uint64) bool { return id%20 > 1 }
	most := 0
	for range 2000 {
		s.out.Reset()
		mustSend(t, a.Endpoint, s.time(), a.message(20), &s.out)
		b.Receive(s.time(), s.out.At(0))
		answers := 0
		for {
			if wait, due := b.ControlDue(s.time()); !due || wait > 0 {
				break
			}
			s.out.Reset()
			b.SendControl(s.time(), &s.out)
			answers++
		}
		most = max(most, answers)
	}
	if most != 1 {
		t.Errorf("one packet has had %d answers, want 1", most)
	}
}

// An ack that waits leaves at once, and a single time, when messages far ahead are refused.
func TestRefusedAhead(t *testing.T) {
	s, a, b := newTalk(t)
	// answers returns how many packets b sends at once when a message comes.
	answers := func(size int) (n int) {
		var datagrams Batch
		mustSend(t, a.Endpoint, s.time(), a.message(size), &datagrams)
		for i := range datagrams.Len() {
			b.Receive(s.time(), datagrams.At(i))
			if wait, due := b.ControlDue(s.time()); due && wait == 0 && b.Inner().ControlPresses() {
				s.out.Reset()
				b.SendControl(s.time(), &s.out)
				n++
			}
		}
		return n
	}
	for waiting := 0; waiting < 4; waiting++ { // until none of four is to be answered at once
		if answers(20) > 0 {
			waiting = -1
		}
	}
	b.refuse = func(uint64) bool { return true }
	for n := range 100 {
		want := 0
		if n+1 == ackDistance {
			want = 1
		}
		require.Equal(t, want, answers(20), "message %d", n+1)
	}
	// A first fragment moves the window, and waits for an ack. That tells nothing new.
	answers(3000) // the window is far behind
	for n := range 100 {
		require.Zero(t, answers(3000), "message %d", n+1)
		s.out.Reset()
		mustSend(t, b.Endpoint, s.time(), b.message(20), &s.out) // tells of what waits
	}
}
