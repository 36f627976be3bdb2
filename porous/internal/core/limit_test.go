package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// What limits sending, in staged situations.
func TestLimits(t *testing.T) {
	start := func(cfg *Config, link simLink) *sim {
		s := newSim(1, cfg, cfg, link)
		s.connect(t)
		s.run(time.Second)
		return s
	}
	long := simLink{delay: 100 * time.Millisecond}
	limit := func(s *sim) Limit { return s.a.p.Stats().Limit }

	t.Run("empty queue", func(t *testing.T) {
		s := start(simConfig(), long)
		require.Equal(t, LimitNone, limit(s))
		trickleOne(s, 0)
		require.Equal(t, LimitNone, limit(s), "all of it has left")
	})
	t.Run("window", func(t *testing.T) {
		s := start(simConfig(), long)
		newFlow(s.a, s.b)
		s.run(50 * time.Millisecond)
		require.Equal(t, LimitWindow, limit(s), "the first window is on its way")
	})
	t.Run("pacing", func(t *testing.T) {
		s := start(simConfig(), long)
		newFlow(s.a, s.b)
		s.run(150 * time.Millisecond)
		s.run(60 * time.Millisecond)
		require.Equal(t, LimitPacing, limit(s), "the second one leaves by and by")
	})
	t.Run("bandwidth", func(t *testing.T) {
		cfg := simConfig()
		cfg.SendBandwidth = 1_000_000
		s := start(cfg, long)
		newFlow(s.a, s.b)
		s.run(5 * time.Second)
		require.Equal(t, LimitBandwidth, limit(s))
	})
	t.Run("loss back-off", func(t *testing.T) {
		link := theLink(0)
		s := start(simConfig(), link)
		newFlow(s.a, s.b)
		s.run(2 * time.Second)
		s.a.link.loss = 0.02
		counts := map[Limit]int{}
		for range 100 {
			s.run(37 * time.Millisecond)
			counts[limit(s)]++
		}
		require.Greater(t, counts[LimitBackoff], 60, "%v", counts)
	})
	t.Run("blackout", func(t *testing.T) {
		s := start(simConfig(), long)
		newFlow(s.a, s.b)
		s.run(time.Second)
		s.a.link.loss = 1
		s.run(5 * time.Second)
		require.Equal(t, LimitSilence, limit(s))
	})
	t.Run("the peer's window", func(t *testing.T) {
		cfg := simConfig()
		cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = 64, 8, 8
		s := start(cfg, long)
		for i := range 100 {
			s.a.p.Send(s.now, 0, numbered(i, 4), Reliable, 0)
		}
		s.a.transmit()
		s.run(50 * time.Millisecond)
		require.Equal(t, LimitPackets, limit(s))
	})
	t.Run("unread channel", func(t *testing.T) {
		cfg := simConfig()
		cfg.ReceiveBuffer = MinReceiveBuffer(cfg)
		s := start(cfg, simLink{delay: 10 * time.Millisecond})
		s.b.unread = map[int]int{0: 0}
		for range 60 {
			s.a.p.Send(s.now, 0, make([]byte, 16<<10), Reliable, 0)
		}
		s.a.transmit()
		s.run(20 * time.Second)
		require.Equal(t, LimitUnread, limit(s))
		require.True(t, s.a.p.ChannelStats(0).Unread)
	})
}

// trickleOne sends one small packet.
func trickleOne(s *sim, i int) {
	s.a.p.Send(s.now, 0, numbered(i, 4), Reliable, 0)
	s.a.transmit()
}

// A burst of losses is of a queue that has overflowed, and not of a peer that
// refuses a channel.
func TestABurstOfLossesIsNoRefusal(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	p.send.control = &fixedController{window: 1 << 20}
	p.send.sample(ms(50))
	ids := sendFrames(t, p, 0, 100, Reliable)
	var out wire.Batch
	p.Receive(ms(50), AppendDataAck(nil, ids[97:]), &out)
	require.Equal(t, 97, p.send.queue.waits)
	require.False(t, p.ChannelStats(0).Unread)
	require.Equal(t, trusted, p.send.channels[0].trust.level)
}
