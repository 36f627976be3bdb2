package world

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/simnet"
)

// A socket that nobody reads fills with small datagrams, and keeps them if its buffer is made smaller
// then. A world took such a socket for memory that the library held.
func TestFullSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		defer network.Close()
		pc, err := network.Listen("10.0.0.1:7777")
		require.NoError(t, err)
		from, err := network.Dial("10.0.0.2:0", "10.0.0.1:7777")
		require.NoError(t, err)
		s := &socket{Conn: pc}
		require.Zero(t, s.mayHold(false))

		before := testenv.Heap()
		s.stand(time.Minute)
		for range 2 * socketBuffer / smallestPacket {
			from.Write([]byte("full"))
		}
		synctest.Wait()
		require.NotZero(t, s.Drops())
		const small = 1000
		require.NoError(t, s.SetReadBuffer(small))
		held := testenv.Heap() - before
		require.Greater(t, held, int64(small/smallestPacket*datagramCost))
		require.LessOrEqual(t, held, s.mayHold(false))
		require.LessOrEqual(t, held, s.mayHold(true))

		time.Sleep(time.Minute)
		require.Zero(t, s.mayHold(false))
		require.LessOrEqual(t, held, s.mayHold(true), "a function of a Handler waits")
	})
}
