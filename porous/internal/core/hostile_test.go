package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// bounded fails if p holds more than its Config allows.
func bounded(t *testing.T, p *Peer, unread int) {
	t.Helper()
	held := 0
	for _, c := range p.recv.channels {
		if c != nil {
			held += c.bytes
		}
	}
	require.Equal(t, held, p.recv.held, "the account of what is held")
	limit := p.cfg.ReceiveBuffer + p.cfg.Channels*MinReceiveBuffer(p.cfg) // as Config says
	require.LessOrEqual(t, held+unread, limit)
}

// Fragments of packets that are never finished, all over the window and over
// all channels.
func TestHostileFragmentFlood(t *testing.T) {
	cfg := testConfig()
	cfg.Channels, cfg.ReceiveBuffer, cfg.MaxPacket = 256, 1<<20, 16<<10
	reserved := 0
	cfg.Reserve = func(n, _ int) bool { reserved += n; return true }
	p, h := connectedPeer(t, cfg)
	rng := rand.New(rand.NewPCG(1, 1))
	var out wire.Batch
	id := uint32(1000)
	full := make([]byte, FragmentSize(cfg.MTU))
	for i := range 30_000 {
		m := Message{Channel: uint8(rng.Uint32()), Packet: rng.Uint32N(70_000), Lead: uint16(rng.Uint32N(3)), Last: 1 + uint16(rng.Uint32N(10))}
		if m.Data = full; i%2 == 0 {
			m.Fragment, m.Data = m.Last, full[:rng.IntN(40)]
		}
		if i%16 == 0 {
			m.Type = MessageSentinel
		}
		b := AppendMessage(AppendDataHeader(nil, id, 1), &m)
		before := p.Stats().Accepted
		p.Receive(ms(i/10), b, &out)
		if p.Stats().Accepted > before {
			id++
		}
		if i%7 == 0 {
			p.EndBatch(ms(i/10), &out)
			out.Reset()
		}
		if i%1000 == 0 {
			bounded(t, p, 0)
			require.GreaterOrEqual(t, reserved, p.recv.held)
		}
	}
	require.Greater(t, p.Stats().Refused, uint64(1000))
	require.Empty(t, h.packets)

	// What is needed still finds a way: the packet at the base of a channel
	// that is full.
	found := 0
	for n, c := range p.recv.channels {
		if c == nil || c.count == 0 || c.get(c.base) != nil {
			continue
		}
		h.packets = nil
		m := Message{Channel: uint8(n), Packet: c.base, Data: []byte("needed")}
		p.Receive(ms(4000), AppendMessage(AppendDataHeader(nil, id, 1), &m), &out)
		require.Equal(t, []received{{n, "needed"}}, h.packets)
		id++
		found++
	}
	require.NotZero(t, found)

	p.Abort(ms(5000), &out, false)
	require.Zero(t, reserved, "everything is given back")
}

// Where the host has no memory left, frames are refused and nothing else
// happens.
func TestHostileNoMemory(t *testing.T) {
	cfg := testConfig()
	allowed := 0
	cfg.Reserve = func(n, _ int) bool {
		if n > 0 && n > allowed {
			return false
		}
		allowed -= n
		return true
	}
	p, _ := connectedPeer(t, cfg)
	var out wire.Batch
	m := Message{Packet: 1, Lead: 1, Data: make([]byte, 1000)}
	b := AppendMessage(AppendDataHeader(nil, 1000, 1), &m)
	p.Receive(0, b, &out)
	p.EndBatch(0, &out)
	require.Zero(t, out.Len(), "refused, so not acknowledged (R11)")
	require.Zero(t, p.recv.held)
	allowed = 1 << 20
	p.Receive(0, b, &out)
	p.EndBatch(0, &out)
	require.Equal(t, 1, out.Len())
}

// A peer that answers everything with nonsense: nothing breaks or grows. Only
// pings are answered where requests to end are verified, since those count
// otherwise.
func TestHostileGarbage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, verify := range []bool{false, true} {
		cfg := testConfig()
		cfg.VerifyDisconnect = verify
		cfg.ReceiveBuffer, cfg.SendBuffer = 256<<10, 64<<10
		p, _ := connectedPeer(t, cfg)
		var out wire.Batch
		for i := range 100_000 {
			now := ms(i / 10)
			b := make([]byte, rng.IntN(60))
			for j := range b {
				b[j] = byte(rng.Uint32())
			}
			if len(b) > 7 && i%2 == 0 {
				copy(b, []byte{byte(TypeData) + byte(i/2%2), 0, 0, 3, byte(rng.Uint32()), 0, 1})
			}
			if len(b) > 0 && FrameType(b[0]) == TypeDisconnect && !verify {
				b[0] = byte(TypePing)
			}
			p.Receive(now, b, &out)
			p.Send(now, rng.IntN(2), b, Mode(rng.IntN(3)), 0)
			if i%5 == 0 {
				p.EndBatch(now, &out)
				p.Tick(now, &out)
				p.Transmit(now, &out, 4)
			}
			require.LessOrEqual(t, p.send.queued, cfg.SendBuffer)
			for j := 0; verify && j < out.Len(); j++ {
				if id, ok := ParsePing(out.At(j), TypePing); ok {
					p.Receive(now, AppendPing(nil, TypePingAck, id), new(wire.Batch))
				}
			}
			out.Reset()
		}
		bounded(t, p, 0)
		require.Equal(t, Connected, p.State())
	}
}

// Acknowledgements of what was never sent do not open any window.
func TestHostileWindowAcks(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	var out wire.Batch
	for id := range uint32(2000) {
		b := AppendDataHeader(nil, 1000+id, 3)
		for _, packet := range []uint32{0, id * 8000, packetIDs - 1 - id} {
			b = AppendMessage(b, &Message{Type: MessageWindowAck, Channel: uint8(id), Packet: packet & (packetIDs - 1)})
		}
		p.Receive(0, b, &out)
	}
	for _, ch := range p.send.channels {
		if ch != nil {
			require.Zero(t, ch.base)
		}
	}
}

// Sending goes on when acknowledgements are taken for frames that have not
// arrived: only the reliable packets of these are missing.
func TestHostileOptimisticAcks(t *testing.T) {
	cfg := testConfig()
	p, _ := connectedPeer(t, cfg)
	var out wire.Batch
	sent := 0
	for i := range 20_000 {
		now := time.Duration(i) * 100 * time.Microsecond
		for {
			if _, ok := p.Send(now, 0, make([]byte, 1000), Reliable, 0); !ok {
				break
			}
			sent++
		}
		p.Transmit(now, &out, 64)
		var ids []uint32
		for j := range out.Len() {
			if id, _, _, ok := ParseData(out.At(j)); ok {
				ids = append(ids, id)
			}
		}
		out.Reset()
		p.Receive(now, AppendDataAck(nil, ids[:min(len(ids), 367)]), &out)
		p.Tick(now, &out)
		out.Reset()
		require.LessOrEqual(t, int64(p.Stats().InFlight), int64(2*unlimited))
		require.LessOrEqual(t, len(p.send.queue.ring), int(cfg.SendFrames))
	}
	// The channel's window is the limit that no frame's acknowledgement moves.
	require.LessOrEqual(t, sent, int(cfg.Packets)+cfg.SendBuffer/1000)
	require.Equal(t, LimitPackets, p.Stats().Limit)
}

// R11: a channel that nobody reads holds no more than its share, the other one
// goes on at full speed, and everything arrives once it is read.
func TestR11UnreadChannel(t *testing.T) {
	for _, mode := range []Mode{Reliable, Unreliable, Passive} {
		cfg := simConfig()
		cfg.ReceiveBuffer = 1 << 20
		s := newSim(9, cfg, cfg, simLink{delay: 10 * time.Millisecond, loss: 0.01})
		s.connect(t)
		s.b.unread = map[int]int{1: 0}
		var fill func()
		fill = func() {
			for range 5 {
				s.a.p.Send(s.now, 0, make([]byte, 500), Reliable, 0)
			}
			if s.a.p.ChannelStats(1).Queued < cfg.SendBuffer/2 {
				s.a.p.Send(s.now, 1, make([]byte, 3000), mode, 0)
			}
			s.a.transmit()
			s.at(s.now+5*time.Millisecond, fill)
		}
		fill()
		s.run(60 * time.Second)
		bounded(t, &s.b.p, s.b.unread[1])
		require.Less(t, s.b.unread[1], cfg.ReceiveBuffer)
		require.Greater(t, s.b.p.Stats().Refused, uint64(10))
		require.True(t, s.a.p.ChannelStats(1).Unread, "mode %d", mode)

		arrived := func() (n int) {
			for _, r := range s.b.packets {
				if r.channel == 0 {
					n++
				}
			}
			return n
		}
		before := arrived()
		s.run(10 * time.Second)
		require.Greater(t, arrived()-before, 9000, "mode %d: of 10,000 packets of the other channel", mode)

		s.b.unread = nil
		n := len(s.b.packets) - arrived()
		s.run(5 * time.Second)
		require.Greater(t, len(s.b.packets)-arrived(), n+100, "mode %d: it goes on when it is read", mode)
		require.False(t, s.a.p.ChannelStats(1).Unread)
	}
}

// A channel that is not trusted shares no frame, and a choked one is tried at
// growing intervals, up to a second.
func TestR11Trust(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	p.send.control = &fixedController{window: 1 << 20}
	var out wire.Batch
	for i := range 4 {
		p.Send(0, i%2, numbered(i, 100), Reliable, 0)
	}
	p.send.channel(1).trust.level = alone
	p.Transmit(0, &out, 10)
	require.Equal(t, "0|1|2|3|", contents(t, &out))

	trust := &p.send.channel(1).trust
	trust.level, trust.wait, trust.probeAt = choked, ms(100), 0
	for range 10 {
		p.Send(0, 1, make([]byte, 1400), Reliable, 0)
	}
	var at []Clock
	for now := ms(0); len(at) < 7; now += ms(10) {
		p.Transmit(now, &out, 10)
		require.LessOrEqual(t, out.Len(), 1)
		if out.Len() > 0 {
			at = append(at, now)
			next, _ := p.Next(now)
			require.LessOrEqual(t, next, now+trust.wait)
		}
		out.Reset()
	}
	require.Equal(t, []Clock{0, ms(100), ms(300), ms(700), ms(1500), ms(2500), ms(3500)}, at)
	require.Equal(t, LimitUnread, p.Stats().Limit)
	p.Receive(ms(3510), AppendDataAck(nil, []uint32{2000, 2001, 2002, 2003, 2004, 2005, 2006, 2007, 2008, 2009}), &out)
	require.Equal(t, trusted, trust.level)
}

// The receiver has room for a message that all others wait for, and not for those that would
// share its frame, because others again are between. The second frame has the end of a message
// and a whole one, or two whole ones; then come some that arrive, and many that do not.
func TestR11MissingFrame(t *testing.T) {
	for _, first := range []int{500, FragmentSize(MTU0) + 500} {
		cfg := simConfig()
		cfg.ReceiveBuffer, cfg.MaxPacket = 256<<10, 16<<10
		s := newSim(1, cfg, cfg, simLink{delay: 10 * time.Millisecond})
		s.connect(t)
		s.a.p.send.control = &fixedController{window: 1 << 20}
		frames, lost := 0, 1+first/FragmentSize(MTU0)
		s.a.link.dark = func(Clock) bool { frames++; return frames == lost }
		sent := 0
		for size := first; ; size = 100 {
			if _, ok := s.a.p.Send(s.now, 0, numbered(sent, size), Reliable, 0); !ok {
				break
			}
			sent++
		}
		require.Greater(t, sent, 1000)
		s.a.transmit()
		s.run(time.Second)
		require.Greater(t, s.b.p.Stats().Refused, uint64(10))
		s.until(t, 10*time.Second, func() bool { return len(s.b.packets) == sent })
		for i, r := range s.b.packets[1:] {
			require.Equal(t, string(numbered(i+1, 100)), r.data)
		}
	}
}

// What shares a frame of a choked channel: whole packets that follow each other.
func TestR11FrameOfChoked(t *testing.T) {
	large := FragmentSize(MTU0) + 50
	for _, test := range []struct {
		sizes []int
		there int // a packet that has arrived; -1: none
		fresh int // how many at the end have not been sent before
		want  string
	}{
		{[]int{100, 100, 100}, -1, 0, "012|"},
		{[]int{100, 100, 100, 100}, 1, 0, "0|23|"},
		{[]int{100, 100, 100, 100}, 1, 2, "0|23|"},
		{[]int{100, 100, 100, 100}, 2, 1, "01|3|"},
		{[]int{large, 100, 100}, -1, 2, "0|0|12|"},
		{[]int{100, large, 100}, -1, 0, "0|1|1|2|"},
	} {
		p, _ := connectedPeer(t, testConfig())
		p.send.control = &fixedController{window: 1 << 20}
		ch := p.send.channel(0)
		for i, size := range test.sizes {
			p.Send(0, 0, make([]byte, size), Reliable, 0)
			for i < len(test.sizes)-test.fresh && ch.head != nil {
				if part := ch.takeFragment(); i != test.there {
					ch.restore(part)
				}
			}
		}
		ch.trust.level = choked
		got := ""
		for now := ms(0); now < 10*time.Second; now += time.Second {
			var out wire.Batch
			p.Transmit(now, &out, 10)
			for i := range out.Len() {
				_, n, body, _ := ParseData(out.At(i))
				for range n {
					var m Message
					m, body, _ = NextMessage(body)
					got += fmt.Sprint(m.Packet)
				}
				got += "|"
			}
		}
		require.Equal(t, test.want, got)
	}
}

// The same with one channel alone: it waits, and goes on.
func TestR11UnreadAlone(t *testing.T) {
	cfg := simConfig()
	cfg.Channels, cfg.ReceiveBuffer = 1, 256<<10
	s := newSim(9, cfg, cfg, simLink{delay: 10 * time.Millisecond})
	s.connect(t)
	s.b.unread = map[int]int{0: 0}
	count := 0
	f := &feed{n: s.a, size: 1000, total: 3000}
	f.keepFull()
	s.run(30 * time.Second)
	require.Less(t, len(s.b.packets), 400)
	require.Equal(t, Connected, s.a.p.State())
	bounded(t, &s.b.p, s.b.unread[0])
	s.b.unread = nil
	s.until(t, 20*time.Second, func() bool { count = len(s.b.packets); return count == f.total })
	for i, r := range s.b.packets {
		require.Equal(t, string(numbered(i, 1000)), r.data)
	}
}

func TestR12Cookie(t *testing.T) {
	c := NewCookie([]byte("a secret of some length"))
	d := NewCookie([]byte("another secret"))
	from, other := Address{1, 2, 3}, Address{1, 2, 4}
	now := 100 * time.Second
	id := c.ID(now, from)
	require.True(t, c.Check(now, from, id))
	require.True(t, c.Check(now+19*time.Second, from, id))
	require.False(t, c.Check(now+20*time.Second, from, id))
	require.False(t, c.Check(now, other, id))
	require.False(t, d.Check(now, from, id))
	for i := range from {
		other = from
		other[i] ^= 1
		require.False(t, c.Check(now, other, id), "byte %d of the address", i)
	}
	require.False(t, c.Check(now, from, id+1))
	next := c.ID(now+10*time.Second, from)
	require.Equal(t, next, c.Other(now+10*time.Second, from, id))
	require.Equal(t, id, c.Other(now+10*time.Second, from, next))
	first := c.ID(0, from)
	require.Equal(t, first, c.Other(0, from, first), "there was none before")
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Check(now, from, id) }))
}

// R12: the handshake with a side that keeps nothing before the address is
// proved, for the original library (which repeats its request after 500 ms)
// and for volley's own dialing side.
func TestR12Handshake(t *testing.T) {
	for _, eager := range []bool{false, true} {
		cfg := testConfig()
		cfg.EagerRequest = eager
		cookie := NewCookie([]byte("secret"))
		from := Address{10}
		p, _ := newPeer(cfg)
		var q *Peer
		var out, back wire.Batch
		now := ms(0)
		deliver := func() {
			for i := range out.Len() {
				b := out.At(i)
				if q != nil {
					q.Receive(now, b, &back)
				} else if _, ok := ParseConnect(b); ok {
					AppendConnect(back.Extend(ConnectSize)[:0], Connect{0, 2, 1, cookie.ID(now, from)})
					require.Equal(t, len(b), ConnectSize, "amplification 1.0")
				} else if id, ok := ParseConnectAck(b); ok && cookie.Check(now, from, id) {
					q = new(Peer)
					q.InitAccepted(now, cfg, id, &recorder{})
				}
			}
			out.Reset()
		}
		for p.State() != Connected || q.State() != Connected {
			require.Less(t, now, ms(1500))
			p.Tick(now, &out)
			deliver()
			now += ms(20)
			for i := range back.Len() {
				p.Receive(now, back.At(i), &out)
			}
			back.Reset()
			deliver()
		}
		if eager {
			require.LessOrEqual(t, now, ms(100))
		} else {
			require.LessOrEqual(t, now, ms(600))
		}
	}
}

// What a channel that nobody reads keeps to be sent again does not grow with
// the number of tries.
func TestR11UnreadForLong(t *testing.T) {
	cfg := simConfig()
	cfg.ReceiveBuffer, cfg.SendBuffer = 256<<10, 8<<20
	s := newSim(1, cfg, cfg, simLink{delay: 20 * time.Millisecond})
	s.connect(t)
	s.b.unread = map[int]int{1: 0}
	const total = 20_000
	for i := range total {
		_, ok := s.a.p.Send(s.now, 1, numbered(i, 20), Reliable, 0)
		require.True(t, ok)
	}
	s.a.transmit()
	s.run(time.Minute)
	ch := s.a.p.send.channels[1]
	require.Equal(t, choked, ch.trust.level)
	most := 2 * cap(ch.back)
	s.run(10 * time.Minute)
	require.LessOrEqual(t, cap(ch.back), most)

	s.b.unread = nil
	s.until(t, time.Minute, func() bool { return len(s.b.packets) == total })
	for i, r := range s.b.packets {
		require.Equal(t, string(numbered(i, 20)), r.data)
	}
}
