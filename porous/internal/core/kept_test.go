package core

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// What a pool keeps for use again has limits: 128 KiB of buffers, four pages, two
// rings, entries with up to 64 places. It gives the same memory out again.
func TestPoolLimits(t *testing.T) {
	var a pool
	for _, size := range []int{64, 256, 736, 1472} {
		a = pool{}
		for _, n := range []int{size, size - 1, size/2 + 32} {
			b := a.copy(make([]byte, n))
			require.Len(t, b, n)
			require.Equal(t, size, cap(b), "for %d bytes", n)
			a.putBuffer(b)
			require.Equal(t, size, a.bytes)
			c := a.copy(make([]byte, 1500-size))
			require.NotSame(t, &b[0], &c[0], "of another size")
			c = a.copy(make([]byte, n))
			require.Same(t, &b[0], &c[0])
			require.Equal(t, 0, a.bytes)
		}
		var list [][]byte
		for range 3000 {
			list = append(list, a.copy(make([]byte, size)))
		}
		for _, b := range list {
			a.putBuffer(b)
		}
		require.Equal(t, 131072/size*size, a.bytes)
	}
	b := a.copy(make([]byte, 1473))
	before := a.bytes
	a.putBuffer(b)
	require.Equal(t, before, a.bytes, "larger ones are not kept")

	for range 10 {
		a.pages.put(new(page), keepPages)
	}
	require.Len(t, a.pages, keepPages)
	p := a.pages[keepPages-1]
	require.Same(t, p, a.pages.take(newPage))
	require.Nil(t, a.pages[:keepPages][keepPages-1], "nobody else keeps it alive")
	for range keepPages {
		require.NotNil(t, a.pages.take(newPage))
	}
	require.Empty(t, a.pages)

	a.putEntry(&incoming{pieces: make([]piece, 1, 65)})
	require.Empty(t, a.entries, "too large to be kept")
	e := &incoming{id: 5, pieces: make([]piece, 1, 64)}
	a.putEntry(e)
	require.Same(t, e, a.entries.take(newIncoming))
	require.Empty(t, a.entries)
	require.Equal(t, incoming{pieces: e.pieces}, *e)
	require.Empty(t, e.pieces)
	require.Equal(t, 64, cap(e.pieces))
	require.NotSame(t, e, a.entries.take(newIncoming))
}

// What parts of the queues count is what they take, at least.
func TestCountedCosts(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("the counts are those of 64 bits")
	}
	require.EqualValues(t, 2160, pageCost)
	require.LessOrEqual(t, int(unsafe.Sizeof(page{})), pageCost)
	require.EqualValues(t, 80, entryCost)
	require.LessOrEqual(t, int(unsafe.Sizeof(incoming{})), entryCost)
	require.EqualValues(t, 32, pieceCost)
	require.EqualValues(t, unsafe.Sizeof(piece{}), pieceCost)
	require.EqualValues(t, 32, partCost)
	require.EqualValues(t, unsafe.Sizeof(part{}), partCost)
	require.EqualValues(t, 120, frameCost)
	require.LessOrEqual(t, int(unsafe.Sizeof(frame{})), frameCost)
	require.EqualValues(t, 112, PacketOverhead)
	require.LessOrEqual(t, int(unsafe.Sizeof(outgoing{})), PacketOverhead)
}

// The memory of packets that have their fate is kept up to half the send buffer,
// and counted; packets of similar sizes take the same.
func TestKeptPackets(t *testing.T) {
	for n, want := range map[int]int{0: 64, 64: 64, 65: 128, 128: 128, 5000: 8192, 65535: 65536, 65536: 65536, 65537: 65537} {
		require.Equal(t, want, roundUp(n), "%d bytes", n)
	}
	cfg := testConfig()
	cfg.SendBuffer = 9920
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 1 << 20}
	var out wire.Batch
	round := func(sizes ...int) {
		t.Helper()
		for _, n := range sizes {
			_, ok := p.Send(0, 0, make([]byte, n), Reliable, 0)
			require.True(t, ok)
		}
		out.Reset()
		p.Transmit(0, &out, 100)
		for i := range out.Len() {
			id, _, _, _ := ParseData(out.At(i))
			p.Receive(0, AppendDataAck(nil, []uint32{id}), &wire.Batch{})
		}
		kept := 0
		for o := p.send.free; o != nil; o = o.next {
			require.Nil(t, o.ch)
			kept += cap(o.data) + 112
		}
		require.Equal(t, kept, p.send.freeSize)
		require.LessOrEqual(t, kept+p.send.queued, 9920)
	}
	round(100)
	require.Equal(t, 240, p.send.freeSize)
	first := p.send.free
	round(128)
	require.Same(t, first, p.send.free)
	require.Equal(t, 240, p.send.freeSize)
	round(129)
	require.Same(t, first, p.send.free)
	require.Equal(t, 368, p.send.freeSize)
	round(3000, 900)
	require.Equal(t, 4096+112+1024+112, p.send.freeSize)
	round(1000, 3000, 200)
	require.Equal(t, 4096+112+1024+112+256+112, p.send.freeSize)
	round(10, 10, 10, 4000)
	require.Equal(t, 9920, p.send.freeSize, "all that may be")
	round(10, 10, 10, 10, 10, 200) // while some are queued, the memory of the first is too much
	require.Equal(t, 6256, p.send.freeSize)
	require.Equal(t, (17+8)*32+16*120+6256, p.Memory(), "with the ring, and parts of frames")
	p.Compact()
	require.Zero(t, p.Memory())
}

// R12: there is no epoch before the first one, and the first one counts in the
// second.
func TestR12FirstEpochs(t *testing.T) {
	c := NewCookie([]byte("a secret of some length"))
	from := Address{1, 2, 3}
	require.False(t, c.Check(0, from, c.id(1<<64-1, from)))
	first := c.ID(0, from)
	require.True(t, c.Check(0, from, first))
	require.True(t, c.Check(ms(9999), from, first))
	require.True(t, c.Check(ms(10_000), from, first))
	require.True(t, c.Check(ms(19_999), from, first))
	require.False(t, c.Check(ms(20_000), from, first))
	require.Equal(t, first, c.ID(ms(9999), from))
	require.NotEqual(t, first, c.ID(ms(10_000), from))
}
