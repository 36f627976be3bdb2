package porous

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The longest times that there are mean never, and do not overflow.
func TestForever(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := Pipe(&Config{KeepAlive: math.MaxInt64, IdleTimeout: math.MaxInt64, HandshakeTimeout: math.MaxInt64, CloseTimeout: math.MaxInt64})
		require.NoError(t, a.Flush(t.Context()))
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(24 * time.Hour)
		require.Less(t, a.Stats().FramesReceived, uint64(10))
		_, err := a.Write([]byte("x"))
		require.NoError(t, err)
		require.Equal(t, "x", readString(t, b))
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}
