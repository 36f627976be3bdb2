package porous

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/porous/internal/core"
	"volley/simnet"
)

// A peer that answers pings and never acknowledges anything is not one of which some
// channels are not read.
func TestExplainAPeerThatNeverAcknowledges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, acked := range []bool{false, true} { // the first message
			n := simnet.New(1)
			defer n.Close()
			x, err := n.Dial("10.0.0.2:1", "10.0.0.1:1")
			require.NoError(t, err)
			c := simDial(t, n, "10.0.0.1:1", "10.0.0.2:1", &Config{Channels: 2})
			go func() {
				for buf := make([]byte, 2000); ; {
					m, err := x.Read(buf)
					if err != nil {
						return
					}
					switch b := buf[:m]; core.FrameType(b[0]) {
					case core.TypeConnect:
						r, _ := core.ParseConnect(b)
						x.Write(core.AppendConnectAck(nil, r.ID))
						x.Write(b)
					case core.TypePing:
						id, _ := core.ParsePing(b, core.TypePing)
						x.Write(core.AppendPing(nil, core.TypePingAck, id))
					case core.TypeData:
						if id, _, _, ok := core.ParseData(b); ok && acked {
							x.Write(core.AppendDataAck(nil, []uint32{id}))
							acked = false
						}
					}
				}
			}()
			require.NoError(t, c.Flush(t.Context()))
			c.Write([]byte("the first message"))
			time.Sleep(time.Second)
			for i := range 40 {
				c.Channel(i % 2).Write(make([]byte, 1000))
				time.Sleep(time.Second)
				if i > 10 {
					require.Contains(t, c.Explain().String(), "acknowledges nothing")
					require.False(t, c.Channel(0).Stats().Refused)
				}
			}
			abort(c)
			x.Close()
		}
	})
}
