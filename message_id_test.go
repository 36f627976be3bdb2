package volley

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
	"volley/reliable"
	"volley/simnet"
)

// Whatever is lost and late, the reader sees the numbers that WriteMessage has
// returned, past the end of the 16 bits of the wire and for messages in
// fragments.
func TestMessageIDs(t *testing.T) {
	for name, link := range map[string]simnet.Link{
		"lossless": {},
		"lossy":    {Latency: 5 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.1, Reorder: 0.1, ReorderBy: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := Pipe(nil)
				if name == "lossy" {
					a, b = netPipe(7, link, simnet.Link{}, nil)
				}
				defer a.Close()
				defer b.Close()
				const count = 3000
				read := make(map[uint32]uint64)
				var wg sync.WaitGroup
				wg.Go(func() {
					for {
						b.SetReadDeadline(time.Now().Add(time.Second))
						p, id, err := b.ReadMessageID(context.Background(), []byte("dst"))
						if err != nil {
							return
						}
						read[binary.BigEndian.Uint32(p[3:])] = id
					}
				})
				written := make([]uint64, count)
				for i := range uint32(count) {
					size := 4
					if i%100 == 0 {
						size = 3000
					}
					if i%1000 == 0 {
						skip(a, 30_000)
					}
					msg := make([]byte, size)
					binary.BigEndian.PutUint32(msg, i)
					var err error
					written[i], err = a.WriteMessage(msg)
					require.NoError(t, err)
					time.Sleep(200 * time.Microsecond)
				}
				wg.Wait()
				for i, id := range read {
					require.Equal(t, written[i], id, "message %d", i)
				}
				require.Greater(t, len(read), count*7/10)
				require.Greater(t, written[count-1], uint64(65535))
			})
		})
	}
}

// skip uses n sequences up for packets that are lost.
func skip(c *Conn, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lost wire.Batch
	for range n {
		c.endpoint.Send(c.at(c.now()), nil, &lost)
		lost.Reset()
	}
}

// The 64-bit numbers of sequences that are lost, and late within the window.
func TestNumberModel(t *testing.T) {
	for _, window := range []int{256, 16384} {
		r := rand.New(rand.NewPCG(1, uint64(window)))
		c := &Conn{set: &settings{window: window}}
		for newest := uint64(firstID); newest < 1_000_000; {
			id := newest
			if back := uint64(r.IntN(window)); r.IntN(3) == 0 && back <= newest-firstID {
				id -= back
			} else {
				newest += uint64(r.IntN(1 << r.IntN(15)))
				id = newest
			}
			require.Equal(t, id, c.numberLocked(uint16(id)), "window %d, newest %d", window, newest)
		}
	}
}

// A peer that starts again after a silence gets larger numbers than before, and
// so does one that was taken up in mid-stream and crosses the end of the 16 bits.
func TestNumbersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far, near := simnet.Pair(1, simnet.Link{}, simnet.Link{})
		c := mustConn(near, nil)
		defer c.Close()
		defer far.Close()
		receive := func(s uint16) uint64 {
			d := reliable.AppendHeader(nil, reliable.Header{Sequence: s, Ack: 65535})
			far.Write(append(d, 'x'))
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, id, err := c.ReadMessageID(context.Background(), nil)
			if err != nil {
				return 0
			}
			return id
		}
		for s := range uint16(20_000) {
			require.EqualValues(t, firstID+int(s), receive(s))
		}
		time.Sleep(11 * time.Second)
		require.EqualValues(t, 3*65536, receive(0))
		require.EqualValues(t, 3*65536+1, receive(1))
	})
	c := &Conn{set: &settings{window: 16384}}
	require.EqualValues(t, 65536+65530, c.numberLocked(65530))
	require.EqualValues(t, 2*65536+2, c.numberLocked(2))
	require.EqualValues(t, 65536+65529, c.numberLocked(65529))
	c = &Conn{set: &settings{window: 16384}}
	require.EqualValues(t, 65536+3, c.numberLocked(3))
	require.EqualValues(t, 65530, c.numberLocked(65530), "from before all that was heard")
	require.EqualValues(t, 65536+4, c.numberLocked(4))
}
