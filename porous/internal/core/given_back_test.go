package core

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// busy returns a peer that has sent, received, and had to put packets together.
func busy(t *testing.T) *Peer {
	cfg := testConfig()
	cfg.Redundancy, cfg.AckRepeats = true, 2
	p, h := connectedPeer(t, cfg)
	p.send.sample(ms(50))
	p.send.loss.share = 0.1
	var out wire.Batch
	for ch := range 2 {
		for range 20 {
			p.Send(0, ch, make([]byte, 100), Reliable, 0)
		}
	}
	p.Transmit(0, &out, 100)
	for i := range out.Len() {
		id, _, _, _ := ParseData(out.At(i))
		p.Receive(ms(50), AppendDataAck(nil, []uint32{id}), &wire.Batch{})
	}
	require.True(t, p.Flushed())
	for i := range uint16(2) {
		m := Message{Packet: 0, Fragment: 1 - i, Last: 1, Data: make([]byte, FragmentSize(cfg.MTU))}
		p.Receive(ms(50), AppendMessage(AppendDataHeader(nil, 1000+uint32(i), 1), &m), &out)
		p.EndBatch(ms(50), &out)
	}
	require.Len(t, h.packets, 1)
	p.send.channels[0].back = make([]part, 0, 4)
	require.NotNil(t, p.send.free)
	require.NotNil(t, p.send.queue.ring)
	require.NotEqual(t, redundancy{}, *p.send.spare)
	require.NotNil(t, p.send.schedule.active[0])
	require.NotNil(t, p.recv.scratch)
	require.NotEmpty(t, p.recv.acks.recent[0])
	require.NotZero(t, p.recv.pool.bytes)
	require.Equal(t, (64+cap(p.send.queue.scratch))*partCost+16*frameCost+p.send.freeSize+2*1472+cap(p.recv.scratch), p.Memory())
	return p
}

// An idle connection gives back what only a busy one needs.
func TestCompactGivesBack(t *testing.T) {
	p := busy(t)
	p.Compact()
	require.Zero(t, p.Memory())
	require.Nil(t, p.send.free)
	require.Nil(t, p.send.queue.ring)
	require.Equal(t, redundancy{}, *p.send.spare)
	require.Nil(t, p.send.channels[0].back)
	require.Equal(t, schedule{}, p.send.schedule)
	require.Nil(t, p.recv.scratch)
	require.Equal(t, pool{}, p.recv.pool)
	require.Equal(t, ackList{repeat: 2, max: 367}, p.recv.acks)
}

// What is needed stays: frames in flight, and what waits to be sent.
func TestCompactKeepsWhatIsNeeded(t *testing.T) {
	p := busy(t)
	p.Send(ms(60), 0, []byte("in flight"), Reliable, 0)
	p.Transmit(ms(60), new(wire.Batch), 1)
	p.Send(ms(60), 1, []byte("waits"), Reliable, 0)
	p.Compact()
	require.Equal(t, partCost+16*frameCost, p.Memory())
	var out wire.Batch
	p.Tick(ms(300), &out)
	out.Reset()
	p.Transmit(ms(300), &out, 10)
	sent := ""
	for i := range out.Len() {
		sent += string(out.At(i))
	}
	require.Contains(t, sent, "in flight")
	require.Contains(t, sent, "waits")
}

// The end of a connection gives everything back: acknowledgements only when they
// need not be repeated any more.
func TestEndGivesBack(t *testing.T) {
	p := busy(t)
	p.Disconnect(ms(60), false)
	require.Equal(t, Disconnecting, p.State())
	require.Zero(t, p.Memory())
	require.Nil(t, p.send.channels)
	require.Nil(t, p.send.spare)
	require.Nil(t, p.send.free)
	require.Equal(t, transfer{}, p.send.queue)
	require.Equal(t, schedule{}, p.send.schedule)
	require.Nil(t, p.recv.channels)
	require.Nil(t, p.recv.scratch)
	require.Equal(t, pool{}, p.recv.pool)
	require.NotEmpty(t, p.recv.acks.recent[0])
	p.Receive(ms(70), AppendDisconnectAck(nil), new(wire.Batch))
	require.Equal(t, Disconnected, p.State())
	require.Nil(t, p.recv.acks.ids)
	require.Nil(t, p.recv.acks.recent[0])
}

// Frames that are gone hold on to no packets, and channels with nothing to send are
// not kept.
func TestGonePartsAreForgotten(t *testing.T) {
	p := busy(t)
	for i := range p.send.queue.ring {
		f := &p.send.queue.ring[i]
		for _, x := range f.parts[:cap(f.parts)] {
			require.Equal(t, part{}, x)
		}
	}
	p.Send(ms(60), 0, []byte("a"), Unreliable, 0)
	p.Send(ms(60), 0, []byte("b"), Reliable, 0)
	p.Transmit(ms(60), new(wire.Batch), 10)
	id, f := p.send.queue.oldest()
	p.send.queue.drop(id, f, &p.send)
	require.Len(t, f.parts, 1)
	for _, x := range f.parts[1:cap(f.parts)] {
		require.Equal(t, part{}, x)
	}
	a, b, c := new(sender), new(sender), new(sender)
	list := []*sender{a, b, c}
	require.Equal(t, []*sender{c, b}, removeSender(list, 0))
	require.Nil(t, list[2])
}

// R11: a choked channel takes parts and gets them back again and again, and needs
// no more room for them.
func TestR11PartsTakenBackTakeNoMoreRoom(t *testing.T) {
	s := new(sender)
	s.init(0, 1000, 64, 8)
	for i := range 4 {
		s.restore(part{packet: &outgoing{number: uint64(i)}, ch: s})
	}
	room := cap(s.back)
	for range 1000 {
		first := s.take()
		require.Zero(t, first.packet.number)
		s.restore(first)
		require.Equal(t, room, cap(s.back))
	}
	for i := range 4 {
		require.EqualValues(t, i, s.take().packet.number)
	}
	for _, x := range s.back[:cap(s.back)] {
		require.Equal(t, part{}, x)
	}
	require.Zero(t, s.backAt)
}

// Round-trip times below a tenth of a millisecond do not count as such.
func TestRateOfShortPaths(t *testing.T) {
	c := newCubic(MTU0)
	for rtt, want := range map[time.Duration]float64{0: 2.5 * 14720e4, 100 * time.Microsecond: 2.5 * 14720e4, 200 * time.Microsecond: 2.5 * 7360e4} {
		c.SetRTT(rtt, NoBandwidthLimit)
		require.InDelta(t, want, c.Rate(), 1)
	}
	d := newTolerant(MTU0, 1)
	for rtt, want := range map[time.Duration]float64{0: 2.885 * 14720e4, 100 * time.Microsecond: 2.885 * 14720e4, 200 * time.Microsecond: 2.885 * 7360e4} {
		d.SetRTT(rtt, NoBandwidthLimit)
		require.InDelta(t, want, d.Rate(), 1)
	}
}

// Parts come back in the order of packets and fragments, however many there are, also
// when some of them have been sent again meanwhile.
func TestRestoreKeepsOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s sender
	var list []part
	for i := range 1000 {
		o := &outgoing{number: uint64(i / 3)}
		list = append(list, part{packet: o, fragment: uint16(i % 3)})
	}
	list = append(list, part{kind: MessageSentinel})
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for i, p := range list {
		s.restore(p)
		if i%7 == 0 {
			s.restore(s.take())
		}
	}
	require.Equal(t, len(list), len(s.back)-s.backAt)
	last := s.take()
	require.Equal(t, MessageSentinel, last.kind, "a part without a packet is the first")
	for range len(list) - 1 {
		p := s.take()
		require.False(t, p.before(&last))
		last = p
	}
	require.Empty(t, s.back)
}
