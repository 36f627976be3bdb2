package reliable

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A restarter is one end of a connection whose other end is restarted. Its messages
// begin with a number that no other message has.
type restarter struct {
	*Endpoint
	got   map[uint32]int // messages received, how often
	sent  map[uint64]uint32
	fates map[uint32]Fate
	out   Batch
}

var restartConfig = &Config{MaxWindow: 16384, JumpGuard: true, AckGuard: true, AckRefused: true, MidStream: true, AckBuffer: -1,
	AckDelay: 125 * time.Millisecond, FragmentAbove: 1000}

func newRestarter(t testing.TB, now time.Time, sequence uint16) *restarter {
	r := &restarter{Endpoint: new(Endpoint), got: make(map[uint32]int), sent: make(map[uint64]uint32), fates: make(map[uint32]Fate)}
	require.NoError(t, r.Init(restartConfig, now, firstID+uint64(sequence), r))
	return r
}

func (r *restarter) HandleMessage(_ uint16, payload []byte) bool {
	if len(payload) > 0 {
		r.got[binary.LittleEndian.Uint32(payload)]++
	}
	return true
}

func (r *restarter) HandleFate(id uint64, fate Fate, _ time.Duration) { r.fates[r.sent[id]] = fate }

// message returns the datagrams of a message, which is not given to anybody.
func (r *restarter) message(now time.Time, number uint32, size int) [][]byte {
	r.sent[r.NextID()] = number
	r.out.Reset()
	payload := make([]byte, size)
	binary.LittleEndian.PutUint32(payload, number)
	if _, err := r.Send(now, payload, &r.out); err != nil {
		panic(err)
	}
	return r.taken()
}

func (r *restarter) taken() (all [][]byte) {
	for i := range r.out.Len() {
		all = append(all, append([]byte(nil), r.out.At(i)...))
	}
	r.out.Reset()
	return all
}

// take receives datagrams, and returns what answers them at once.
func (r *restarter) take(now time.Time, datagrams [][]byte) (answers [][]byte) {
	for _, d := range datagrams {
		r.Receive(now, d)
		for r.ControlPresses() {
			if wait, due := r.ControlDue(now); !due || wait > 0 {
				break
			}
			r.SendControl(now, &r.out)
		}
	}
	if r.InquiryDue(now) {
		r.SendInquiry(now, &r.out)
	}
	return r.taken()
}

// pump exchanges what is due until nothing is left, and returns the time after d.
func pump(now time.Time, d time.Duration, a, b *restarter, toA, toB [][]byte) time.Time {
	for end := now.Add(d); ; now = now.Add(5 * time.Millisecond) {
		for len(toA)+len(toB) > 0 {
			toA, toB = b.take(now, toB), a.take(now, toA)
		}
		if !now.Before(end) {
			return now
		}
		for _, r := range []*restarter{a, b} {
			if wait, due := r.ControlDue(now); due && wait == 0 {
				r.SendControl(now, &r.out)
			}
			r.Update(now)
		}
		toB, toA = a.taken(), b.taken()
	}
}

// talkedTo returns a client that has exchanged n messages with a server, the last of
// which had the sequence newest.
func talkedTo(t testing.TB, now time.Time, server uint16, newest uint16, n int) (s, c *restarter, at time.Time) {
	c, s = newRestarter(t, now, newest-uint16(n)+1), newRestarter(t, now, server)
	for i := range uint32(n) {
		now = now.Add(10 * time.Millisecond)
		s.take(now, c.message(now, i, 8))
		now = now.Add(10 * time.Millisecond)
		c.take(now, s.message(now, i, 8))
	}
	require.Len(t, s.got, n)
	require.Len(t, c.got, n)
	clear(s.got)
	return s, c, now
}

func randomStart(r *rand.Rand) uint16 { return 1 + uint16(r.IntN(32_511)) }

// A client that is restarted at once, on the same port, is heard from its first message
// on, whatever its old sequence was and its new one is. Of the messages that it writes
// at once, at most one in a thousand is Delivered falsely because of the server's
// acknowledgements for its predecessor that were on their way.
func TestRestartAtEachOldSequence(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 1))
	const burst, later = 100, 1000
	step := 1
	if testing.Short() {
		step = 61
	}
	var messages, falsely, unheard, lost, runs int
	for old := 0; old < 65536; old += step {
		s, _, now := talkedTo(t, someTime, randomStart(r), uint16(old), 40)
		late := s.message(now, 1, 8) // meant for the predecessor
		c := newRestarter(t, now, randomStart(r))
		var toS [][]byte
		for i := range uint32(burst) {
			toS = append(toS, c.message(now, later+i, 8)...)
		}
		toS = append(toS, c.take(now, late)...)
		for number, fate := range c.fates {
			if fate == FateDelivered && s.got[number] == 0 {
				falsely++
			}
		}
		now = pump(now.Add(20*time.Millisecond), 500*time.Millisecond, s, c, toS, nil)
		for i := range uint32(20) { // one way
			now = pump(now, 20*time.Millisecond, s, c, c.message(now, later+burst+i, 8), nil)
		}
		pump(now, 2*time.Second, s, c, nil, nil)
		for number := uint32(later); number < later+burst+20; number++ {
			messages++
			switch {
			case s.got[number] > 1:
				t.Fatalf("old %d: message %d was received %d times", old, number, s.got[number])
			case s.got[number] == 0:
				unheard++
			case c.fates[number] != FateDelivered:
				lost++
			}
		}
		runs++
	}
	t.Logf("%d restarts, %d messages: %d falsely Delivered, %d unheard, %d falsely Lost", runs, messages, falsely, unheard, lost)
	require.LessOrEqual(t, falsely*1000, runs*burst, "falsely Delivered")
	require.LessOrEqual(t, unheard*100, messages, "unheard")
	require.LessOrEqual(t, lost*100, messages, "falsely Lost")
}
