package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// The tests of this file are named after the improvements R1 to R17.

func TestR1LossByLaterFrames(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	control := &fixedController{window: 1 << 20}
	p.send.control = control
	p.send.sample(ms(100))
	sendFrames(t, p, 0, 8, Reliable)
	var out wire.Batch
	p.Receive(ms(100), AppendDataAck(nil, []uint32{2002}), &out)
	require.Zero(t, p.send.queue.waits, "overtaken by fewer than three")
	at, ok := p.Next(ms(100))
	require.True(t, ok)
	require.Equal(t, p.send.rtt.lossDelay(), at, "after 9/8 of the round-trip time they are late")
	p.Receive(ms(100), AppendDataAck(nil, []uint32{2003}), &out)
	require.Equal(t, 1, p.send.queue.waits)
	p.Tick(p.send.rtt.lossDelay(), &out)
	require.Equal(t, 2, p.send.queue.waits)
	require.Equal(t, 2, control.losses)

	// A resend has a new place in the order.
	p.Transmit(ms(120), &out, 10)
	p.Receive(ms(121), AppendDataAck(nil, []uint32{2004, 2005, 2006, 2007}), &out)
	require.Zero(t, p.send.queue.waits, "they were sent before the resends")
}

func TestR2FloorOfTheTimeout(t *testing.T) {
	var r rtt
	r.init(false, 0, 25*time.Millisecond)
	for range 100 {
		r.add(10 * time.Millisecond)
	}
	require.Equal(t, 35*time.Millisecond, r.rto())
	for range 100 {
		r.add(200 * time.Millisecond)
	}
	require.InDelta(t, 300*time.Millisecond, r.rto(), float64(time.Millisecond))
	r.init(false, 0, 0)
	for range 100 {
		r.add(10 * time.Millisecond)
	}
	require.Less(t, r.rto(), 11*time.Millisecond)
}

func TestR3BackOff(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	p.send.control = &fixedController{window: 30_000}
	p.send.sample(ms(100)) // an RTO of 300 ms
	sendFrames(t, p, 0, 20, Reliable)
	var out wire.Batch
	var at []Clock
	for now := ms(0); len(at) < 6; now += ms(1) {
		require.Less(t, now, ms(10_000))
		p.Tick(now, &out)
		out.Reset()
		p.Transmit(now, &out, 100)
		if out.Len() > 0 {
			require.LessOrEqual(t, out.Len(), 2, "one or two frames, not the window")
			at = append(at, now)
		}
		out.Reset()
	}
	require.Equal(t, ms(300), at[0])
	for i := 1; i < len(at); i++ {
		gap, before := at[i]-at[i-1], ms(300)
		if i > 1 {
			before = at[i-1] - at[i-2]
		}
		require.Equal(t, min(2*before, ms(1000)), gap, "it doubles, up to the limit")
	}
}

func TestR4SamplesOfFirstTransmissions(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	control := &fixedController{window: 1 << 20}
	p.send.control = control
	sendFrames(t, p, 0, 4, Reliable)
	var out wire.Batch
	p.Receive(ms(40), AppendDataAck(nil, []uint32{2003}), &out)
	require.Equal(t, ms(40), p.Stats().RTT)
	p.Transmit(ms(45), &out, 10) // 2000 is sent again
	require.EqualValues(t, 1, p.Stats().FramesResent)
	p.Receive(ms(50), AppendDataAck(nil, []uint32{2000}), &out)
	require.EqualValues(t, 1, p.send.rtt.samples, "Karn")
	p.Receive(ms(300), AppendDataAck(nil, []uint32{2002}), &out)
	require.EqualValues(t, 1, p.send.rtt.samples, "an acknowledgement that was lost and repeated")
}

func TestR6Growth(t *testing.T) {
	c := newCubic(MTU0)
	require.Equal(t, 14720, c.Window())
	c.SetRTT(50*time.Millisecond, 1<<32-1)
	c.HandleAck(Ack{Bytes: 3000, Frames: 3, Limited: false})
	require.Equal(t, 14720, c.Window(), "no growth when the application is the limit")
	c.HandleAck(Ack{Bytes: 3000, Frames: 3, Limited: true})
	require.Equal(t, 17720, c.Window())
	c.HandleLoss(ms(10), Loss{Bytes: 1, SentAt: ms(5)})
	require.Equal(t, 12404, c.Window())
	c.HandleLoss(ms(12), Loss{Bytes: 1, SentAt: ms(9)})
	require.Equal(t, 12404, c.Window(), "one back-off for what was sent before it")
	for range 4 {
		c.HandleAck(Ack{Now: ms(70), Bytes: 3101, Frames: 3, Limited: true, SentAt: ms(20)})
	}
	require.InDelta(t, 12404+MTU0, c.Window(), 150, "an MTU for each window")
}

func TestR7Pacing(t *testing.T) {
	p, _ := connectedPeer(t, simConfig())
	p.send.sample(ms(100))
	p.send.control.(*cubic).window = 100 * MTU0
	p.send.control.(*cubic).threshold = 1
	for range 200 {
		p.Send(0, 0, make([]byte, 1452), Reliable, 0)
	}
	var out wire.Batch
	sent := 0
	for now := ms(0); now < ms(20); now += ms(1) {
		before := out.Len()
		p.Transmit(now, &out, 200)
		if now == 0 {
			require.LessOrEqual(t, out.Len(), burstFrames+1)
		}
		sent += out.Len() - before
		require.Equal(t, LimitPacing, p.Stats().Limit)
		at, _ := p.Next(now)
		require.Less(t, at, now+ms(2))
	}
	require.InDelta(t, 25+burstFrames, sent, 3, "125 frames in 100 ms")

	// A pause gives no credit beyond a burst.
	p.Receive(ms(5000), AppendDataAck(nil, []uint32{2000}), &out)
	out.Reset()
	p.send.queue.waiting = 0
	p.Transmit(ms(5000), &out, 200)
	require.LessOrEqual(t, out.Len(), burstFrames+2)
}

func TestR8SpuriousLoss(t *testing.T) {
	p, _ := connectedPeer(t, simConfig())
	p.send.sample(ms(50))
	p.send.control.(*cubic).threshold = 1 // no slow start
	sendFrames(t, p, 0, 10, Reliable)
	before := p.Stats().Window
	var out wire.Batch
	p.Receive(ms(80), AppendDataAck(nil, []uint32{2001, 2002, 2003}), &out)
	require.Less(t, p.Stats().Window, before)
	p.Transmit(ms(80), &out, 1)
	p.Receive(ms(82), AppendDataAck(nil, []uint32{2000}), &out)
	require.EqualValues(t, 1, p.Stats().Spurious)
	require.GreaterOrEqual(t, p.Stats().Window, before, "the back-off is taken back")
	require.Greater(t, p.send.loss.reorder, uint64(lossOrder))
}

func TestR15Expiry(t *testing.T) {
	p, h := connectedPeer(t, testConfig())
	control := &fixedController{window: 1420}
	p.send.control = control
	var out wire.Batch
	sendFrames(t, p, 0, 1, Reliable) // fills the window
	for _, mode := range []Mode{Reliable, Unreliable, Passive} {
		p.Send(0, 0, []byte("late"), mode, ms(10))
	}
	p.Transmit(ms(5), &out, 10)
	require.Zero(t, out.Len())
	control.window = 1 << 20
	p.Transmit(ms(10), &out, 10)
	require.Zero(t, out.Len())
	require.Len(t, h.fates, 3)
	require.EqualValues(t, 1, p.send.channels[0].next, "no id was spent on them")

	// In flight, a passive packet is not sent again; a reliable one must be.
	for _, mode := range []Mode{Reliable, Passive} {
		p.Send(ms(20), 0, make([]byte, 1400), mode, ms(30))
	}
	p.Transmit(ms(20), &out, 10)
	require.Equal(t, 2, out.Len())
	out.Reset()
	sendFrames(t, p, ms(20), 3, Unreliable)
	p.Receive(ms(40), AppendDataAck(nil, []uint32{2003, 2004, 2005}), &out)
	p.Tick(ms(400), &out)
	out.Reset()
	p.Transmit(ms(400), &out, 10)
	require.Equal(t, 2, out.Len(), "the first packet and the reliable one")
}

func TestR15PassedPackets(t *testing.T) {
	p, h := connectedPeer(t, testConfig())
	p.send.control = &fixedController{window: 1 << 20}
	sendFrames(t, p, 0, 1, Passive)
	sendFrames(t, p, 0, 4, Reliable)
	var out wire.Batch
	b := AppendMessage(AppendDataHeader(nil, 1000, 1), &Message{Type: MessageWindowAck, Packet: 1})
	p.Receive(ms(50), b, &out)
	p.Receive(ms(50), AppendDataAck(nil, []uint32{2002, 2003, 2004}), &out)
	out.Reset()
	p.Transmit(ms(50), &out, 10)
	require.Zero(t, out.Len(), "the peer has consumed or skipped them")
	require.Len(t, h.fates, 5)
	for _, f := range h.fates {
		require.Equal(t, f.Number != 1, f.Delivered, "the passive one may have been skipped, the reliable one was consumed")
	}
	require.Zero(t, p.Stats().InFlight)
}

// R16: nothing is allocated for a message, in any mode, in order or not, and
// acknowledgements included.
func TestR16NoAllocation(t *testing.T) {
	for _, mode := range []Mode{Reliable, Unreliable, Passive} {
		testNoAllocation(t, mode, Cubic, false)
	}
	testNoAllocation(t, Reliable, Tolerant, false)
	testNoAllocation(t, Reliable, Cubic, true)
}

func testNoAllocation(t *testing.T, mode Mode, kind ControllerKind, redundancy bool) {
	cfg := testConfig()
	cfg.AckRepeats, cfg.Controller, cfg.Redundancy = 2, kind, redundancy
	for _, size := range []int{0, 100, 1452, 5000} {
		var a, b Peer
		var h, g counter
		a.Init(0, cfg, 1, &h)
		b.Init(0, cfg, 2, &g)
		var ab, ba wire.Batch
		now := ms(1)
		msg := make([]byte, size)
		answer := func() {
			for i := range ba.Len() {
				a.Receive(now, ba.At(i), &ab)
			}
			ba.Reset()
			a.EndBatch(now, &ab)
		}
		exchange := func(swap bool) {
			now += ms(1)
			a.Tick(now, &ab)
			a.Transmit(now, &ab, 64)
			if redundancy {
				answer() // a millisecond late, so that there is something to repeat
			}
			for i := range ab.Len() {
				if swap {
					i = ab.Len() - 1 - i
				}
				b.Receive(now, ab.At(i), &ba)
			}
			ab.Reset()
			b.EndBatch(now, &ba)
			b.Tick(now, &ba)
			b.Transmit(now, &ba, 64)
			if !redundancy {
				answer()
			}
		}
		for range 5 {
			exchange(false)
		}
		require.Equal(t, Connected, a.State())
		round := func(swap bool) func() {
			return func() {
				if redundancy {
					a.send.loss.share = 0.05
				}
				for range 5 {
					if _, ok := a.Send(now, 0, msg, mode, 0); !ok {
						t.Fatalf("no room: mode %d, size %d: %+v", mode, size, a.Stats())
					}
				}
				exchange(swap)
			}
		}
		for _, swap := range []bool{false, true} {
			for range 3000 {
				round(swap)()
			}
			require.Zero(t, testing.AllocsPerRun(1000, round(swap)), "mode %d, %d bytes, out of order: %v", mode, size, swap)
		}
		require.NotZero(t, g.packets)
		require.NotZero(t, h.fates)
		if redundancy && size == 100 {
			require.NotZero(t, b.Stats().Duplicates)
		}
	}
}

// A counter is a Handler that only counts.
type counter struct{ packets, fates int }

func (c *counter) HandlePacket(int, []byte)  { c.packets++ }
func (c *counter) HandleFate(Fate)           { c.fates++ }
func (c *counter) HandleEvent(Event)         {}
func (c *counter) Unread(int) (one, all int) { return 0, 0 }

// R17: version 1 has smaller frames, and does not speak with version 0.
func TestR17Versions(t *testing.T) {
	v0, v1 := DefaultConfig(0), DefaultConfig(1)
	require.Equal(t, 1452, FragmentSize(v0.MTU))
	require.Equal(t, 1180, FragmentSize(v1.MTU))
	s := newSim(1, &v1, &v1, simLink{})
	s.connect(t)
	_, ok := s.a.p.Send(s.now, 0, make([]byte, 10_000), Reliable, 0)
	require.True(t, ok)
	s.a.transmit()
	s.until(t, time.Second, func() bool { return len(s.b.packets) == 1 })

	s = newSim(1, &v0, &v1, simLink{})
	s.a.step()
	s.run(time.Second)
	require.Equal(t, Disconnected, s.b.p.State())

	p, _ := connectedPeer(t, &v1)
	var out wire.Batch
	b := AppendMessage(AppendDataHeader(nil, 1000, 1), &Message{Data: make([]byte, 1181)})
	p.Receive(0, b, &out)
	require.EqualValues(t, 1, p.Stats().Invalid, "a datagram longer than the MTU")
}

// The constants of the original library and of the paper on either side: what
// is guaranteed holds in each combination.
func TestConstantsOfOthers(t *testing.T) {
	library := DefaultConfig(0)
	library.ReceiveFrames, library.ReceiveGroup = 32768, 2048
	paper := DefaultConfig(0)
	paper.SendFrames, paper.SendGroup, paper.SentinelFrames = 65536, 8192, 32768
	ours := DefaultConfig(0)
	for _, pair := range [][2]*Config{{&ours, &library}, {&library, &ours}, {&paper, &paper}, {&paper, &ours}, {&library, &library}} {
		s := newSim(5, pair[0], pair[1], simLink{delay: 5 * time.Millisecond, loss: 0.02})
		s.connect(t)
		count := s.b.expect(t)
		f := &feed{n: s.a, size: 4, total: 150_000} // ids pass the window twice
		f.keepFull()
		s.until(t, 10*time.Minute, func() bool { return *count == f.total })
	}
}
