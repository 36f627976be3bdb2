package porous

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An accepted connection with one channel that was busy, with losses, and is
// idle now takes at most 4 KiB, and no goroutine.
func TestIdleConnsAreSmall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector changes what memory costs")
	}
	const count = 2000
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: time.Millisecond, Loss: 0.02})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		dialed, accepted := make([]*Conn, count), make([]*Conn, count)
		for i := range dialed {
			dialed[i] = simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil)
		}
		goroutines := runtime.NumGoroutine()
		for i := range accepted {
			c, err := l.AcceptConn()
			require.NoError(t, err)
			accepted[i] = c
		}
		buf := make([]byte, 5000)
		for range 5 {
			for i, c := range dialed {
				c.Send(t.Context(), buf[:i%len(buf)], Mode(i%2))
			}
			time.Sleep(100 * time.Millisecond)
			for i, c := range accepted {
				for c.Stats().ReadQueue > 0 {
					c.Read(buf)
				}
				c.Write(buf[:i%1000])
			}
			time.Sleep(100 * time.Millisecond)
		}
		for _, c := range accepted {
			require.NoError(t, c.Flush(t.Context()))
		}
		time.Sleep(time.Minute)
		for _, c := range accepted {
			for c.Stats().ReadQueue > 0 {
				c.Read(buf)
			}
		}
		require.Less(t, runtime.NumGoroutine(), goroutines+count/10, "accepted ones have none")
		before := heap()
		for i, c := range accepted {
			c.Abort()
			accepted[i] = nil
		}
		time.Sleep(30 * time.Second)
		each := (before - heap()) / count
		t.Logf("%d bytes each", each)
		require.LessOrEqual(t, each, int64(4096))
		require.Greater(t, each, int64(500))
		abort(dialed...)
	})
}

// Nothing is allocated for a message.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, pair := range map[string]func(testing.TB, *Config) (a, b *Conn){"Pipe": pairs["Pipe"], "UDP": udpPair} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, nil)
			defer abort(a, b)
			ctx := context.Background()
			buf, msg := make([]byte, 2000), make([]byte, 1000)
			for _, mode := range []Mode{Reliable, Passive} {
				sent := 0
				exchange := func() {
					// Acknowledgements may be late where all processors are busy.
					if sent++; sent%64 == 0 {
						if err := a.Flush(ctx); err != nil {
							t.Fatal(err)
						}
					}
					if _, err := a.zero.send(ctx, msg, mode, time.Time{}, false); err != nil {
						t.Fatal(err)
					}
					if n, err := b.Read(buf); err != nil || n != len(msg) {
						t.Fatal(n, err)
					}
				}
				for range 5000 {
					exchange()
				}
				require.Zero(t, testing.AllocsPerRun(5000, exchange), mode)
			}
		})
	}
}
