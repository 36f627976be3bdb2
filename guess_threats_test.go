package volley

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/testenv"
	"volley/reliable"
)

// arrivals counts messages.
type arrivals int

func (d *arrivals) HandleMessage(uint16, []byte) bool { *d++; return true }

// Of the 65,536 sequences that an attacker off the path can guess, so many put its message
// into a plain connection at once. The wire of the reference has nothing else to guess, so
// plain connections are for networks without such attackers. It is computed for each of them,
// beside a peer that sends steadily and one that has lost a tenth.
func TestBlindMessages(t *testing.T) {
	if testenv.Race {
		t.Skip("there is one goroutine, and no lock")
	}
	set, err := newSettings(nil, datagram.MaxUDP, func(int, bool) bool { return true })
	require.NoError(t, err)
	accepted := func(lost int) (n int) {
		start := time.Now()
		packet := append(reliable.AppendHeader(nil, reliable.Header{Ack: 65535}), 'x')
		for guess := range 1 << 16 {
			var d arrivals
			e := new(reliable.Endpoint)
			require.NoError(t, e.Init(&set.reliable, start, 0, &d))
			for i := range 40 {
				if lost == 0 || i%lost != 1 {
					packet = append(reliable.AppendHeader(packet[:0], reliable.Header{Sequence: uint16(i), Ack: 65535}), 'x')
					e.Receive(start, packet)
				}
			}
			before := d
			packet = append(reliable.AppendHeader(packet[:0], reliable.Header{Sequence: uint16(guess), Ack: 65535}), 'y')
			e.Receive(start, packet)
			n += int(d - before)
		}
		return n
	}
	steady, lossy := accepted(0), accepted(10)
	t.Logf("%d of 65,536 beside a steady peer, %d beside one that has lost a tenth", steady, lossy)
	require.Equal(t, lossy, steady+4, "the four that were lost are open")
	require.Less(t, lossy, 1<<16/100, "fewer than one in a hundred")
}
