package volley

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
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

// A peer that acknowledges one message in a hundred and floods us with control datagrams and
// messages makes us hold no more than the windows, and send no more than it may: an answer a
// millisecond, and what acknowledges its messages.
func TestSparseAcksPinNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{Config: &Config{Receipts: 1000}})
		raw, err := n.Dial("10.0.0.9:1", "10.0.0.1:7777")
		require.NoError(t, err)
		defer raw.Close()
		raw.Write(hello(5))
		raw.Write(openingPacket())
		c := accept(t, l)
		defer c.Close()
		var newest, sent, bytes atomic.Int64
		go func() {
			b := make([]byte, 2000)
			for {
				k, err := raw.Read(b)
				if err != nil {
					return
				}
				sent.Add(1)
				bytes.Add(int64(k))
				if h, _, err := reliable.ParseHeader(b[:k]); err == nil && !isControl(b[:k]) {
					newest.Store(int64(h.Sequence))
				}
			}
		}()
		minutes := testenv.Sized(1, 10)
		message := make([]byte, 200)
		var memory []int
		var heap int64
		sequence := uint16(1)
		ms := testenv.Raced(minutes*60_000, 30_000)
		for i := range ms {
			for range 2 { // 2,000 a second
				c.Write(message)
			}
			for token := range uint64(10) {
				raw.Write(question(1 + token))
			}
			if i%50 == 0 { // one of the newest hundred, and none of the others
				raw.Write(append(reliable.AppendHeader(nil, reliable.Header{Sequence: sequence, Ack: uint16(newest.Load()), AckBits: 1}), 'x'))
				sequence++
			}
			time.Sleep(time.Millisecond)
			if i == max(ms/4, 15_000) { // the first fates are known
				heap = testenv.Heap()
			}
			if i%1000 == 999 {
				memory = append(memory, c.endpoint.MemoryUsage())
			}
		}
		most := 0
		for _, m := range memory {
			most = max(most, m)
		}
		t.Logf("at most %d bytes; %d datagrams of %d bytes sent in %d s", most, sent.Load(), bytes.Load(), ms/1000)
		require.Less(t, most, 1<<20)
		require.Less(t, testenv.Heap()-heap, int64(1<<20))
		require.Less(t, sent.Load(), int64(ms*(2+1)+ms/10))
	})
}

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
