package porous

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A Write that waits goes on when there is room for it, however little that is and
// whatever becomes of the rest.
func TestBlockedWriteSeesRoom(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		for channels := 1; channels <= 3; channels++ {
			cfg := &Config{Channels: channels, SendBuffer: 1 << 20, ReceiveBuffer: 1 << 18}
			a, b, _ := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, cfg)
			ch := a.Channel(channels - 1)
			var written atomic.Int32
			for _, size := range []int{1000, 3000, 60_000} {
				go func() {
					for {
						if _, err := ch.Write(make([]byte, size)); err != nil {
							return
						}
						written.Add(1)
					}
				}()
			}
			time.Sleep(10 * time.Second)
			before, passing := written.Load(), 0
			for i := 0; i < 5 || written.Load() == before; i++ { // all are blocked
				require.Less(t, i, 100)
				for range 5 {
					_, err := b.Channel(channels - 1).Read(make([]byte, 60_000))
					require.NoError(t, err)
				}
				for seen := 0; seen < 1000; seen++ { // as the peer is tried once a second only
					time.Sleep(10 * time.Millisecond)
					synctest.Wait() // a Write may be under way
					a.mu.Lock()
					room, waits, least := a.peer.Room(channels-1, 1000), ch.writers, ch.least
					a.mu.Unlock()
					require.Equal(t, 3, waits)
					require.Equal(t, 1000, least)
					if room {
						passing++
						require.Less(t, passing, 50, "%d channels: it comes and goes, and does not stay", channels)
						continue
					}
					passing = 0
				}
			}
			abort(a, b)
		}
	})
}

// Where room comes all the time, a Write is woken for much of it at once.
func TestBlockedWriteIsWokenRarely(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, &Config{SendBuffer: 1 << 20, ReceiveBuffer: 1 << 20})
		go func() {
			for buf := make([]byte, 1000); ; {
				if _, err := b.Read(buf); err != nil {
					return
				}
			}
		}()
		waits, changes := 0, make(map[chan struct{}]bool)
		go func() {
			for {
				if _, err := a.Write(make([]byte, 100)); err != nil {
					return
				}
			}
		}()
		for range 1000 { // every millisecond
			time.Sleep(time.Millisecond)
			a.mu.Lock()
			if a.change != nil && !changes[a.change] {
				changes[a.change] = true
				waits++
			}
			a.mu.Unlock()
		}
		require.Less(t, waits, 250, "a wake-up each 5 ms at most")
		require.Greater(t, b.Stats().MessagesReceived, uint64(20*waits))
		abort(a, b)
	})
}

// The time of a wake-up is one of those that a tick is asked for.
func TestWakeUpIsScheduled(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{}, nil)
		require.NoError(t, a.Flush(t.Context()))
		time.Sleep(10 * time.Second)
		a.mu.Lock()
		a.wakeAt = a.timeLocked() + wakeAfter
		a.scheduleLocked()
		require.LessOrEqual(t, a.tickAt, a.wakeAt)
		a.mu.Unlock()
		abort(a, b)
	})
}
