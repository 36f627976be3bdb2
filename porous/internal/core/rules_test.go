package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// Rules that random operations and recordings hardly meet.

// timeoutPeer returns a peer with a timeout of 300 ms.
func timeoutPeer(t *testing.T) (*Peer, *fixedController) {
	p, _ := connectedPeer(t, testConfig())
	c := &fixedController{window: 30_000}
	p.send.control = c
	p.send.sample(ms(100))
	require.Equal(t, ms(300), p.Stats().RTO)
	return p, c
}

// tickUntil ticks and transmits each millisecond.
func tickUntil(p *Peer, now, end Clock) (frames int) {
	var out wire.Batch
	for ; now <= end; now += ms(1) {
		p.Tick(now, &out)
		out.Reset()
		p.Transmit(now, &out, 100)
		frames += out.Len()
		out.Reset()
	}
	return frames
}

// R3: an acknowledgement ends the back-off, and so does the answer to a ping,
// nearly.
func TestR3BackOffEnds(t *testing.T) {
	for _, ping := range []bool{false, true} {
		p, _ := timeoutPeer(t)
		ids := sendFrames(t, p, 0, 20, Reliable)
		tickUntil(p, 0, ms(3000))
		require.Greater(t, int(p.send.loss.backoff), 2)
		var out wire.Batch
		if ping {
			require.True(t, p.pinging, "as frames time out")
			p.Receive(ms(3001), AppendPing(nil, TypePingAck, p.pingID), &out)
			require.EqualValues(t, 1, p.send.loss.backoff)
			p.send.rtt.avg, p.send.rtt.dev = ms(100), ms(50)
			cfg := *p.cfg
			cfg.MaxTimeout = time.Hour
			p.cfg = &cfg
			at, _ := p.send.timeoutDue()
			require.LessOrEqual(t, at, ms(3001+600))
		} else {
			p.Receive(ms(3001), AppendDataAck(nil, ids[:1]), &out)
			require.Zero(t, p.send.loss.backoff)
		}
	}
}

// T11: the reset comes 8 timeouts after the first one without an acknowledgement,
// once, and anew after one.
func TestT11ResetOnceInASilence(t *testing.T) {
	p, c := timeoutPeer(t)
	ids := sendFrames(t, p, 0, 20, Reliable)
	tickUntil(p, 0, ms(300+8*300-1))
	require.Zero(t, c.timeouts)
	tickUntil(p, ms(300+8*300), ms(10_000))
	require.Equal(t, 1, c.timeouts)
	var out wire.Batch
	p.Receive(ms(10_001), AppendDataAck(nil, ids[:1]), &out)
	out.Reset()
	p.send.rtt.avg, p.send.rtt.dev = ms(100), ms(50)
	tickUntil(p, ms(10_001), ms(10_001+2000))
	require.Equal(t, 1, c.timeouts, "a new silence has just begun")
	tickUntil(p, ms(12_002), ms(20_000))
	require.Equal(t, 2, c.timeouts)
}

// R11: one timeout is no reason to think that a channel is not read, whoever was
// heard before; a second one is, if the peer was heard meanwhile.
func TestR11FirstTimeoutIsNoSuspicion(t *testing.T) {
	for _, heard := range []bool{false, true} {
		p, _ := timeoutPeer(t)
		p.Receive(ms(10), AppendPing(nil, TypePing, 1), new(wire.Batch))
		sendFrames(t, p, ms(10), 20, Reliable)
		tickUntil(p, ms(10), ms(400))
		require.EqualValues(t, 1, p.Stats().Timeouts)
		ch := p.send.channels[0]
		require.Zero(t, ch.trust.losses)
		if heard {
			p.Receive(ms(401), AppendPing(nil, TypePing, 2), new(wire.Batch))
		}
		tickUntil(p, ms(401), ms(1500))
		require.EqualValues(t, 2, p.Stats().Timeouts)
		require.Equal(t, heard, ch.trust.losses > 0)
	}
}

// R3: when a timeout finds nothing to send again, something new is sent, whatever
// the window says.
func TestR3SomethingNewProbes(t *testing.T) {
	p, c := timeoutPeer(t)
	sendFrames(t, p, 0, 1, Unreliable)
	c.window = 100
	p.Send(0, 0, make([]byte, 1400), Unreliable, 0)
	require.Zero(t, tickUntil(p, 0, ms(299)))
	require.Equal(t, 1, tickUntil(p, ms(300), ms(400)))
}

// R1: the time after which an overtaken frame is lost follows the latest sample,
// too, when the path has become longer.
func TestR1TimeFollowsTheLatestSample(t *testing.T) {
	var r rtt
	r.init(false, 0, 0)
	r.add(ms(40))
	require.Equal(t, ms(45), r.lossDelay())
	r.add(ms(400))
	require.Equal(t, ms(450), r.lossDelay())
	r.add(ms(40))
	require.Greater(t, r.lossDelay(), ms(45))
}

// Q9: a window acknowledgement of what was not sent yet, or was acknowledged
// before, moves nothing: else the channel would stall, or run ahead.
func TestQ9ForgedWindowAcks(t *testing.T) {
	cfg := testConfig()
	cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = 16, 4, 4
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 1 << 20}
	var out wire.Batch
	frame := uint32(1000)
	ack := func(packet uint32) {
		b := AppendMessage(AppendDataHeader(nil, frame, 1), &Message{Type: MessageWindowAck, Packet: packet & (packetIDs - 1)})
		p.Receive(0, b, &out)
		frame++
	}
	sendFrames(t, p, 0, 5, Reliable)
	for _, forged := range []uint32{5, 7, 15, 16, packetIDs - 1, packetIDs / 2} {
		ack(forged)
		require.Zero(t, p.send.channels[0].base, "%d", forged)
	}
	require.EqualValues(t, 6, p.Stats().OutOfReach)
	ack(3)
	require.EqualValues(t, 4, p.send.channels[0].base)
	ack(3)
	ack(1)
	require.EqualValues(t, 4, p.send.channels[0].base)
	for range 20 {
		p.Send(0, 0, []byte("x"), Reliable, 0)
	}
	p.Transmit(0, &out, 100)
	require.EqualValues(t, 20, p.send.channels[0].next, "as many as the window holds")
}

// Q5: what lies behind the window counts as known, what lies beyond it as out of
// reach.
func TestQ5WhereMessagesLie(t *testing.T) {
	cfg := testConfig()
	cfg.Packets, cfg.ReceiveGroup = 16, 4
	p, h := connectedPeer(t, cfg)
	frame := uint32(1000)
	receive := func(packet uint32) {
		b := AppendMessage(AppendDataHeader(nil, frame, 1), &Message{Packet: packet & (packetIDs - 1), Data: []byte{1}})
		p.Receive(0, b, new(wire.Batch))
		p.EndBatch(0, new(wire.Batch))
		frame++
	}
	receive(0)
	receive(0)
	receive(packetIDs - 5)
	require.EqualValues(t, 2, p.Stats().Duplicates)
	require.Zero(t, p.Stats().OutOfReach)
	receive(17)
	receive(packetIDs/2 - 1)
	require.EqualValues(t, 2, p.Stats().OutOfReach)
	receive(16)
	require.Len(t, h.packets, 2)
}

// D1: a flush waits for window acknowledgements, too, or the peer's channel might
// stand still at the end.
func TestD1FlushesWindowAcks(t *testing.T) {
	cfg := testConfig()
	cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = 16, 4, 4
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 1 << 20}
	var out wire.Batch
	for id := range uint32(4) {
		b := AppendMessage(AppendDataHeader(nil, 1000+id, 1), &Message{Packet: id, Data: []byte{1}})
		p.Receive(0, b, &out)
	}
	p.EndBatch(0, &out)
	out.Reset()
	require.False(t, p.Flushed())
	p.Disconnect(0, true)
	p.Tick(0, &out)
	require.Equal(t, Connected, p.State())
	out.Reset()
	p.Transmit(0, &out, 10)
	require.Equal(t, 1, out.Len())
	require.False(t, p.Flushed())
	p.Receive(0, AppendDataAck(nil, []uint32{2000}), &out)
	require.True(t, p.Flushed())
	p.EndBatch(0, &out)
	require.Equal(t, Disconnecting, p.State())
}

// What is kept for use again has a limit.
func TestKeptMemory(t *testing.T) {
	cfg := testConfig()
	cfg.Channels, cfg.SendBuffer = 1, 1<<20
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 1 << 24}
	ids := sendFrames(t, p, 0, 500, Reliable)
	var out wire.Batch
	p.Receive(0, AppendDataAck(nil, ids[:300]), &out)
	p.Receive(0, AppendDataAck(nil, ids[300:]), &out)
	require.True(t, p.Flushed())
	require.LessOrEqual(t, p.send.queued+p.send.freeSize, cfg.SendBuffer)
	require.Greater(t, p.send.freeSize, cfg.SendBuffer/4)
}

// R11: what was taken out of frames goes into others in the order of packets and
// fragments, in whichever order the frames were lost.
func TestR11TakenBackInOrder(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	p.send.control = &fixedController{window: 1 << 24}
	for i := range 4 {
		p.Send(0, 0, make([]byte, 2000+i), Reliable, 0)
	}
	var out wire.Batch
	p.Transmit(0, &out, 100)
	ch := p.send.channels[0]
	n := uint32(out.Len())
	for i := range n {
		id := 2000 + (i*3+1)%n
		p.send.takeBack(0, id, p.send.queue.get(id))
	}
	require.Len(t, ch.back, 8)
	for i, last := 0, (part{}); i < 8; i++ {
		next := ch.take()
		if i > 0 {
			require.True(t, last.before(&next), "%d/%d before %d/%d", last.packet.number, last.fragment, next.packet.number, next.fragment)
		}
		last = next
	}
}

// D2: who is about to end the connection itself has no reason to doubt that the
// other side does.
func TestD2ExpectedEndIsNotDoubted(t *testing.T) {
	cfg := testConfig()
	cfg.VerifyDisconnect = true
	for _, flushing := range []bool{false, true} {
		p, _ := connectedPeer(t, cfg)
		p.send.control = &fixedController{window: 1 << 20}
		sendFrames(t, p, 0, 1, Reliable)
		if flushing {
			p.Disconnect(0, true)
		}
		var out wire.Batch
		p.Receive(0, AppendDisconnect(nil), &out)
		require.Equal(t, flushing, p.State() == Disconnected)
	}
}

// T14: an answer to another ping than the last one measures nothing, and says
// nothing about whether the last one arrived.
func TestT14AnswerToAnotherPing(t *testing.T) {
	p, _ := timeoutPeer(t)
	sendFrames(t, p, 0, 20, Reliable)
	tickUntil(p, 0, ms(3000))
	require.True(t, p.pinging, "as frames time out")
	before := p.Stats()
	var out wire.Batch
	for _, id := range []uint16{p.pingID - 1, p.pingID + 1, ^p.pingID} {
		p.Receive(ms(3001), AppendPing(nil, TypePingAck, id), &out)
		require.True(t, p.pinging, "after the answer to another ping")
		require.Equal(t, before.RTT, p.Stats().RTT)
	}
	p.Receive(ms(3001), AppendPing(nil, TypePingAck, p.pingID), &out)
	require.False(t, p.pinging)
	require.NotEqual(t, before.RTT, p.Stats().RTT)
}

// A peer that ends the connection is believed though data goes on being sent to
// it, whose timeouts bring further pings.
func TestVerifyDisconnectInAStream(t *testing.T) {
	cfg := simConfig()
	cfg.VerifyDisconnect, cfg.AwaitAcks = true, true
	s := newSim(1, cfg, cfg, simLink{delay: 20 * time.Millisecond})
	s.connect(t)
	var send func()
	send = func() {
		s.a.p.Send(s.now, 0, make([]byte, 100), Reliable, 0)
		s.a.transmit()
		s.at(s.now+ms(16), send)
	}
	send()
	s.run(time.Second)
	s.b.p.Disconnect(s.now, true)
	s.b.step()
	s.run(3 * time.Second)
	require.Equal(t, []Event{EventConnect, EventDisconnect}, s.a.events)
	require.Equal(t, []Event{EventConnect, EventDisconnect}, s.b.events)
}

// T14: a peer that is not heard is pinged once each round-trip time, however much
// that varies, since nothing but an answer keeps the connection alive; one that
// is heard has the time that the timeout leaves it to answer.
func TestT14PingsInSilence(t *testing.T) {
	for _, heard := range []bool{false, true} {
		p, _ := connectedPeer(t, testConfig())
		p.send.rtt.avg, p.send.rtt.dev, p.send.rtt.samples = ms(2000), ms(500), 1
		var out wire.Batch
		var pings []Clock
		for now := ms(0); now < ms(18_000); now += ms(10) {
			if p.Tick(now, &out); out.Len() > 0 {
				pings = append(pings, now)
			}
			out.Reset()
			if heard && len(pings) > 0 {
				p.Receive(now, AppendDataAck(nil, nil), &out)
			}
		}
		want := []Clock{ms(5000), ms(7000), ms(9000), ms(11_000), ms(13_000), ms(15_000), ms(17_000)}
		if heard {
			want = []Clock{ms(5000), ms(9000), ms(13_000), ms(17_000)}
		}
		require.Equal(t, want, pings, heard)
	}
}

// No channel of several gets more than two thirds of what the others leave of three
// quarters of the send buffer, but for its part of the last quarter; and each gets
// one packet in any case.
func TestShareOfTheSendBuffer(t *testing.T) {
	cfg := testConfig()
	cfg.Channels, cfg.SendBuffer = 4, 100_000
	fill := func(p *Peer, channel, n int) {
		for {
			room := p.Room(channel, n)
			_, ok := p.Send(0, channel, make([]byte, n), Reliable, 0)
			require.Equal(t, room, ok)
			if !ok {
				break
			}
		}
	}
	const cost = 1000 - PacketOverhead
	p, _ := connectedPeer(t, cfg)
	for channel, want := range []int{50_000, 16_000, 6_000} {
		require.True(t, p.Roomy(channel))
		fill(p, channel, cost)
		require.Equal(t, want, p.ChannelStats(channel).Queued)
		require.False(t, p.Roomy(channel))
	}
	fill(p, 3, 60_000)
	require.Equal(t, 60_000+PacketOverhead, p.ChannelStats(3).Queued, "one in any case")
	require.False(t, p.Room(0, 0))
	require.False(t, p.Roomy(3))

	cfg.Channels = 1
	p, _ = connectedPeer(t, cfg)
	fill(p, 0, cost)
	require.Equal(t, 100_000, p.Stats().Queued, "one alone has it all")
	require.False(t, p.Roomy(0))
}

// However many channels are full at both sides since nobody reads there, another
// one has room for what it sends.
func TestShareBesideManyUnreadChannels(t *testing.T) {
	cfg := simConfig()
	cfg.Channels = 32
	s := newSim(1, cfg, cfg, simLink{delay: 20 * time.Millisecond})
	s.connect(t)
	s.b.unread = map[int]int{}
	for channel := range 31 {
		s.b.unread[channel] = 0
	}
	for range 50 {
		for channel := range 31 {
			for {
				if _, ok := s.a.p.Send(s.now, channel, make([]byte, 5000), Reliable, 0); !ok {
					break
				}
			}
		}
		s.a.transmit()
		s.run(time.Second)
	}
	st := s.a.p.Stats()
	require.LessOrEqual(t, st.Queued, cfg.SendBuffer)
	_, unread := s.b.Unread(0)
	bounded(t, &s.b.p, unread)
	sent := 0
	count := len(s.b.packets)
	for range 600 {
		if _, ok := s.a.p.Send(s.now, 31, make([]byte, 200), Reliable, 0); ok {
			sent++
		}
		s.a.transmit()
		s.run(time.Second / 60)
	}
	require.Equal(t, 600, sent, "60 a second, whatever the round-trip time")
	s.run(time.Second)
	require.Equal(t, 600, len(s.b.packets)-count)
}

// A program that takes steps of its own and stays away does not make the
// acknowledgements it owes grow.
func TestAcksOwedHaveALimit(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	var out wire.Batch
	for i := range uint32(100_000) {
		p.Receive(0, AppendDataHeader(nil, 1000+i, 0), &out)
	}
	require.Len(t, p.recv.acks.ids, 65536)
	require.EqualValues(t, 100_000-maxAcks, p.Stats().Refused+p.Stats().OutOfWindow)
	p.EndBatch(0, &out)
	acked := 0
	for i := range out.Len() {
		acked += len(ackIDs(t, out.At(i)))
	}
	require.Equal(t, 65536, acked)
	p.Receive(0, AppendDataHeader(nil, 1000+maxAcks, 0), &out)
	require.Len(t, p.recv.acks.ids, 1)
}

// D2: a request to end is doubted for two timeouts, of 50 ms at least.
func TestD2DoubtLasts(t *testing.T) {
	for rto, want := range map[Clock]Clock{ms(1): ms(100), ms(50): ms(100), ms(51): ms(102), ms(300): ms(600)} {
		cfg := testConfig()
		cfg.VerifyDisconnect = true
		p, _ := connectedPeer(t, cfg)
		p.send.rtt = rtt{avg: rto}
		require.Equal(t, rto, p.Stats().RTO)
		var out wire.Batch
		for _, now := range []Clock{ms(7), ms(8), ms(7) + want - 1} {
			p.Receive(now, AppendDisconnect(nil), &out)
			require.Equal(t, Connected, p.State(), "%v at %v", rto, now)
			require.Equal(t, 1, out.Len(), "a ping")
		}
		p.Receive(ms(7)+want, AppendDisconnect(nil), &out)
		require.Equal(t, Disconnected, p.State())
	}
}

// C5: an acknowledgement of another request refuses ours, and is no invalid
// datagram.
func TestC5RefusalIsValid(t *testing.T) {
	p, h := newPeer(testConfig())
	p.Receive(0, AppendConnectAck(nil, p.ownID+1), new(wire.Batch))
	require.Equal(t, []Event{EventRefused}, h.events)
	require.Zero(t, p.Stats().Invalid)
	require.EqualValues(t, 1, p.Stats().Received)
}

// T1: a window acknowledgement, the shortest message, takes the last five bytes of
// a frame.
func TestT1LastBytesOfAFrame(t *testing.T) {
	for more, frames := range []int{1, 2} {
		cfg := testConfig()
		p, _ := connectedPeer(t, cfg)
		p.send.control = &fixedController{window: 1 << 20}
		p.Send(0, 1, nil, Reliable, 0)
		p.Transmit(0, new(wire.Batch), 10)
		p.SetPriority(0, true)
		p.Send(0, 0, make([]byte, cfg.MTU-DataHeaderSize-FragmentHeaderSize-WindowAckSize+more), Reliable, 0)
		p.send.mark(1, 7)
		var out wire.Batch
		p.Transmit(0, &out, 10)
		require.Equal(t, frames, out.Len())
		if frames == 1 {
			require.Len(t, out.At(0), cfg.MTU)
		}
	}
}
