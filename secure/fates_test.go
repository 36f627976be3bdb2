package secure_test

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/internal/testenv"
	"volley/secure"
	"volley/simnet"
)

// For a day, a client that moves each minute writes over volley, with 2 % loss. Each message has one
// fate, none is Delivered that was not read, and none is read twice.
func TestFatesOfADay(t *testing.T) {
	minutes := testenv.Sized(40, 24*60)
	link := simnet.Link{Latency: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.02, Duplicate: 0.01}
	secure.Simulate(t, link, func(t *testing.T, client, server *secure.Conn, rebind func()) {
		c, err := volley.NewConn(client, nil)
		require.NoError(t, err)
		s, err := volley.NewConn(server, nil)
		require.NoError(t, err)
		read := make(map[uint64]int)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				msg, err := s.ReadMessage(context.Background(), nil)
				if err != nil {
					return
				}
				read[binary.LittleEndian.Uint64(msg)]++
			}
		}()
		time.Sleep(time.Second) // for the first spare token
		numbers := make(map[uint64]uint64)
		var receipts []volley.Receipt
		n := uint64(0)
		for range minutes {
			rebind()
			for range 60 * 5 {
				id, err := c.WriteMessage(binary.LittleEndian.AppendUint64(nil, n))
				require.NoError(t, err)
				numbers[id] = n
				n++
				time.Sleep(200 * time.Millisecond)
			}
			receipts = c.AppendReceipts(receipts)
		}
		time.Sleep(10 * time.Second)
		require.GreaterOrEqual(t, c.Stats().Moves, uint64(minutes))
		require.NoError(t, c.Close())
		synctest.Wait()
		<-done
		s.Close()
		delivered := 0
		for _, r := range c.AppendReceipts(receipts) {
			n, ok := numbers[r.ID]
			require.True(t, ok, "a second fate")
			delete(numbers, r.ID)
			if r.Fate == volley.Delivered {
				delivered++
				require.Equal(t, 1, read[n], "message %d", n)
			}
		}
		require.Empty(t, numbers)
		for n, times := range read {
			require.Equal(t, 1, times, "message %d", n)
		}
		t.Logf("%d messages, %d delivered, %d read", n, delivered, len(read))
		require.Greater(t, float64(delivered), 0.95*float64(n)) // a move takes three of 300
	})
}
