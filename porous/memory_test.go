package porous

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
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
	if testenv.Race {
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
		goroutines := testenv.Goroutines()
		for i := range accepted {
			c, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			accepted[i] = c
		}
		buf := make([]byte, 5000)
		for range 5 {
			for i, c := range dialed {
				c.WriteMessage(t.Context(), buf[:i%len(buf)], Reliable+Mode(i%2))
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
		synctest.Wait()
		require.LessOrEqual(t, testenv.Goroutines(), goroutines+2, "accepted ones have none; the Listener has its timer")
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

// Nothing is allocated for a message, of any mode, on any channel, with receipts
// and with a time, in memory, over UDP, and sealed.
func TestNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	for _, name := range []string{"Pipe", "UDP", "NetcodePipe"} {
		for mode := Reliable; mode <= Passive; mode++ {
			t.Run(name+"/"+fmt.Sprint(mode), func(t *testing.T) {
				a, b := pairs[name](t, &Config{Channels: 2})
				defer abort(a, b)
				testNoAllocation(t, a, b, mode)
			})
		}
	}
}

func testNoAllocation(t *testing.T, a, b *Conn, mode Mode) {
	ctx := context.Background()
	buf, msg := make([]byte, 2000), make([]byte, 1000)
	var receipts []Receipt
	sent := 0
	exchange := func() {
		from, to := a, b
		if sent%3 == 0 {
			from, to = b, a
		}
		ch := sent % 2
		// Acknowledgements may be late where all processors are busy.
		if sent++; sent%64 == 0 {
			for _, c := range []*Conn{a, b} {
				if err := c.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				receipts = c.AppendReceipts(receipts[:0])
			}
		}
		if _, err := from.Channel(ch).WriteMessageUntil(ctx, msg, mode, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if n, err := to.Channel(ch).Read(buf); err != nil || n != len(msg) {
			t.Fatal(n, err)
		}
	}
	for range 5000 {
		exchange()
	}
	require.Zero(t, testing.AllocsPerRun(5000, exchange))
}
