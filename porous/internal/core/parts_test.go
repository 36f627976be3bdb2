package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// A peer that acknowledges all frames but one has us keep a place for each of those
// that follow it, and nothing else, and these take a quarter of the send buffer at
// most. Frames of many messages take turns with frames of one.
func TestOneFrameIsNotAcknowledged(t *testing.T) {
	cfg := testConfig()
	cfg.SendBuffer = 256 << 10
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 1 << 20}
	var out wire.Batch
	var first uint32
	frames := 0
	for ; ; frames++ {
		n := 1
		if frames%2 == 0 {
			n = 100
		}
		for range n {
			_, ok := p.Send(0, min(frames, 1), nil, Mode(frames%2), 0)
			require.True(t, ok)
		}
		out.Reset()
		p.Transmit(0, &out, 10)
		if out.Len() == 0 {
			break
		}
		id, _, _, _ := ParseData(out.At(out.Len() - 1))
		if frames == 0 {
			first = id
			continue
		}
		require.NotEqual(t, first, id, "something new behind what is sent again")
		p.Receive(0, AppendDataAck(nil, []uint32{id}), new(wire.Batch))
		require.Equal(t, first, p.send.queue.base)
	}
	require.Equal(t, LimitFrames, p.Stats().Limit)
	require.Equal(t, 512, frames, "a quarter of the buffer holds so many")
	require.Len(t, p.send.queue.ring, 512)
	q := &p.send.queue
	parts := cap(q.scratch)
	for i := range q.ring {
		parts += cap(q.ring[i].parts)
	}
	require.LessOrEqual(t, parts, 512, "those of one frame, and of the one that is made")
	require.LessOrEqual(t, p.Memory()-p.send.freeSize, cfg.SendBuffer/4+keepParts*partCost)
	require.LessOrEqual(t, p.send.freeSize+p.send.queued, cfg.SendBuffer)
}

// The ring takes a quarter of the send buffer at most, but has 256 places in any
// case, and never more than the protocol allows.
func TestRingFrames(t *testing.T) {
	for _, test := range []struct{ buffer, window, want int }{
		{4 << 20, 32768, 8192}, {4 << 20, 65536, 8192}, {4 << 20, 4096, 4096}, {4 << 20, 100, 100},
		{1 << 30, 32768, 32768}, {1 << 30, 65536, 65536}, {70_000, 32768, 256}, {0, 32768, 256},
		{4 * 512 * frameCost, 32768, 512}, {4*512*frameCost - 1, 32768, 256},
	} {
		require.EqualValues(t, test.want, ringFrames(test.buffer, uint32(test.window)), "%+v", test)
	}
}

// Memory for parts comes in powers of two, is used again, and is kept within limits.
func TestPartPool(t *testing.T) {
	var a partPool
	for n, want := range map[int]int{1: 1, 2: 2, 3: 4, 4: 4, 100: 128, 128: 128, 129: 256, 512: 512} {
		p := a.copy(make([]part, n))
		require.Len(t, p, n)
		require.Equal(t, want, cap(p))
		require.Equal(t, want, a.used)
		p[0].id = 7
		a.put(p)
		require.Zero(t, a.used)
		require.Equal(t, want, a.kept)
		q := a.copy(make([]part, want))
		require.Same(t, &p[0], &q[0], "%d parts", n)
		require.Zero(t, q[0].id)
		require.Zero(t, a.kept)
		a.put(q[:1])
		require.Equal(t, want, a.kept)
		a = partPool{}
	}
	var list [][]part
	for range 5000 {
		list = append(list, a.copy(make([]part, 2)))
	}
	for _, p := range list {
		a.put(p)
	}
	require.Equal(t, keepParts, a.kept)
	require.Equal(t, keepParts*partCost, a.bytes())
	a.put(nil)
	require.Zero(t, a.used)
}

// A frame that has lost most of its messages keeps no memory for them.
func TestDroppedPartsAreGivenBack(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	p.send.control = &fixedController{window: 1 << 20}
	for range 60 {
		p.Send(0, 0, nil, Unreliable, 0)
	}
	p.Send(0, 0, nil, Reliable, 0)
	p.Transmit(0, new(wire.Batch), 1)
	q := &p.send.queue
	id, f := q.oldest()
	require.Equal(t, 64, cap(f.parts))
	q.drop(id, f, &p.send)
	require.Len(t, f.parts, 1)
	require.Equal(t, 1, cap(f.parts))
	require.Equal(t, 1, q.parts.used)
	require.Equal(t, 64, q.parts.kept)
}
