package volley

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/reliable"
)

// TestThreatDefaults states the defaults by which docs/THREATS.md bounds what
// peers can make us hold.
func TestThreatDefaults(t *testing.T) {
	set, err := newSettings(nil, 65507, nil)
	require.NoError(t, err)
	require.Equal(t, 4<<20, set.readBuffer)
	require.Equal(t, 1<<20, set.reliable.ReassemblyBytes)
	require.Equal(t, 5*time.Second, set.reliable.ReassemblyTimeout)
	require.Equal(t, 16384, set.reliable.MaxWindow)
	require.Equal(t, 30*time.Second, set.idleTimeout)
	require.Equal(t, 5*time.Second, set.keepAlive)
	require.LessOrEqual(t, unsafe.Sizeof(Receipt{}), uintptr(24)) // it is 20 with pointers of 32 bits

	l, err := new(ListenConfig).newListener()
	require.NoError(t, err)
	require.Equal(t, 131_072, l.maxConns)
	require.True(t, l.budget.Reserve(192<<20, false))
	require.False(t, l.budget.Reserve(1, false), "the last quarter is for peers that have shown to be at their address")
	require.True(t, l.budget.Reserve(64<<20, true))
	require.False(t, l.budget.Reserve(1, true), "256 MiB in all")
}

// TestThreatConnection makes connections by forged first messages, and measures
// what each costs beside what MaxMemory counts: about 1.6 KB.
func TestThreatConnection(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what memory costs")
	}
	const count = 2000
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{})
		conns := make([]*Conn, count)
		for i := range conns {
			s, err := n.Listen(fmt.Sprintf("10.1.%d.%d:1", i/250, i%250))
			require.NoError(t, err)
			s.WriteTo(append(reliable.AppendHeader(nil, reliable.Header{Ack: 65535}), 'x'), l.Addr())
			conns[i] = accept(t, l)
			require.NoError(t, s.Close())
		}
		time.Sleep(time.Second)
		counted := l.Stats().Memory
		before := testenv.Heap()
		for i, c := range conns {
			c.Close()
			conns[i] = nil
		}
		synctest.Wait()
		each := (before - testenv.Heap() - counted) / count
		t.Logf("%d bytes each, and %d that MaxMemory counts", each, counted/count)
		require.LessOrEqual(t, each, int64(1700))
	})
}

// TestThreatNotices has a Listener flooded for a second with
// what it answers: 22,000 times at most, by no more bytes than came. A connection asks
// once in 100 ms, by 25 bytes.
func TestThreatNotices(t *testing.T) {
	require.Equal(t, 25, len(question(1)))
	require.Equal(t, 100*time.Millisecond, askEvery)
	synctest.Test(t, func(t *testing.T) {
		l := newNotifier(t, ListenConfig{})
		packet := midStream(t, 40, 100)[0]
		sent := 0
		for range 1000 {
			for range 20 {
				for _, d := range [][]byte{packet, question(1)} {
					for _, answer := range respond(l, false, d) {
						sent++
						require.LessOrEqual(t, len(answer), len(d))
					}
				}
			}
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, sent, 22_000)
		require.Greater(t, sent, 21_000, "the flood is not large enough")
	})
}

// TestThreatReceipts lets receipts wait, of which there is room for so many.
func TestThreatReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(&Config{Receipts: 10})
		defer a.Close()
		defer b.Close()
		for range 50 {
			_, err := a.WriteMessage([]byte("x"))
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 40, a.Stats().ReceiptsDropped)
		require.Len(t, a.AppendReceipts(nil), 10)
	})
}
