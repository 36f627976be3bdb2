package reliable

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A resender sends a packet whenever it learns a fate, up to a limit, and notes the
// fates.
type resender struct {
	e     *Endpoint
	now   time.Time
	more  int
	fates map[uint64][]Fate
}

func (r *resender) HandleMessage(uint16, []byte) bool { return true }

func (r *resender) HandleFate(id uint64, fate Fate, _ time.Duration) {
	r.fates[id] = append(r.fates[id], fate)
	if r.more--; r.more >= 0 {
		r.e.Send(r.now, []byte("again"), new(Batch))
	}
}

// Packets that a FateHandler sends may push others out of the window whose ack is
// in the same header. Each packet has one fate for all that, and those just sent are
// not taken for the ones that the header names.
func TestSendFromHandleFate(t *testing.T) {
	for name, cfg := range map[string]Config{
		"reference": {},
		"odd":       {SentBuffer: 100},
		"delayed":   {SentBuffer: 64, AckDelay: 100 * time.Millisecond},
		"growing":   {MaxWindow: 256, AckDelay: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			r := &resender{now: testTime(0), more: 100, fates: make(map[uint64][]Fate)}
			var err error
			r.e, err = newEndpoint(&cfg, r.now, r)
			require.NoError(t, err)
			window := or(cfg.SentBuffer, 256)
			var out Batch
			for range window {
				_, err := r.e.Send(r.now, []byte("x"), &out)
				require.NoError(t, err)
			}
			r.now = testTime(50)
			h := Header{Sequence: 0, Ack: 31, AckBits: math.MaxUint32} // the oldest
			r.e.Receive(r.now, append(AppendHeader(nil, h), 'm'))
			for id := range uint64(window) {
				require.LessOrEqual(t, len(r.fates[id]), 1, "packet %d", id)
			}
			for id := uint64(window); id < r.e.NextID(); id++ {
				require.NotContains(t, r.fates[id], FateDelivered, "packet %d, which nobody has acknowledged", id)
				require.True(t, len(r.fates[id]) > 0 || r.e.Inner().Unacknowledged(uint16(id)), "packet %d is in the window or decided", id)
			}
			sent := r.e.NextID()
			r.more = 0
			r.e.Free()
			for id := range sent {
				require.Len(t, r.fates[id], 1, "packet %d", id)
			}
		})
	}
}

// A LostAfter beyond all times is none.
func TestLostAfterBeyondAllTimes(t *testing.T) {
	for _, after := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2} {
		e, err := newEndpoint(&Config{MaxWindow: 256, AckDelay: time.Second, LostAfter: after}, testTime(0), nil)
		require.NoError(t, err)
		_, err = e.Send(testTime(1), []byte("x"), new(Batch))
		require.NoError(t, err)
		wait, pending := e.Inner().LossDue(testTime(1_000_000))
		require.False(t, pending, "%v: in %v", after, wait)
		e.Update(testTime(1_000_001))
		require.Equal(t, 1, e.InFlight())
	}
}
