package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Frames full of small messages are taken with the least buffer that is allowed
// for them, also where some are lost.
func TestR11SmallMessages(t *testing.T) {
	for _, channels := range []int{1, 2} {
		for _, size := range []int{1, 20, 64 << 10} {
			for _, loss := range []float64{0, 0.1} {
				cfg := simConfig()
				cfg.Channels, cfg.MaxPacket = channels, size
				cfg.ReceiveBuffer = MinReceiveBuffer(cfg)
				s := newSim(1, cfg, cfg, simLink{delay: 20 * time.Millisecond, loss: loss})
				s.connect(t)
				const total = 2000
				for i := range total {
					_, ok := s.a.p.Send(s.now, i%channels, []byte{byte(i)}, Reliable, 0)
					require.True(t, ok)
				}
				s.a.transmit()
				s.run(5 * time.Minute)
				require.Len(t, s.b.packets, total, "%d channels, at most %d bytes, loss %v", channels, size, loss)
			}
		}
	}
}
