package netplay_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netplay"
)

// TestRedialWait checks the bounds of the wait before each attempt: from half of a
// delay, which doubles from MinDelay up to MaxDelay, to all of it; and that the least
// and the most are met.
func TestRedialWait(t *testing.T) {
	least := make([]time.Duration, 6)
	most := make([]time.Duration, 6)
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			failed := errors.New("no route")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			last, n := time.Now(), -1
			cl := &netplay.Client{
				Registry:  newRegistry(),
				MinDelay:  5,
				MaxDelay:  40,
				Reconnect: true,
				Dial: func(context.Context) (net.Conn, error) {
					wait := time.Since(last)
					last = time.Now()
					if n >= 0 {
						if least[n] == 0 || wait < least[n] {
							least[n] = wait
						}
						most[n] = max(most[n], wait)
					}
					if n++; n == len(least) {
						cancel()
					}
					return nil, failed
				},
			}
			require.ErrorIs(t, cl.Run(ctx), context.Canceled)
		})
	}
	require.Equal(t, []time.Duration{2, 5, 10, 20, 20, 20}, least)
	require.Equal(t, []time.Duration{5, 10, 20, 40, 40, 40}, most)
}
