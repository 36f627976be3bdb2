package reliable

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A peer whose reader stops, or to which nothing comes through, speaks of the same packets for as long.
// When 65,536 others have been sent, its acks look like those of new ones.
func TestStandstill(t *testing.T) {
	const usual = 100
	type standstill struct {
		before int    // messages that come through at first
		speaks int    // messages of one side for one of the other
		sent   int    // messages meanwhile
		how    string // what becomes of them
	}
	var all []standstill
	for _, how := range []string{"lost", "refused", "late"} {
		for _, speaks := range []int{7, 5_000, 65_520} {
			all = append(all, standstill{usual, speaks, 3*1<<16 + 1000, how})
		}
		all = append(all, standstill{0, 7, 1<<16 + 1000, how}, standstill{usual, 1<<16 + 100, 1<<16 + 500, how})
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, 1))
			all = append(all, standstill{rng.IntN(2) * usual, 1 + rng.IntN(70_000), 1<<16 - 200 + rng.IntN(1000), how})
		}
	}
	for _, s := range all {
		t.Run(fmt.Sprintf("%s/%d/%d/%d", s.how, s.before, s.speaks, s.sent), func(t *testing.T) {
			now, number, silent := someTime, uint32(0), 0
			a, b := newRestarter(t, now, 500), newRestarter(t, now, 9_000)
			var waiting [][]byte // for a process that stands still
			exchange := func(speaks int, how string) {
				now = now.Add(time.Millisecond)
				number++
				d := a.message(now, number, 8)
				if silent++; silent >= speaks {
					silent = 0
					message := b.message(now, number, 8)
					b.SendControl(now, &b.out)
					control := b.taken()
					for _, said := range [][][]byte{message, control, control, message} { // and copies
						d = append(d, a.take(now, said)...)
					}
				}
				switch {
				case how == "late" && len(waiting) < 500:
					waiting = append(waiting, d...)
				case how == "", how == "refused":
					a.take(now, b.take(now, d))
				}
				a.Update(now)
				b.Update(now)
			}
			for range s.before {
				exchange(1, "")
			}
			for range 300 { // until all is acknowledged
				now = now.Add(time.Millisecond)
				for _, ends := range [][2]*restarter{{a, b}, {b, a}} {
					if wait, due := ends[0].ControlDue(now); due && wait == 0 {
						ends[0].SendControl(now, &ends[0].out)
						ends[1].take(now, ends[0].taken())
					}
				}
			}
			b.full = s.how == "refused"
			for range s.sent {
				exchange(s.speaks, s.how)
			}
			if s.before == 0 && s.how == "lost" {
				require.Zero(t, a.Counters().AcksInvalid, "the other side has heard nothing")
			}
			b.full = false
			for _, d := range waiting {
				a.take(now, b.take(now, [][]byte{d}))
			}
			for range 2 * usual {
				exchange(1, "")
			}
			now = now.Add(20 * time.Second)
			a.Update(now)
			for i := range number {
				if a.fates[i+1] == FateDelivered {
					require.Equal(t, 1, b.got[i+1], "message %d of %d is Delivered", i+1, number)
				}
			}
			for i, n := range a.got {
				require.Equal(t, 1, n, "message %d of the other side is read so often", i)
			}
			require.Equal(t, FateDelivered, a.fates[number-usual/2], "it works again")
		})
	}
}

// The acks of a peer that stands still mean nothing as soon as its last packet's sequence is used again.
func TestStandstillTurn(t *testing.T) {
	now := someTime
	a, b := newRestarter(t, now, 500), newRestarter(t, now, 9_000)
	for i := range uint32(100) {
		b.take(now, a.message(now, i, 8))
		a.take(now, b.message(now, i, 8))
	}
	b.SendControl(now, &b.out)
	a.take(now, b.taken())
	require.Len(t, a.fates, 100)
	for a.Endpoint.out.nextID < a.Endpoint.out.overdue.heard+1<<16 {
		a.message(now, uint32(len(a.sent)), 8)
	}
	a.take(now, b.message(now, 100, 8))
	for i := uint32(100); int(i) < len(a.sent); i++ {
		require.NotEqual(t, FateDelivered, a.fates[i], "message %d", i)
	}
	require.EqualValues(t, 1, a.Counters().AcksInvalid)
}

// Acks that move are no standstill, however long a connection lives, and whatever an endpoint keeps.
func TestNoStandstill(t *testing.T) {
	for name, cfg := range map[string]*Config{"conn": connConfig(), "guard alone": {AckGuard: true, AckBuffer: -1}, "odd window": {AckGuard: true, AckBuffer: -1, SentBuffer: 100}} {
		t.Run(name, func(t *testing.T) {
			e, _ := newEndpoint(cfg, testTime(0), nil)
			var out Batch
			for i := range 1<<17 + 1000 {
				out.Reset()
				s := e.NextSequence()
				mustSend(t, e, testTime(0), []byte{1}, &out)
				e.Receive(testTime(0), append(AppendHeader(nil, Header{uint16(i), s, 1}), 'x'))
			}
			require.Zero(t, e.Counters().AcksInvalid)
			require.EqualValues(t, 1<<17+1000, e.Counters().PacketsAcked)
		})
	}
}
