package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The bounds that docs/THREATS.md states.

// TestThreatFrameWindow: of all ids of a data frame one in 32,768 is accepted.
func TestThreatFrameWindow(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	p.recv.window.size = DefaultConfig(0).ReceiveFrames
	accepted := 0
	for id := range uint32(1 << 22) { // every 1024th
		if p.recv.window.accepts(id<<10 + 13) {
			accepted++
		}
	}
	require.Equal(t, 1<<22/32_768, accepted)
}

// TestThreatSendWindow: of a channel no more than 65,536 packets are under way
// that the peer has not acknowledged as packets, whatever frames it has.
func TestThreatSendWindow(t *testing.T) {
	cfg := DefaultConfig(0)
	var s sender
	s.init(0, FragmentSize(cfg.MTU), cfg.Packets, cfg.SendGroup)
	for range 70_000 {
		s.push(&outgoing{ch: &s})
	}
	taken := 0
	for s.ready() {
		s.take()
		taken++
	}
	require.Equal(t, 65_536, taken)
	require.False(t, s.handleWindowAck(65_536), "which was not sent")
	require.False(t, s.ready())
}
