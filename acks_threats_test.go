package volley

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/reliable"
)

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
