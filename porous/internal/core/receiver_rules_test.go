package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// queued returns a receiver in which these wait: fragments of an incomplete packet,
// and one that depends on a packet that has not come.
func queued(t *testing.T) (*pool, *receiver) {
	a, r := new(pool), new(receiver)
	r.init(a, 1000, 10_000, 64, 16, 0)
	for _, m := range []Message{
		{Packet: 2, Last: 3, Data: make([]byte, 1000)},
		{Packet: 2, Last: 3, Fragment: 2, Data: make([]byte, 1000)},
		{Packet: 4, Lead: 4, Data: make([]byte, 50)},
		{Packet: 9, Lead: 3, Data: make([]byte, 50)},
		{Packet: 12, Lead: 3, Data: make([]byte, 50)},
	} {
		require.Equal(t, taken, r.fragment(&m))
	}
	return a, r
}

// An entry that is kept does not hold on to buffers that others use, or that are
// not kept.
func TestKeptEntriesForgetTheirBuffers(t *testing.T) {
	a, r := queued(t)
	r.reset()
	require.Equal(t, 2*1472+3*64, a.bytes)
	require.Len(t, a.dirs, 1)
	require.Len(t, a.pages, 1)
	n := 0
	for _, e := range a.entries {
		n++
		for _, p := range e.pieces[:cap(e.pieces)] {
			require.Nil(t, p.data)
		}
		require.Zero(t, e.bytes)
		require.False(t, e.started || e.sentinel)
	}
	require.Equal(t, 4, n)
}

// No sample of the round-trip time is zero, which would mean that there is none.
func TestSamplesAreNotZero(t *testing.T) {
	for _, sample := range []time.Duration{-1, 0, 1, 999, 1000} {
		var r rtt
		r.init(false, 0, 0)
		r.add(sample)
		require.Equal(t, time.Microsecond, r.avg)
		require.Equal(t, time.Microsecond, r.min)
		require.Equal(t, time.Microsecond, r.latest)
	}
}

// Numbers of fragments have 16 bits.
func TestMaxFragments(t *testing.T) { require.Equal(t, 65536, MaxFragments) }

// Q7: a reliable packet that is out of the window is forgotten: ids go round, and
// later ones do not depend on it.
func TestQ7DependenciesAreForgotten(t *testing.T) {
	var s sender
	s.init(0, 1000, 64, 8)
	first := outgoing{mode: Reliable}
	s.assign(&first)
	for _, lead := range []uint16{62, 63, 0} {
		if lead > 0 {
			s.next = uint32(lead)
		} else {
			s.next = 64
		}
		o := outgoing{mode: Unreliable}
		s.assign(&o)
		require.Equal(t, lead, o.lead)
	}
	s.next = 5 // all ids have been used since
	o := outgoing{mode: Unreliable}
	s.assign(&o)
	require.Zero(t, o.lead)
}

// R9: a frame is sent for copies alone after half the usual interval, unless that
// is a millisecond or less.
func TestR9ExtraFramesWait(t *testing.T) {
	for interval, wait := range map[time.Duration]time.Duration{
		2 * time.Millisecond: 0, 2*time.Millisecond + 2: time.Millisecond + 1, 19 * time.Millisecond: 9500 * time.Microsecond,
		20 * time.Millisecond: 10 * time.Millisecond, 40 * time.Millisecond: 10 * time.Millisecond,
	} {
		cfg := testConfig()
		cfg.Redundancy = true
		p, _ := connectedPeer(t, cfg)
		p.send.sample(ms(50))
		p.send.loss.share = 0.005
		r := p.send.spare
		r.interval, r.lastAt = interval, 100*time.Millisecond-interval
		_, ok := p.Send(ms(100), 0, make([]byte, 400), Reliable, 0)
		require.True(t, ok)
		p.Transmit(ms(100), new(wire.Batch), 10)
		if wait == 0 {
			require.Zero(t, r.extraAt)
		} else {
			require.Equal(t, ms(100)+wait, r.extraAt, "%v", interval)
		}
		require.Equal(t, 1, r.next)
	}
}
