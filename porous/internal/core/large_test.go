package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// A packet that is larger than the receiver takes is skipped when its turn comes, of
// whichever mode it is, and counted once; what is behind it goes on, and nothing is
// kept of it.
func TestLargePacketsAreSkipped(t *testing.T) {
	small, big := testConfig(), testConfig()
	small.MaxPacket, small.ReceiveBuffer = 5000, 100_000
	big.MaxPacket = 100_000
	for _, loss := range []float64{0, 0.2} {
		for _, mode := range []Mode{Reliable, Unreliable, Passive} {
			for _, size := range []int{5001, 5808, 5809, 60_000} {
				s := newSim(1, big, small, simLink{delay: ms(10), loss: loss})
				s.connect(t)
				for i := range 20 {
					s.a.p.Send(s.now, 0, numbered(i, 5000), Reliable, 0)
					s.a.p.Send(s.now, 0, make([]byte, size), mode, 0)
				}
				s.a.transmit()
				s.run(60e9)
				require.Len(t, s.b.packets, 20)
				for i, r := range s.b.packets {
					require.Equal(t, string(numbered(i, 5000)), r.data)
				}
				st := s.b.p.Stats()
				if mode == Reliable || loss == 0 { // else some parts never come
					require.EqualValues(t, 20, st.TooLarge, "mode %v, %d bytes", mode, size)
					require.Zero(t, st.Held)
				}
				require.Zero(t, st.Malformed)
				require.True(t, s.a.p.Flushed())
			}
		}
	}
	for _, size := range []int{1000, 1001, 1452} { // of one fragment
		one := testConfig()
		one.MaxPacket = 1000
		s := newSim(1, big, one, simLink{delay: ms(10)})
		s.connect(t)
		for i := range 3 {
			s.a.p.Send(s.now, 0, make([]byte, size), Reliable, 0)
			s.a.p.Send(s.now, 0, numbered(i, 100), Reliable, 0)
		}
		s.a.transmit()
		s.run(1e9)
		require.Equal(t, size <= 1000, len(s.b.packets) == 6)
		require.Equal(t, size > 1000, s.b.p.Stats().TooLarge == 3 && len(s.b.packets) == 3)
	}
}

// What is remembered of large packets whose turn does not come counts as held, and
// has the limit of everything else.
func TestHostileLargePackets(t *testing.T) {
	cfg := testConfig()
	cfg.MaxPacket, cfg.ReceiveBuffer = 5000, 100_000
	p, _ := connectedPeer(t, cfg)
	var out wire.Batch
	for i := range uint32(60_000) {
		m := Message{Type: MessageFragment, Packet: i + 1, Lead: uint16(i + 1), Last: 9, Data: make([]byte, FragmentSize(cfg.MTU))}
		p.Receive(ms(int(i)), AppendMessage(AppendDataHeader(nil, 1000+i, 1), &m), &out)
		p.EndBatch(ms(int(i)), &out)
		out.Reset()
		require.LessOrEqual(t, p.Stats().Held, cfg.ReceiveBuffer)
	}
	st := p.Stats()
	require.Greater(t, st.TooLarge, uint64(500))
	require.Greater(t, st.Held, int(st.TooLarge)*entryCost)
	require.NotZero(t, st.Refused)
}

// A large packet contradicts what is there of it as any other.
func TestLargeContradictions(t *testing.T) {
	cfg := testConfig()
	cfg.MaxPacket = 5000
	p, h := connectedPeer(t, cfg)
	full := make([]byte, FragmentSize(cfg.MTU))
	var out wire.Batch
	id := uint32(1000)
	receive := func(m Message) Stats {
		p.Receive(0, AppendMessage(AppendDataHeader(nil, id, 1), &m), &out)
		id++
		return p.Stats()
	}
	receive(Message{Packet: 5, Lead: 5, Fragment: 1, Last: 3, Data: full})
	require.EqualValues(t, 1, receive(Message{Packet: 5, Lead: 4, Fragment: 3, Last: 3, Data: full}).Malformed, "another dependency")
	require.EqualValues(t, 2, receive(Message{Packet: 5, Lead: 5, Fragment: 4, Last: 4, Data: full}).Malformed, "another number of fragments")
	held := p.Stats().Held
	st := receive(Message{Packet: 5, Lead: 5, Fragment: 3, Last: 3, Data: full})
	require.EqualValues(t, 1, st.TooLarge)
	require.Equal(t, held-bufferCost(len(full)), st.Held, "what was there is given back")
	require.EqualValues(t, 1, receive(Message{Packet: 5, Lead: 5, Fragment: 0, Last: 3, Data: full}).Duplicates)
	require.EqualValues(t, 2, receive(Message{Packet: 5, Lead: 5, Fragment: 3, Last: 3, Data: full}).Duplicates)
	require.EqualValues(t, 1, receive(Message{Packet: 1 << 20, Lead: 5, Fragment: 3, Last: 3, Data: full}).OutOfReach)
	require.EqualValues(t, 1, p.Stats().TooLarge)
	require.Empty(t, h.packets)
}
