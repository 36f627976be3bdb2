package core

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// What a message would cost is what it costs.
func TestCostIsExact(t *testing.T) {
	var a pool
	var r receiver
	r.init(&a, FragmentSize(MTU0), 64<<10, 65536, 8192, 0)
	for i, m := range []Message{
		{Packet: 5, Data: make([]byte, 100)},                              // with a ring of pages and a page
		{Packet: 6, Data: make([]byte, 300)},                              // with an entry
		{Packet: 1000, Last: 1, Data: make([]byte, FragmentSize(MTU0))},   // with a page
		{Packet: 1000, Last: 1, Fragment: 1, Data: make([]byte, 1)},       // a buffer alone
		{Packet: 7, Type: MessageSentinel, Lead: 3},                       // an entry alone
		{Packet: 2000, Type: MessageSentinel, Lead: 3},                    // and a page
		{Packet: 2001, Last: 3, Fragment: 3, Data: make([]byte, 50)},      // not the first fragment
		{Packet: 65535, Last: 0, Fragment: 0, Data: make([]byte, MTU0/2)}, // the last of the window
	} {
		before := r.bytes
		cost := r.cost(&m, uint64(i+1))
		if m.Type == MessageSentinel {
			require.Equal(t, taken, r.sentinel(&m))
		} else {
			require.Equal(t, taken, r.fragment(&m))
		}
		require.Equal(t, cost, r.bytes-before, "message %d", i)
	}
}

// Memory is asked for and given back in steps of 4 KiB, so that there are few
// calls: back when four of them are free, and all when nothing is held.
func TestReserveSteps(t *testing.T) {
	cfg := testConfig()
	var asked []int
	cfg.Reserve = func(n, _ int) bool { asked = append(asked, n); return true }
	p, _ := connectedPeer(t, cfg)
	r := &p.recv
	want := func(reserved int, calls ...int) {
		t.Helper()
		require.Equal(t, calls, asked)
		require.Equal(t, reserved, r.reserved)
		asked = nil
	}
	r.held = 100
	require.True(t, r.reserve(3996, lacksPackets))
	want(4096, 4096)
	require.True(t, r.reserve(3996, lacksPackets))
	want(4096)
	require.True(t, r.reserve(3997, lacksPackets))
	want(8192, 4096)
	require.True(t, r.reserve(20480-100, lacksPackets))
	want(20480, 12288)
	r.held = 4097
	r.settle()
	want(20480)
	r.held = 4096
	r.settle()
	want(4096, -16384)
	r.held = 1
	r.settle()
	want(4096)
	r.held = 0
	r.settle()
	want(0, -4096)
	r.settle()
	want(0)

	require.True(t, r.reserve(20480, lacksPackets))
	want(20480, 20480)
	r.held = 100
	r.settle()
	want(4096, -16384)
}

// Reserve is told less for packets that others wait for, and more than any share for those
// that wait for others.
func TestReserveIsToldWhatCounts(t *testing.T) {
	const unread = 5000
	cfg := testConfig()
	told := 0
	cfg.Reserve = func(n, own int) bool {
		told = own
		if own > math.MaxInt/2 {
			require.Equal(t, math.MaxInt, own+n)
		}
		return n < 0
	}
	for name, test := range map[string]struct {
		messages []Message
		want     func(r *receiving) int
	}{
		"the first, unfinished":   {[]Message{{Fragment: 1, Last: 9}}, func(r *receiving) int { return unread + r.channels[0].get(0).bytes }},
		"the first, another time": {[]Message{{Packet: 1}}, func(r *receiving) int { return unread + r.reserved }},
		"two in order":            {[]Message{{Channel: 1}, {Channel: 1, Packet: 1, Lead: 1}}, func(r *receiving) int { return unread + r.channels[0].get(0).bytes }},
		"one waits":               {[]Message{{Channel: 1}, {Channel: 1, Packet: 2, Lead: 1}}, nil},
		"a marker waits":          {[]Message{{Type: MessageSentinel, Packet: 2, Lead: 1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, h := connectedPeer(t, cfg)
			r := &p.recv
			begin := Message{Last: 9, Data: make([]byte, FragmentSize(cfg.MTU))}
			require.Equal(t, taken, r.message(&begin))
			for i := range uint32(20) {
				m := Message{Packet: 5 + i, Lead: 1, Data: make([]byte, 500)}
				require.Equal(t, taken, r.message(&m))
			}
			r.reserved = r.held
			h.unread = map[int]int{0: unread}
			b := AppendDataHeader(nil, 1000, len(test.messages))
			for i := range test.messages {
				m := &test.messages[i]
				if m.Type == MessageFragment {
					m.Data = make([]byte, 500)
				}
				if m.Fragment < m.Last {
					m.Data = make([]byte, FragmentSize(cfg.MTU))
				}
				b = AppendMessage(b, m)
			}
			told = -1
			p.Receive(0, b, new(wire.Batch))
			if test.want == nil {
				require.Greater(t, told, math.MaxInt/2)
				return
			}
			require.Equal(t, test.want(r), told)
		})
	}
}

// A frame that needs no memory is taken though there is none.
func TestFrameWithoutCostIsTaken(t *testing.T) {
	cfg := testConfig()
	cfg.Reserve = func(int, int) bool { return false }
	p, h := connectedPeer(t, cfg)
	h.unread = map[int]int{0: 5000}
	sendFrames(t, p, 0, 1, Reliable)
	b := AppendMessage(AppendDataHeader(nil, 1000, 1), &Message{Type: MessageWindowAck})
	p.Receive(0, b, new(wire.Batch))
	require.EqualValues(t, 1, p.send.channels[0].base)
	require.EqualValues(t, 1, p.stats.Accepted)
}

// A strictHandler knows the channels there are.
type strictHandler struct {
	recorder
	t *testing.T
	n int
}

func (h *strictHandler) Unread(channel int) (one, all int) {
	require.Less(h.t, channel, h.n, "a channel")
	return h.recorder.Unread(channel)
}

// A Handler is asked about channels that there are, with one channel, too.
func TestUnreadOfChannelsThereAre(t *testing.T) {
	cfg := testConfig()
	cfg.Channels = 1
	cfg.Reserve = func(int, int) bool { return true }
	h := &strictHandler{t: t, n: 1}
	p := new(Peer)
	p.Init(0, cfg, 1000, h)
	var out wire.Batch
	p.Receive(0, AppendConnect(nil, Connect{cfg.Version, cfg.Channels, cfg.SendBandwidth, 2000}), &out)
	p.Receive(0, AppendConnectAck(nil, 1000), &out)
	for id := range uint32(3) {
		p.Receive(0, AppendMessage(AppendDataHeader(nil, 1000+id, 1), &Message{Packet: id, Data: []byte{1}}), &out)
	}
	p.EndBatch(0, &out)
	require.Len(t, h.packets, 3)
}

// Where others have used up the budget, and a channel its share, it may hold the
// one packet that everything waits for, however large.
func TestNeededPacketFits(t *testing.T) {
	cfg := testConfig()
	p, h := connectedPeer(t, cfg)
	h.unread = map[int]int{0: bufferShare(cfg.ReceiveBuffer, cfg.ReceiveBuffer, cfg.Channels), 1: cfg.ReceiveBuffer}
	size := FragmentSize(cfg.MTU)
	last := cfg.MaxPacket/size - 1
	for i := range last + 1 {
		m := Message{Packet: 0, Fragment: uint16(last - i), Last: uint16(last), Data: make([]byte, size)}
		p.Receive(0, AppendMessage(AppendDataHeader(nil, 1000+uint32(i), 1), &m), new(wire.Batch))
		require.EqualValues(t, i+1, p.stats.Accepted, "fragment %d of %d", m.Fragment, last)
	}
	p.EndBatch(0, new(wire.Batch))
	require.Len(t, h.packets, 1)
}

// What is kept for use again has a limit here, too.
func TestKeptEntries(t *testing.T) {
	var a pool
	for range 3 * keepEntries {
		a.putEntry(new(incoming))
	}
	require.Len(t, a.entries, 256)
}

// The windows of packets and frames are those of docs/porous.md, which both sides
// go by; groups divide them, for else a sender would wait at the end of a turn for
// an acknowledgement that comes later.
func TestDefaultWindows(t *testing.T) {
	for version := range uint8(2) {
		cfg := DefaultConfig(version)
		require.EqualValues(t, 65536, cfg.Packets)
		require.EqualValues(t, 2048, cfg.SendGroup)
		require.EqualValues(t, 8192, cfg.ReceiveGroup)
		require.EqualValues(t, 32768, cfg.SendFrames)
		require.EqualValues(t, 65536, cfg.ReceiveFrames)
		require.EqualValues(t, 16384, cfg.SentinelFrames)
		require.Zero(t, cfg.Packets%cfg.ReceiveGroup)
		require.Zero(t, cfg.Packets%cfg.SendGroup)
	}
}

// Unreliable packets that have lost fragments do not keep the room of a channel for
// good, whether it is alone or shares the buffer with many that nobody reads: what
// comes after them arrives.
func TestUnfinishedPacketsGiveWay(t *testing.T) {
	for _, channels := range []int{1, 32} {
		cfg := simConfig()
		cfg.Channels, cfg.SendBuffer = channels, 64<<20
		s := newSim(1, cfg, cfg, simLink{delay: 10 * time.Millisecond, loss: 0.3})
		s.connect(t)
		s.b.unread = map[int]int{}
		for channel := 1; channel < channels; channel++ {
			s.b.unread[channel] = cfg.ReceiveBuffer / (channels - 1)
		}
		for i := range 300 {
			mode := Unreliable
			if i%150 == 149 {
				mode = Reliable
			}
			_, ok := s.a.p.Send(s.now, 0, numbered(i, 60_000), mode, 0)
			require.True(t, ok)
		}
		s.a.transmit()
		s.until(t, time.Hour, func() bool { return len(s.b.packets) == 2 })
		for i, r := range s.b.packets {
			require.Equal(t, string(numbered(150*i+149, 60_000)), r.data)
		}
		s.run(time.Minute)
		require.Zero(t, s.a.p.Stats().Packets)
		require.Zero(t, s.b.p.recv.held)
	}
}

// Packets are given up only when a channel of which everything was read has refused
// all for some seconds, and only in favor of one that does not wait for them.
func TestWhenUnfinishedPacketsGiveWay(t *testing.T) {
	for _, test := range []struct {
		name        string
		unread      int
		lead        uint16
		take        bool // something of the first packet, half way
		dirty, skip bool
	}{
		{name: "refused for long", skip: true},
		{name: "unread", unread: 1},
		{name: "depends on one", lead: 1},
		{name: "something was taken", take: true},
		{name: "one is to be delivered", dirty: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.ReceiveBuffer = MinReceiveBuffer(cfg)
			p, h := connectedPeer(t, cfg)
			id := uint32(1000)
			data := func(now Clock, m Message) (accepted bool) {
				before := p.stats.Accepted
				p.Receive(now, AppendMessage(AppendDataHeader(nil, id, 1), &m), new(wire.Batch))
				if accepted = p.stats.Accepted > before; accepted {
					id++
				}
				return accepted
			}
			fragment := func(packet uint32, n int) Message {
				return Message{Packet: packet, Fragment: uint16(n), Last: 40, Data: make([]byte, FragmentSize(cfg.MTU))}
			}
			require.True(t, data(0, fragment(0, 1)))
			require.True(t, data(0, fragment(1, 1)))
			h.unread = map[int]int{0: test.unread, 1: cfg.ReceiveBuffer}
			for n := 2; n <= 40 && data(0, fragment(1, n)); n++ {
			}
			for n := 0; data(0, fragment(3, n)); n++ {
				require.Less(t, n, 40)
			}
			last := fragment(2, 0)
			last.Lead = test.lead
			require.False(t, data(0, last), "there is no room")
			require.False(t, data(skipAfter/2, last))
			if test.take {
				require.True(t, data(skipAfter/2, fragment(0, 2)))
			}
			require.False(t, data(skipAfter-1, last))
			require.Zero(t, p.recv.channels[0].base)
			p.recv.channels[0].dirty = test.dirty
			require.Equal(t, test.skip, data(skipAfter, last))
			require.Equal(t, test.skip, p.recv.channels[0].base == 2)
			held := 0
			for _, c := range p.recv.channels {
				if c != nil {
					held += c.bytes
				}
			}
			require.Equal(t, held, p.recv.held)
		})
	}
}

// A frame of the smallest packets is what a channel may have beyond its share, when
// they lie on two pages, too.
func TestFrameOnTwoPagesFits(t *testing.T) {
	cfg := testConfig()
	cfg.MaxPacket = 1000
	p, h := connectedPeer(t, cfg)
	h.unread = map[int]int{0: bufferShare(cfg.ReceiveBuffer, cfg.ReceiveBuffer, cfg.Channels), 1: cfg.ReceiveBuffer}
	n := (cfg.MTU - DataHeaderSize) / FragmentHeaderSize
	b := AppendDataHeader(nil, 1000, n)
	for i := range n {
		b = AppendMessage(b, &Message{Packet: uint32(pageSize - n/2 + i)})
	}
	p.Receive(0, b, new(wire.Batch))
	require.EqualValues(t, 1, p.stats.Accepted)
}

// A channel that has taken something refuses no longer, be it queued or handed over
// at once: the time after which packets are given up begins anew.
func TestWhatIsTakenEndsRefusing(t *testing.T) {
	for name, m := range map[string]Message{
		"handed over": {Packet: 0, Data: []byte{1}},
		"immediate":   {Packet: 3, Data: []byte{1}},
		"queued":      {Packet: 3, Last: 1, Data: make([]byte, 1452)},
		"a duplicate": {Packet: packetIDs - 1, Data: []byte{1}},
	} {
		p, _ := connectedPeer(t, testConfig())
		c := p.recv.channel(0)
		c.refusing = true
		p.Receive(0, AppendMessage(AppendDataHeader(nil, 1000, 1), &m), new(wire.Batch))
		require.EqualValues(t, 1, p.stats.Accepted)
		require.Equal(t, name == "a duplicate", c.refusing, name)
	}
}

// A channel that holds as much as it may takes a frame that ends the wait for its first
// packet, with all that follows: the sender may know no other way than to send the frame as
// it was, without what has arrived meanwhile. What can be read then is handed over at once,
// so that it does not pile up until the end of a batch.
func TestFrameThatEndsTheWaitFits(t *testing.T) {
	full := make([]byte, FragmentSize(MTU0))
	rest := Message{Fragment: 1, Last: 1, Data: []byte{1}}
	for name, test := range map[string]struct {
		frame     []Message
		delivered int // 0: the frame is refused
	}{
		"as it was":                {[]Message{rest, {Packet: 1, Lead: 1}}, 3},
		"all":                      {[]Message{rest, {Packet: 1, Lead: 1}, {Packet: 2, Lead: 1}, {Packet: 3, Lead: 1}}, 4},
		"without what has arrived": {[]Message{rest, {Packet: 1, Lead: 1}, {Packet: 3, Lead: 1}}, 4},
		"contradictory":            {[]Message{{Data: []byte{1}}, {Packet: 1, Lead: 1}}, 0},
		"nothing new":              {[]Message{{Last: 1, Data: full}, {Packet: 1, Lead: 1}}, 0},
		"one is missing":           {[]Message{rest, {Packet: 3, Lead: 1}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.ReceiveBuffer = MinReceiveBuffer(cfg)
			p, h := connectedPeer(t, cfg)
			data := func(id uint32, list ...Message) (taken bool) {
				b := AppendDataHeader(nil, id, len(list))
				for i := range list {
					b = AppendMessage(b, &list[i])
				}
				before := p.stats.Accepted
				p.Receive(0, b, new(wire.Batch))
				return p.stats.Accepted > before
			}
			require.True(t, data(1000, Message{Last: 1, Data: full}))
			require.True(t, data(1002, Message{Packet: 2, Lead: 1}))
			packet := uint32(100)
			for _, size := range []int{1000, 0} {
				for data(1003+packet, Message{Packet: packet, Lead: 1, Data: make([]byte, size)}) {
					packet++
				}
			}
			held := p.recv.held
			require.Equal(t, test.delivered > 0, data(1001, test.frame...))
			require.Len(t, h.packets, test.delivered)
			if test.delivered == 0 {
				require.Equal(t, held, p.recv.held)
			}
		})
	}
}
