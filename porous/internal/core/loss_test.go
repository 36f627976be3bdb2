package core

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// The bounds of the rules by which frames are lost.

// R8: each loss that was none doubles how many later frames show a loss, up to 64.
func TestR8ReorderingIsBounded(t *testing.T) {
	p, c := timeoutPeer(t)
	for i, want := range []uint64{6, 12, 24, 48, 64, 64} {
		p.send.spurious(0, &frame{lost: true, sends: 2, state: frameWaiting})
		require.Equal(t, want, p.send.loss.reorder)
		require.Equal(t, i+1, c.spurious)
	}
}

// R3: a timeout of frames that are not sent again is a loss for the controller,
// with the bytes that it has cost.
func TestR3TimeoutOfUnreliable(t *testing.T) {
	p, c := timeoutPeer(t)
	sendFrames(t, p, 0, 1, Unreliable)
	tickUntil(p, 0, ms(299))
	require.Zero(t, c.losses)
	tickUntil(p, ms(300), ms(300))
	require.Equal(t, 1, c.losses)
	require.Zero(t, p.send.queue.flight)
}

// R3: after the answer to a ping the next timeout comes as soon as the second one
// did, or sooner.
func TestR3AnswerShortensBackOff(t *testing.T) {
	p, _ := timeoutPeer(t)
	for backoff, want := range []uint8{0, 1, 1, 1, 1} {
		p.send.loss.backoff = uint8(backoff)
		p.send.alive()
		require.Equal(t, want, p.send.loss.backoff, "back-off of %d", backoff)
	}
}

// The window counts as what limits a sender when half of it is in flight.
func TestHalfAWindowIsLimited(t *testing.T) {
	for more, want := range []bool{true, false} {
		p, c := timeoutPeer(t)
		ids := sendFrames(t, p, 0, 4, Reliable)
		c.window = 2*p.send.queue.flight + more
		p.send.limited = false
		p.Receive(ms(100), AppendDataAck(nil, ids[:1]), new(wire.Batch))
		require.Equal(t, want, c.Limited, "%d bytes in flight of a window of %d", c.InFlight, c.window)
	}
}

// However fast a controller lets frames leave, nobody is woken for them more often
// than 2000 times a second.
func TestPacingWaits(t *testing.T) {
	p, _ := timeoutPeer(t)
	p.send.control = newTolerant(MTU0, 1)
	p.send.limit = LimitPacing
	p.send.pace.credit = 1
	require.Equal(t, ms(10)+500*time.Microsecond, p.send.nextAt(ms(10)))
}

// A probe of a channel that the peer does not read waits for the credit of pacing. Nobody is
// woken 2000 times a second because it is due.
func TestDueProbeWaitsForCredit(t *testing.T) {
	p, _ := timeoutPeer(t)
	p.send.control = newTolerant(MTU0, 1)
	sendFrames(t, p, 0, 1, Reliable)
	ch := p.send.channels[0]
	ch.trust = trust{level: choked, wait: time.Second, probeAt: ms(5)}
	id, f := p.send.queue.oldest()
	require.True(t, p.send.suspect(0, id, f, ms(50), 1))
	ch.trust.probeAt = ms(5)
	require.Equal(t, ms(5), p.send.schedule.probeAt())
	p.send.limit = LimitPacing
	p.send.pace.credit = 1 - p.send.control.Rate()/10
	require.InDelta(t, ms(110), p.send.nextAt(ms(10)), float64(time.Microsecond))
	p.send.limit = LimitNone
	require.Equal(t, ms(10)+minWait, p.send.nextAt(ms(10)))
}

// Controllers of several connections begin with different phases of probing, none
// with the two that send faster and slower.
func TestTolerantPhasesDiffer(t *testing.T) {
	seen := make(map[int]int)
	for seed := range uint32(60) {
		c := newTolerant(MTU0, seed)
		require.EqualValues(t, 1, probeGains[c.phase])
		seen[c.phase]++
	}
	require.Equal(t, map[int]int{2: 10, 3: 10, 4: 10, 5: 10, 6: 10, 7: 10}, seen)
}

// Why a sender waits is told as silence from the second timeout in a row on.
func TestLimitSilence(t *testing.T) {
	for backoff, want := range []Limit{LimitWindow, LimitWindow, LimitSilence, LimitSilence} {
		p, c := timeoutPeer(t)
		c.window = 1500
		p.send.loss.backoff = uint8(backoff)
		sendFrames(t, p, 0, 3, Reliable)
		require.Equal(t, want, p.Stats().Limit, "%d timeouts", backoff)
	}
}

// A resend of a thin stream leaves time beyond the round trip: a sixteenth of it,
// 2 ms at least.
func TestThinDelayMargin(t *testing.T) {
	for _, test := range []struct{ rtt, want Clock }{{ms(1), ms(3)}, {ms(32), ms(34)}, {ms(64), ms(68)}} {
		require.Equal(t, test.want, (&rtt{avg: test.rtt}).thinDelay())
	}
	require.Equal(t, ms(72), (&rtt{avg: ms(64), dev: ms(2)}).thinDelay())
}

// The share of lost frames is an average, of which the first frames move more. A
// frame counts once, whatever becomes of its resends.
func TestShareOfLostFrames(t *testing.T) {
	var d lossDetector
	d.init()
	d.note(&frame{sends: 2}, true)
	d.note(&frame{sends: 0}, true)
	require.Equal(t, 0.2, d.share)
	d.note(&frame{sends: 1}, true)
	require.InDelta(t, 0.4, d.share, 1e-9)
	for range 15 {
		d.note(&frame{sends: 1}, false)
	}
	require.InDelta(t, 0.4*math.Pow(0.75, 15), d.share, 1e-9)
	before := d.share
	d.note(&frame{sends: 1}, true)
	require.InDelta(t, before+(1-before)/64, d.share, 1e-9)

	p, _ := timeoutPeer(t) // by acknowledgements
	ids := sendFrames(t, p, 0, 4, Reliable)
	p.Receive(ms(1), AppendDataAck(nil, ids), new(wire.Batch))
	require.InDelta(t, 0.2*math.Pow(0.75, 4), p.send.loss.share, 1e-9)
}

// R8: what is acknowledged less than three quarters of the least round-trip time
// after it was sent again had not been lost. Frames that were sent again early, for a
// thin stream, tell the controller nothing.
func TestR8AnswersTooSoon(t *testing.T) {
	for _, early := range []bool{false, true} {
		p, c := timeoutPeer(t)
		require.Equal(t, ms(100), p.send.rtt.min)
		f := frame{lost: true, early: early, sends: 2, state: frameFlying, sentAt: ms(500)}
		p.send.spurious(ms(575), &f)
		require.Zero(t, p.Stats().Spurious)
		p.send.spurious(ms(575)-1, &f)
		f.state = frameWaiting
		p.send.spurious(ms(700), &f)
		f.lost = false
		p.send.spurious(ms(700), &f)
		require.EqualValues(t, 2, p.Stats().Spurious)
		if early {
			require.Zero(t, c.spurious)
			require.EqualValues(t, lossOrder, p.send.loss.reorder)
		} else {
			require.Equal(t, 2, c.spurious)
		}
	}
	p, _ := connectedPeer(t, testConfig())
	p.send.spurious(ms(500), &frame{lost: true, sends: 2, state: frameFlying, sentAt: ms(500)})
	require.Zero(t, p.Stats().Spurious, "nothing is too soon before there is a sample")
}

// A first transmission that had not been lost is taken back from the share of those
// that are, whether the frame was about to be sent again or just had been, so that
// a path whose delay varies is not taken for one that loses.
func TestR8LossTakenBack(t *testing.T) {
	for _, x := range []struct {
		frame frame
		back  bool
	}{
		{frame{sends: 1, state: frameWaiting}, true},
		{frame{sends: 2, state: frameFlying, sentAt: ms(500)}, true},
		{frame{sends: 2, state: frameFlying, sentAt: ms(400)}, false}, // the resend may have arrived
		{frame{sends: 2, state: frameWaiting}, false},                 // which of the two was not lost?
		{frame{sends: 3, state: frameFlying, sentAt: ms(500)}, false},
	} {
		p, _ := timeoutPeer(t)
		p.send.loss.share = 0.1
		x.frame.lost = true
		p.send.spurious(ms(501), &x.frame)
		want := 0.1
		if x.back {
			want -= lossGain
		}
		require.InDelta(t, want, p.send.loss.share, 1e-9, "%d transmissions, state %d", x.frame.sends, x.frame.state)
	}
}
