package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

func TestQ1ChannelsAreIndependent(t *testing.T) {
	p, h := connectedPeer(t, testConfig())
	var out wire.Batch
	send := func(frame uint32, m Message) {
		p.Receive(0, AppendMessage(AppendDataHeader(nil, frame, 1), &m), &out)
		p.EndBatch(0, &out)
	}
	send(1000, Message{Channel: 0, Packet: 1, Lead: 1, Data: []byte("waits")})
	send(1001, Message{Channel: 1, Packet: 0, Data: []byte("passes")})
	require.Equal(t, []received{{1, "passes"}}, h.packets)
	send(1002, Message{Channel: 0, Packet: 0, Data: []byte("first")})
	require.Equal(t, []received{{1, "passes"}, {0, "first"}, {0, "waits"}}, h.packets)
}

// messagesOf returns the messages of the data frames in a batch, whose data is
// copied.
func messagesOf(t *testing.T, out *wire.Batch) (list []Message) {
	for i := range out.Len() {
		_, n, body, ok := ParseData(out.At(i))
		require.True(t, ok)
		for range n {
			var m Message
			m, body, _ = NextMessage(body)
			m.Data = append([]byte(nil), m.Data...)
			list = append(list, m)
		}
	}
	out.Reset()
	return list
}

// Q2: ids count up for each channel by itself, and after 2^24 - 1 comes 0; at
// both sides.
func TestQ2PacketIDs(t *testing.T) {
	const first = packetIDs - 5
	p, _ := connectedPeer(t, testConfig())
	ch := p.send.channel(0)
	ch.base, ch.next = first, first
	q, h := connectedPeer(t, testConfig())
	r := q.recv.channel(0)
	r.base = first
	var out wire.Batch
	for i := range 10 {
		p.Send(0, 0, numbered(i, 4), Mode(i%3), 0)
		if i < 3 {
			p.Send(0, 1, numbered(i, 4), Reliable, 0)
		}
	}
	p.Transmit(0, &out, 10)
	var ids [2][]uint32
	list := messagesOf(t, &out)
	for i := range list {
		m := &list[len(list)-1-i] // the last one arrives first
		ids[m.Channel] = append(ids[m.Channel], m.Packet)
		q.Receive(0, AppendMessage(AppendDataHeader(nil, 1000+uint32(i), 1), m), &out)
	}
	slices.Reverse(ids[0])
	require.Equal(t, []uint32{first, first + 1, first + 2, first + 3, first + 4, 0, 1, 2, 3, 4}, slices.Compact(sorted(ids[0], first)))
	require.ElementsMatch(t, []uint32{0, 1, 2}, ids[1])
	q.EndBatch(0, &out)
	next := [2]int{}
	for _, got := range h.packets {
		require.Equal(t, string(numbered(next[got.channel], 4)), got.data)
		next[got.channel]++
	}
	require.Equal(t, [2]int{10, 3}, next)
}

// sorted sorts ids by their distance from the first one.
func sorted(ids []uint32, first uint32) []uint32 {
	slices.SortFunc(ids, func(a, b uint32) int { return int(packetLead(a, first)) - int(packetLead(b, first)) })
	return ids
}

// Q3: all fragments of a packet but the last are full, an empty one is a fragment,
// too, and what is reliable or passive is sent until it is acknowledged.
func TestQ3Fragments(t *testing.T) {
	for _, size := range []int{0, 1, 1451, 1452, 1453, 2904, 2905, 65536} {
		for _, mode := range []Mode{Reliable, Unreliable, Passive} {
			p, _ := connectedPeer(t, testConfig())
			p.send.control = &fixedController{window: 1 << 20}
			data := make([]byte, size)
			for i := range data {
				data[i] = byte(i * 7)
			}
			p.Send(0, 0, data, mode, 0)
			var out wire.Batch
			p.Transmit(0, &out, 100)
			count := max(1, (size+1451)/1452)
			list := messagesOf(t, &out)
			require.Len(t, list, count)
			for i, m := range list {
				require.Equal(t, []int{i, count - 1}, []int{int(m.Fragment), int(m.Last)})
				require.Equal(t, string(data[i*1452:min(i*1452+1452, size)]), string(m.Data))
			}
			p.Tick(time.Second, &out) // the timeout
			out.Reset()
			p.Transmit(time.Second, &out, 1)
			require.Equal(t, mode != Unreliable, out.Len() > 0, "mode %v", mode)
		}
	}
}

// Q3: the largest packet has 65536 fragments.
func TestQ3LargestPacket(t *testing.T) {
	cfg := testConfig()
	cfg.MTU = 40
	cfg.MaxPacket = MaxFragments * FragmentSize(cfg.MTU)
	cfg.SendBuffer, cfg.ReceiveBuffer = 2*cfg.MaxPacket, 32<<20
	s := newSim(1, cfg, cfg, simLink{delay: ms(1)})
	s.connect(t)
	data := make([]byte, cfg.MaxPacket)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	_, ok := s.a.p.Send(s.now, 0, data, Reliable, 0)
	require.True(t, ok)
	s.a.transmit()
	s.until(t, time.Minute, func() bool { return len(s.b.packets) == 1 })
	require.True(t, string(data) == s.b.packets[0].data)
	require.EqualValues(t, MaxFragments, s.b.p.Stats().Accepted)
}

func TestQ4Q9SendWindow(t *testing.T) {
	var s sender
	s.init(0, 100, 4, 2)
	for range 6 {
		s.push(&outgoing{ch: &s})
	}
	for range 4 {
		require.True(t, s.ready())
		s.take()
	}
	require.False(t, s.ready(), "Q4")
	for _, id := range []uint32{4, 5, packetIDs - 1, 100} {
		require.False(t, s.handleWindowAck(id), "Q9: %d was not sent", id)
		require.Zero(t, s.base)
	}
	require.True(t, s.handleWindowAck(1))
	require.EqualValues(t, 2, s.base)
	require.False(t, s.handleWindowAck(1))
	s.take()
	s.take()
	require.Nil(t, s.head)
}

func TestQ7Dependencies(t *testing.T) {
	var s sender
	s.init(0, 100, 4, 2)
	var leads []uint16
	for i := range 12 {
		mode := Unreliable
		if i == 1 || i == 10 {
			mode = Reliable
		}
		s.push(&outgoing{ch: &s, mode: mode})
		for s.ready() {
			p := s.take()
			var m Message
			p.message(&m)
			if m.Type == MessageFragment {
				leads = append(leads, m.Lead)
			} else {
				require.Equal(t, leads[len(leads)-1], m.Lead, "the sentinel has its packet's")
			}
		}
		s.base = s.next
	}
	require.Equal(t, []uint16{0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 1}, leads)
}

func TestQ8OnlyTheNewestWindowAck(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	s := &p.send
	s.mark(0, 7)
	s.mark(0, 15)
	require.False(t, s.empty())
	ch := s.schedule.pick(0)
	first := ch.take()
	s.schedule.taken()
	require.Equal(t, part{kind: MessageWindowAck, reliable: true, id: 15, ch: ch}, first)
	require.True(t, s.empty())
	require.False(t, first.done(0))
	s.mark(0, 23)
	require.True(t, first.done(0), "an older one is not sent again")
}

// Q13 gives window acknowledgements the priority of their channel; ours leave ahead of
// everything, since what the peer sends there waits for them.
func TestQ13WindowAcks(t *testing.T) {
	cfg := testConfig()
	cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = 16, 4, 4
	p, _ := connectedPeer(t, cfg)
	p.SetPriority(1, true)
	p.send.control = &fixedController{window: 1 << 20}
	p.Send(0, 0, []byte("low"), Reliable, 0)
	p.Send(0, 1, []byte("high"), Reliable, 0)
	var out wire.Batch
	for i := range uint32(8) {
		m := Message{Channel: uint8(i % 2), Packet: i / 2, Data: []byte("x")}
		p.Receive(0, AppendMessage(AppendDataHeader(nil, 1000+i, 1), &m), &out)
	}
	p.Transmit(0, &out, 10)
	var order []string
	for _, m := range messagesOf(t, &out) {
		order = append(order, fmt.Sprintf("%d %d %s", m.Channel, m.Type, m.Data))
	}
	require.Equal(t, []string{"0 2 ", "1 2 ", "1 0 high", "0 0 low"}, order)
}

func TestQ10Q12TotalLossOfUnreliable(t *testing.T) {
	loseFragments(t, 1000, 1<<20, 1, Unreliable, 0)
}

// The same where packets are given up while they are being sent, since their time
// is over: they have used an id, and need the sentinel as others do.
func TestQ10Q12PacketsGivenUp(t *testing.T) {
	for _, mode := range []Mode{Unreliable, Passive} {
		loseFragments(t, 100, 3000, 5*1452, mode, ms(20))
	}
}

// loseFragments has everything arrive but fragments, with the constants of the
// original library and with those of volley's peers on either side, and fails if
// sending does not go on.
func loseFragments(t *testing.T, packets, window, size int, mode Mode, life Clock) {
	cfg := testConfig()
	cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = 64, 2, 8
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: window}
	q, h := connectedPeer(t, cfg)
	var out, back wire.Batch
	data := make([]byte, size)
	ch := p.send.channel(0)
	for now := ms(0); int(ch.next) < packets; now += ms(1) {
		require.Less(t, now, ms(600_000), "stalled after %d", ch.next)
		if p.Stats().Packets < 2 {
			var expires Clock
			if life > 0 {
				expires = now + life
			}
			p.Send(now, 0, data, mode, expires)
		}
		p.Tick(now, &out)
		p.Transmit(now, &out, 50)
		for i := range out.Len() {
			id, n, body, ok := ParseData(out.At(i))
			if !ok {
				continue
			}
			kept, count := []byte(nil), 0
			for range n {
				var m Message
				if m, body, _ = NextMessage(body); m.Type != MessageFragment {
					kept = AppendMessage(kept, &m)
					count++
				}
			}
			if count > 0 || n == 0 {
				q.Receive(now, append(AppendDataHeader(nil, id-1000, count), kept...), &back)
			}
		}
		out.Reset()
		q.EndBatch(now, &back)
		q.Transmit(now, &back, 50)
		for i := range back.Len() {
			b := back.At(i)
			if list, ok := ParseDataAck(b); ok {
				var ids []uint32
				for len(list) > 0 {
					var id uint32
					id, list = FrameID(list)
					ids = append(ids, id+1000)
				}
				p.Receive(now, AppendDataAck(nil, ids), &out)
			} else if id, _, _, ok := ParseData(b); ok {
				b[1], b[2], b[3], b[4] = byte((id-1000)>>24), byte((id-1000)>>16), byte((id-1000)>>8), byte(id-1000)
				p.Receive(now, b, &out)
				q.Receive(now, AppendDataAck(nil, []uint32{id}), &back)
			}
		}
		back.Reset()
		p.EndBatch(now, &out)
		out.Reset()
	}
	require.Empty(t, h.packets)
}

// Q14: a message for a channel that does not exist is ignored, and the frame
// acknowledged all the same; what else is in it counts.
func TestQ14NoSuchChannel(t *testing.T) {
	var out wire.Batch
	p, h := connectedPeer(t, testConfig())
	b := AppendDataHeader(nil, 1000, 4)
	b = AppendMessage(b, &Message{Channel: 2, Data: []byte("nowhere")})
	b = AppendMessage(b, &Message{Type: MessageSentinel, Channel: 255, Packet: 2047})
	b = AppendMessage(b, &Message{Type: MessageWindowAck, Channel: 2, Packet: 8191})
	b = AppendMessage(b, &Message{Channel: 1, Data: []byte("somewhere")})
	p.Receive(0, b, &out)
	p.EndBatch(0, &out)
	require.Equal(t, []string{string(AppendDataAck(nil, []uint32{1000}))}, frames(&out))
	require.Equal(t, []received{{1, "somewhere"}}, h.packets)
	require.EqualValues(t, 3, p.Stats().OutOfReach)
}
