package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// fatesOf returns the numbers of packets by their fates, in the order of these;
// those of lost ones are negative.
func fatesOf(h *recorder) (list []int) {
	for _, f := range h.fates {
		if f.Delivered {
			list = append(list, int(f.Number))
		} else {
			list = append(list, -int(f.Number))
		}
	}
	h.fates = nil
	return list
}

// orderly returns a peer that has sent packets in frames of their own: 1 to 7 on
// channel 0, of which 4 is unreliable and 5 passive, and 8 on channel 1.
func orderly(t *testing.T) (*Peer, *recorder, []uint32) {
	p, h := connectedPeer(t, testConfig())
	p.send.control = &fixedController{window: 1 << 20}
	var ids []uint32
	for i, mode := range []Mode{Reliable, Reliable, Reliable, Unreliable, Passive, Reliable, Unreliable, Reliable} {
		p.Send(0, i/7, make([]byte, 1400), mode, 0)
		var out wire.Batch
		p.Transmit(0, &out, 1)
		id, _, _, _ := ParseData(out.At(0))
		ids = append(ids, id)
	}
	p.send.loss.reorder = 100
	return p, h, ids
}

// A packet is delivered when the peer can read it: not before the reliable ones in
// front of it have arrived. Those that need not arrive keep back none.
func TestDeliveredIsReadable(t *testing.T) {
	p, h, ids := orderly(t)
	ack := func(packets ...int) []int {
		var list []uint32
		for _, n := range packets {
			list = append(list, ids[n-1])
		}
		p.Receive(1, AppendDataAck(nil, list), new(wire.Batch))
		return fatesOf(h)
	}
	require.Equal(t, []int{8}, ack(8), "on another channel")
	require.Empty(t, ack(2))
	require.Empty(t, ack(4), "an unreliable one waits for those before it, too")
	require.Equal(t, 7, p.Stats().Packets, "they count until then")
	require.Equal(t, []int{1, 2}, ack(1))
	require.Empty(t, ack(6))
	require.Equal(t, []int{3, 4, 6}, ack(3), "what has arrived before and behind a passive one")
	require.Equal(t, []int{7}, ack(7))
	require.Equal(t, []int{5}, ack(5))
	require.True(t, p.Flushed())
	ch := p.send.channels[0]
	require.Nil(t, ch.oldest)
	require.Nil(t, ch.tail)
	require.Nil(t, ch.missing)
	require.Zero(t, ch.queued)
}

// When the connection ends, what has arrived behind a missing packet is lost, since
// nobody can read it any more; what needs none that is missing is delivered.
func TestEndLosesWhatNobodyCanRead(t *testing.T) {
	p, h, ids := orderly(t)
	p.Receive(1, AppendDataAck(nil, []uint32{ids[0], ids[2], ids[3], ids[6]}), new(wire.Batch))
	require.Equal(t, []int{1}, fatesOf(h))
	p.send.channels[0].oldest.seen = true // 2, by a copy
	p.Abort(2, new(wire.Batch), false)
	require.Equal(t, []int{2, 3, 4, -5, -6, -7, -8}, fatesOf(h))

	p, h, ids = orderly(t)
	p.Receive(1, AppendDataAck(nil, []uint32{ids[1], ids[3], ids[7]}), new(wire.Batch))
	require.Equal(t, []int{8}, fatesOf(h))
	p.Abort(2, new(wire.Batch), false)
	require.Equal(t, []int{-1, -2, -3, -4, -5, -6, -7}, fatesOf(h))
}

// A reliable packet whose time is over before it was sent keeps back none.
func TestExpiredPacketsKeepBackNone(t *testing.T) {
	p, h := connectedPeer(t, testConfig())
	p.send.control = &fixedController{window: 1}
	sendFrames(t, p, 0, 1, Unreliable)
	p.Send(0, 0, []byte("late"), Reliable, ms(10))
	p.Send(0, 0, []byte("good"), Reliable, 0)
	p.send.control = &fixedController{window: 1 << 20}
	var out wire.Batch
	p.Transmit(ms(20), &out, 10)
	require.Equal(t, []int{-2}, fatesOf(h))
	id, _, _, _ := ParseData(out.At(out.Len() - 1))
	p.Receive(ms(30), AppendDataAck(nil, []uint32{id}), new(wire.Batch))
	require.Contains(t, fatesOf(h), 3)
}

// While a connection is being closed nobody reads here: what comes is not
// acknowledged, but for what was taken before, and window acknowledgements count.
func TestClosingTakesNothing(t *testing.T) {
	p, h := connectedPeer(t, testConfig())
	sendFrames(t, p, 0, 3, Reliable)
	frame := func(id uint32, list ...Message) []byte {
		b := AppendDataHeader(nil, id, len(list))
		for i := range list {
			b = AppendMessage(b, &list[i])
		}
		return b
	}
	var out wire.Batch
	p.Receive(0, frame(1000, Message{Data: []byte("before")}), &out)
	p.EndBatch(0, &out)
	p.Disconnect(0, true)
	require.Equal(t, Connected, p.State(), "not everything is acknowledged")
	for _, test := range []struct {
		name string
		b    []byte
		want []byte // acknowledgement
	}{
		{"a new message", frame(1001, Message{Packet: 1, Data: []byte("new")}), AppendDataAck(nil, nil)},
		{"of another channel", frame(1001, Message{Channel: 1, Data: []byte("new")}), AppendDataAck(nil, nil)},
		{"a sentinel", frame(1001, Message{Type: MessageSentinel, Packet: 1}), AppendDataAck(nil, nil)},
		{"with a window acknowledgement", frame(1001, Message{Type: MessageWindowAck, Packet: 1}, Message{Packet: 1}), AppendDataAck(nil, nil)},
		{"one that was taken before", frame(1000, Message{Data: []byte("before")}), AppendDataAck(nil, []uint32{1000})},
		{"a window acknowledgement", frame(1001, Message{Type: MessageWindowAck, Packet: 2}), AppendDataAck(nil, []uint32{1001})},
		{"nothing", frame(1002), AppendDataAck(nil, []uint32{1002})},
		{"no channel", frame(1003, Message{Channel: 9}), AppendDataAck(nil, []uint32{1003})},
	} {
		out.Reset()
		p.Receive(0, test.b, &out)
		p.EndBatch(0, &out)
		require.Equal(t, 1, out.Len(), test.name)
		require.Equal(t, test.want, out.At(0), test.name)
	}
	require.Len(t, h.packets, 1)
	require.EqualValues(t, 3, p.send.channels[0].base)
}

// The same before the handshake is done: what was sent leaves then, and nothing is
// taken.
func TestClosingBeforeTheHandshakeIsDone(t *testing.T) {
	cfg := testConfig()
	p, h := newPeer(cfg)
	p.Send(0, 0, []byte("hello"), Reliable, 0)
	p.Disconnect(0, true)
	require.Equal(t, Connecting, p.State())
	var out wire.Batch
	p.Receive(0, AppendConnect(nil, Connect{cfg.Version, cfg.Channels, cfg.SendBandwidth, 2000}), &out)
	p.Receive(0, AppendConnectAck(nil, p.ownID), &out)
	p.Receive(0, AppendMessage(AppendDataHeader(nil, p.ownID, 1), &Message{Data: []byte("x")}), &out)
	require.Empty(t, h.packets)
	out.Reset()
	p.Transmit(0, &out, 10)
	require.Contains(t, string(out.At(0)), "hello")
	p.Receive(1, AppendDataAck(nil, []uint32{2000}), &out)
	p.EndBatch(1, &out)
	require.Equal(t, Disconnecting, p.State())

	p, _ = newPeer(cfg)
	p.Disconnect(0, true)
	require.Equal(t, Disconnected, p.State(), "with nothing to send")
	p, _ = newPeer(cfg)
	p.Send(0, 0, []byte("hello"), Reliable, 0)
	p.Disconnect(0, false)
	require.Equal(t, Disconnected, p.State())
}

// Two sides that close at once with packets for each other on their way do not wait
// for each other: neither takes any more, and both say so.
func TestBothCloseAtOnce(t *testing.T) {
	for _, loss := range []float64{0, 0.2} {
		s := newSim(1, simConfig(), simConfig(), simLink{delay: 50 * time.Millisecond, loss: loss})
		s.connect(t)
		s.run(time.Second)
		for _, n := range []*simNode{s.a, s.b} {
			for i := range 10 {
				n.p.Send(s.now, 0, numbered(i, 1000), Reliable, 0)
			}
			n.transmit()
			n.p.Disconnect(s.now, true)
			n.step()
		}
		start := s.now
		s.until(t, time.Minute, func() bool { return s.a.p.State() >= Disconnected && s.b.p.State() >= Disconnected })
		require.Less(t, s.now-start, 2*time.Second)
		for _, n := range []*simNode{s.a, s.b} {
			require.Empty(t, n.packets)
			require.Len(t, n.fates, 10)
			for _, f := range n.fates {
				require.False(t, f.Delivered)
			}
		}
	}
}

// A side that goes on is not ended by a peer that takes nothing any more, and one
// that closes waits for acknowledgements that are on their way.
func TestClosingPeerTakesNothing(t *testing.T) {
	p, h := connectedPeer(t, testConfig())
	p.send.sample(ms(50))
	ids := sendFrames(t, p, 0, 1, Reliable)
	var out wire.Batch
	p.Receive(ms(10), AppendDataAck(nil, nil), &out)
	p.EndBatch(ms(2000), &out)
	require.Equal(t, Connected, p.State())
	p.Disconnect(ms(2000), true)
	p.Receive(ms(2000), AppendDataAck(nil, nil), &out)
	p.Receive(ms(2010), AppendDataAck(nil, nil), &out)
	p.EndBatch(ms(2020), &out)
	require.Equal(t, Connected, p.State())
	at, _ := p.Next(ms(2020))
	require.LessOrEqual(t, at, ms(2000)+p.send.rtt.rto())
	p.Receive(ms(2030), AppendDataAck(nil, ids), &out)
	p.EndBatch(ms(2030), &out)
	require.Equal(t, Disconnecting, p.State())
	require.Equal(t, []int{1}, fatesOf(h))
}
