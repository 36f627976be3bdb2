package reliable

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// For a while behind a gap acknowledgements leave more often, until what was missing has
// come.
func TestAckOfGap(t *testing.T) {
	d := newDialogue(t)
	at, s := d.listen()
	for range 40 {
		at, s = at+100, s+1
		d.receive(at, s, 'x')
		d.e.SendControl(ms(at+90), &d.out)
	}
	at += 1000
	d.e.acks.talk.left = 100 // no samples
	d.receive(at, s+2, 'x')
	d.due(at, at) // nothing of ours has left for long
	d.e.SendControl(ms(at), &d.out)
	d.receive(at+1, s+3, 'x')
	d.due(at+1, at+12.5)      // a quarter of half the delay after the last packet of ours
	d.receive(at+2, s+1, 'x') // it was only late
	if wait, due := d.e.ControlDue(ms(at + 2)); !due || wait < 40*time.Millisecond {
		t.Errorf("ControlDue = %v, %v after what was missing has come, want half the delay", wait, due)
	}
}

// A gap before a packet without payload is acknowledged at once, but not more than once a
// millisecond: it may be a probe. One that comes late is no gap.
func TestAckOfProbe(t *testing.T) {
	d := newDialogue(t)
	d.listen()
	d.receive(4000, 5, 'x')
	d.control(4000, 6, 0b1111010)
	d.receive(4000.5, 7)
	d.due(4000.5, 4001)
	d.control(4001, 8, 0b111101010)
	d.receive(4002.5, 6)
	wait, _ := d.e.ControlDue(ms(4002.5))
	require.NotZero(t, wait)
}

// Where some are missing, at least five headers name each message, since those who
// lose messages lose acknowledgements, too.
func TestAcksUnderLoss(t *testing.T) {
	d := newDialogue(t)
	r := rand.New(rand.NewPCG(1, 2))
	named := make(map[uint16]int)
	for s := range uint16(1000) {
		if r.IntN(5) == 0 {
			continue
		}
		named[s] = 0
		d.receive(float64(s), s, 'x')
		for wait, due := d.e.ControlDue(ms(float64(s))); due && wait == 0; wait, due = d.e.ControlDue(ms(float64(s))) {
			d.out.Reset()
			d.e.SendControl(ms(float64(s)), &d.out)
			h, _, err := ParseHeader(d.out.At(0))
			require.NoError(t, err)
			for i := range uint16(32) {
				if h.AckBits>>i&1 != 0 {
					named[h.Ack-i]++
				}
			}
		}
	}
	for s, n := range named {
		if s >= 100 && s < 900 {
			require.GreaterOrEqual(t, n, 5, "message %d", s)
		}
	}
}
