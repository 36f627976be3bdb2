package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

func TestQ1Q2ChannelsAreIndependent(t *testing.T) {
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

func TestQ3Fragments(t *testing.T) {
	cfg := testConfig()
	for _, size := range []int{0, 1, 1451, 1452, 1453, 2904, 2905, 65536} {
		s := newSim(1, cfg, cfg, simLink{})
		s.connect(t)
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7)
		}
		for _, mode := range []Mode{Reliable, Unreliable, Passive} {
			_, ok := s.a.p.Send(s.now, 0, data, mode, 0)
			require.True(t, ok)
		}
		s.a.transmit()
		s.until(t, time.Second, func() bool { return len(s.b.packets) == 3 })
		for _, r := range s.b.packets {
			require.Equal(t, string(data), r.data)
		}
	}
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
			m := p.message()
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
	var s sender
	s.init(0, 100, 64, 8)
	s.queueMark(7)
	s.queueMark(15)
	p := s.take()
	require.Equal(t, part{kind: MessageWindowAck, reliable: true, id: 15, ch: &s}, p)
	require.False(t, s.ready())
	require.False(t, p.done(0))
	s.queueMark(23)
	require.True(t, p.done(0), "an older one is not sent again")
}

// All unreliable messages are lost, with the constants of the original library
// and with those of volley's peers on either side.
func TestQ10Q12TotalLossOfUnreliable(t *testing.T) {
	cfg := testConfig()
	cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = 64, 2, 8
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 1 << 20}
	q, h := connectedPeer(t, cfg)
	var out, back wire.Batch
	sent := 0
	for now := ms(0); sent < 1000; now += ms(1) {
		require.Less(t, now, ms(60_000), "stalled after %d", sent)
		if _, ok := p.Send(now, 0, []byte("x"), Unreliable, 0); ok {
			sent++
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
