package core

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// workOf returns how many steps a datagram takes at most: two walks over the 256 pages
// of a window for each of its messages and each packet that is delivered, and a few
// for each entry that goes, which other datagrams have put there.
func workOf(messages, delivered, gone int) int { return 600*(messages+delivered+2) + 4*gone }

// steps gives a frame to a peer and returns how many steps that took to find
// entries, how many packets were delivered, and how many entries are gone.
func steps(p *Peer, frame []byte) (n, delivered, gone int) {
	count := func() (n int) {
		for _, c := range p.recv.channels {
			if c != nil {
				n += c.count
			}
		}
		return n
	}
	before, was := count(), int(p.stats.Delivered)
	p.recv.pool.steps = 0
	var out wire.Batch
	p.Receive(0, frame, &out)
	p.EndBatch(0, &out)
	return p.recv.pool.steps, int(p.stats.Delivered) - was, max(0, before-count())
}

// unfinished returns a peer that holds as many entries as its buffer does: a
// sentinel each, in a row, which wait for nothing.
func unfinished(t testing.TB) (*Peer, uint32) {
	cfg := testConfig()
	p, _ := connectedPeer(t, cfg)
	id := uint32(1000)
	const each = 200
	for packet := uint32(1); ; packet += each {
		b := AppendDataHeader(nil, id, each)
		for i := range uint32(each) {
			b = AppendMessage(b, &Message{Type: MessageSentinel, Packet: packet + i})
		}
		before := p.stats.Refused
		var out wire.Batch
		p.Receive(0, b, &out)
		p.EndBatch(0, &out)
		if p.stats.Refused > before {
			return p, id
		}
		id++
	}
}

// However much a peer has begun and not finished, a datagram costs a few steps for
// each message: refused ones, new ones before and behind what is there, those that
// let others be looked at again, and those at the base.
func TestWorkOfADatagram(t *testing.T) {
	for name, message := range map[string]func(i uint32) Message{
		"refused":       func(i uint32) Message { return Message{Packet: 65535 - i, Last: 1, Fragment: 1} },
		"at the base":   func(i uint32) Message { return Message{Packet: i} },
		"far ahead":     func(i uint32) Message { return Message{Type: MessageSentinel, Packet: 57344 + i} },
		"waits":         func(i uint32) Message { return Message{Packet: 65000 - i, Lead: uint16(65000 - i)} },
		"contradictory": func(i uint32) Message { return Message{Packet: 1 + i, Lead: 1} },
	} {
		p, id := unfinished(t)
		require.Greater(t, p.recv.channels[0].count, 20_000)
		for i := range uint32(300) {
			m := message(i)
			n, delivered, gone := steps(p, AppendMessage(AppendDataHeader(nil, id, 1), &m))
			require.LessOrEqual(t, n, workOf(1, delivered, gone), "%s, datagram %d", name, i)
			id = p.recv.window.next
		}
	}
}

// Entries that waited for a packet, and are not complete when it comes, are looked at
// by and by, and what is behind them is delivered.
func TestManyThatWaited(t *testing.T) {
	p, h := connectedPeer(t, testConfig())
	id := uint32(1000)
	give := func(m Message) int {
		n, _, _ := steps(p, AppendMessage(AppendDataHeader(nil, id, 1), &m))
		id++
		return n
	}
	const many = 1000
	for i := range uint32(many) {
		give(Message{Packet: 1 + i, Lead: uint16(1 + i), Last: 1, Fragment: 1})
	}
	give(Message{Packet: many + 1, Lead: many + 1, Data: []byte("last")})
	require.Empty(t, h.packets)
	require.LessOrEqual(t, give(Message{Data: []byte("first")}), 2*600+4*maxLooks)
	require.Len(t, h.packets, 1)
	at, _ := p.Next(0)
	require.LessOrEqual(t, at, Clock(0), "there is more to do")
	ticks := 0
	for ; len(h.packets) < 2; ticks++ {
		p.Tick(0, new(wire.Batch))
	}
	require.Equal(t, many/maxLooks, ticks)
	require.Equal(t, received{0, "last"}, h.packets[1])
	at, _ = p.Next(0)
	require.Greater(t, at, Clock(0))
}

// A peer that sends its packets in reverse, each of which waits for the one before,
// has us hold no more than others; the first one finds room when it comes.
func TestPacketsInReverse(t *testing.T) {
	cfg := testConfig()
	cfg.ReceiveBuffer = 256 << 10
	p, h := connectedPeer(t, cfg)
	id := uint32(1000)
	var last uint32
	for packet := uint32(5000); packet > 0; packet-- {
		m := Message{Packet: packet, Lead: 1, Data: make([]byte, 1400)}
		before := p.stats.Accepted
		steps(p, AppendMessage(AppendDataHeader(nil, id, 1), &m))
		if p.stats.Accepted > before {
			id++
			last = packet
		}
	}
	require.LessOrEqual(t, p.recv.held, cfg.ReceiveBuffer)
	require.Greater(t, last, uint32(4800))
	steps(p, AppendMessage(AppendDataHeader(nil, id, 1), &Message{Data: []byte("first")}))
	require.Len(t, h.packets, 1)
}

// What all others wait for finds room beyond a channel's share, though it is not the
// first of the window, since what waits for it takes none of that. With it, the
// messages behind it in its frame do.
func TestWhatIsWaitedForFindsRoom(t *testing.T) {
	cfg := testConfig()
	p, h := connectedPeer(t, cfg)
	h.unread = map[int]int{1: cfg.ReceiveBuffer}
	size := FragmentSize(cfg.MTU)
	give := func(list ...Message) bool {
		b := AppendDataHeader(nil, p.recv.window.next, len(list))
		for i := range list {
			b = AppendMessage(b, &list[i])
		}
		before := p.stats.Accepted
		steps(p, b)
		return p.stats.Accepted > before
	}
	packet := uint32(3)
	for give(Message{Packet: packet, Lead: 1, Data: make([]byte, size)}) {
		packet++
	}
	last := uint16(cfg.MaxPacket/size - 1)
	for n := range last {
		require.True(t, give(Message{Packet: 1, Fragment: n, Last: last, Data: make([]byte, size)}))
	}
	half := make([]byte, size/2-FragmentHeaderSize)
	require.False(t, give(Message{Packet: 2, Lead: 1, Data: half}), "it waits for another one")
	require.True(t, give(Message{Packet: 1, Fragment: last, Last: last, Data: half}))
	require.Len(t, h.packets, 1)
	require.True(t, give(Message{Packet: 2, Lead: 1, Data: half}, Message{Packet: packet, Lead: 1, Data: half}) ||
		give(Message{Packet: 2, Lead: 1, Data: half}))
}

// What is taken beyond a channel's share is as much as one packet takes, whatever
// comes of it, and is given back.
func TestBeyondTheShare(t *testing.T) {
	cfg := testConfig()
	p, h := connectedPeer(t, cfg)
	h.unread = map[int]int{1: cfg.ReceiveBuffer}
	one, share := MinReceiveBuffer(cfg), bufferShare(cfg.ReceiveBuffer, cfg.ReceiveBuffer, cfg.Channels)
	c := p.recv.channel(0)
	id := uint32(1000)
	for packet := range uint32(1000) {
		for n := range uint16(2) {
			m := Message{Packet: packet, Last: 2, Fragment: n, Data: make([]byte, FragmentSize(cfg.MTU))}
			before := p.stats.Accepted
			steps(p, AppendMessage(AppendDataHeader(nil, id, 1), &m))
			id += uint32(p.stats.Accepted - before)
		}
	}
	require.Greater(t, c.bytes, share)
	require.LessOrEqual(t, c.bytes, share+one)
	require.LessOrEqual(t, c.extra, one)
	require.Greater(t, c.extra, one/2)
	c.reset()
	require.Zero(t, c.extra)
}

// FuzzWork looks for datagrams that cost more work than their messages, whatever came
// before them. Four bytes make a message, which has its place by the first two.
func FuzzWork(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 2, 1, 0, 255, 255, 2, 0, 0, 0, 0, 9})
	f.Add([]byte{0, 9, 0, 0, 0, 8, 1, 0, 0, 7, 2, 0, 0, 6, 3, 0, 0, 0, 4, 0})
	f.Add([]byte{224, 0, 1, 0, 224, 1, 1, 0, 0, 3, 1, 1, 0, 0, 0, 0, 224, 2, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, id := unfinished(t)
		for len(b) >= 4 {
			messages := 1 + int(b[3]>>5)
			frame := AppendDataHeader(nil, id, messages)
			for range messages {
				if len(b) < 4 {
					b = []byte{0, 0, 0, 0}
				}
				m := Message{
					Type: MessageType(b[2] & 1), Channel: b[2] >> 1 & 1,
					Packet: (p.recv.channel(0).base + uint32(binary.BigEndian.Uint16(b))) & (packetIDs - 1),
					Lead:   uint16(b[3] & 7), Last: uint16(b[2] >> 2 & 1),
				}
				if b[2]&8 != 0 {
					m.Lead = binary.BigEndian.Uint16(b)
				}
				m.Fragment = m.Last
				frame, b = AppendMessage(frame, &m), b[4:]
			}
			n, delivered, gone := steps(p, frame)
			if most := workOf(messages, delivered, gone); n > most {
				t.Fatalf("%d messages, by which %d packets were delivered and %d entries went, took %d steps, want %d at most", messages, delivered, gone, n, most)
			}
			id = p.recv.window.next
		}
	})
}

// The time that a datagram costs beside 24,000 unfinished packets: what is refused,
// and what has all entries looked at again.
func BenchmarkWork(b *testing.B) {
	for name, message := range map[string]func(i uint32) Message{
		"refused":     func(i uint32) Message { return Message{Packet: 65000} },
		"at the base": func(i uint32) Message { return Message{Packet: i} },
	} {
		b.Run(name, func(b *testing.B) {
			p, id := unfinished(b)
			frame := make([]byte, 0, MTU0)
			var out wire.Batch
			b.ReportAllocs()
			for i := uint32(0); b.Loop(); i++ {
				if i%10_000 == 9999 {
					p, id = unfinished(b)
					i = 0
				}
				m := message(i)
				out.Reset()
				p.Receive(0, AppendMessage(AppendDataHeader(frame, id, 1), &m), &out)
				p.EndBatch(0, &out)
				id = p.recv.window.next
			}
		})
	}
}
