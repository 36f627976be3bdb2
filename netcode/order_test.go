package netcode

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// An orderConn is a transport that notes the sequence numbers of the packets
// that are given to it, and takes its time.
type orderConn struct {
	datagram.Conn
	delay func() time.Duration

	mu        sync.Mutex
	sequences []uint64
	batches   int
}

func (o *orderConn) Features() datagram.Features { return datagram.Features{} }

func (o *orderConn) WriteBatch(b *wire.Batch) error {
	_, err := o.WriteBatchBy(b, nil)
	return err
}

func (o *orderConn) WriteBatchBy(b *wire.Batch, _ *deadline.Deadline) (int, error) {
	time.Sleep(o.delay())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches++
	for i := range b.Len() {
		var sequence uint64
		p := b.At(i)
		for j := range int(p[0] >> 4) {
			sequence |= uint64(p[1+j]) << (8 * j)
		}
		o.sequences = append(o.sequences, sequence)
	}
	return b.Len(), nil
}

// wantOrder checks that n packets have left in the order of their sequences.
func (o *orderConn) wantOrder(t *testing.T, n int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	require.Equal(t, n, len(o.sequences), "packets that have left")
	for i, s := range o.sequences {
		require.EqualValues(t, i, s, "order of leaving")
	}
}

func startOrdered(t *testing.T, delay func() time.Duration) (*Conn, *orderConn) {
	t.Helper()
	x, y := datagram.NewPipe(pipeAddr("client"), pipeAddr("server"))
	up, down := GenerateKey(), GenerateKey()
	o := &orderConn{Conn: x, delay: delay}
	c := newPipeConn(o, &up, &down, y)
	other := newPipeConn(y, &down, &up, x)
	require.NoError(t, o.Attach((*handler)(c)))
	require.NoError(t, y.Attach((*handler)(other)))
	t.Cleanup(func() { other.Close() })
	return c, o
}

// A flood of Writes leaves in few large batches.
func TestFloodLeavesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Only while nobody can write does the time pass that a batch takes to leave.
		c, o := startOrdered(t, func() time.Duration { return time.Nanosecond })
		for range 2000 {
			_, err := c.Write([]byte("payload"))
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		o.wantOrder(t, 2000)
		require.Less(t, o.batches, 50)
		require.EqualValues(t, 2000, c.Stats().MessagesSent)
		c.Close()
		o.wantOrder(t, 2000+disconnectPackets)
	})
}

// An answerer is a layer above that answers.
type answerer struct{ datagram.Handler }

func (answerer) HandleBatch(_ time.Time, bufs [][]byte, out *wire.Batch) {
	for _, b := range bufs {
		out.Append(b)
	}
}

func (answerer) HandleTick(_ time.Time, out *wire.Batch) time.Time {
	out.Append([]byte("tick"))
	return time.Time{}
}

// Payloads, keep alives, what the layer above writes and what it answers leave
// in the order of their sequence numbers, whoever sends them.
func TestPacketsLeaveInOrder(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			calls := 0 // one at a time
			c, o := startOrdered(t, func() time.Duration {
				calls++
				return time.Duration(calls*7919%40) * time.Microsecond
			})
			c.sendMu.Lock()
			c.sess.interval = time.Microsecond
			c.sendMu.Unlock()
			var tasks sync.WaitGroup
			for i := range 5 {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				tasks.Go(func() {
					for range 100 {
						switch b := (*stacked)(c); rng.IntN(6) {
						case 0:
							c.deliver(time.Now(), answerer{}, [][]byte{{1}, {2}})
						case 1:
							(*handler)(c).HandleTick(time.Now(), nil)
						case 2:
							out := new(wire.Batch)
							for range 1 + rng.IntN(100) {
								out.Append([]byte("above"))
							}
							if n, err := b.WriteBatchBy(out, nil); n != out.Len() || err != nil {
								t.Errorf("WriteBatchBy = %d, %v", n, err)
							}
						case 3:
							if n, err := c.WriteBatch(make([][]byte, rng.IntN(3))); err != nil {
								t.Errorf("WriteBatch = %d, %v", n, err)
							}
							c.WriteBatch([][]byte{{1}, {}, {2}})
						case 4:
							time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
						default:
							if _, err := c.Write([]byte("payload")); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			tasks.Wait()
			time.Sleep(time.Second)
			o.wantOrder(t, int(c.Stats().PacketsSent))
			c.Close()
		})
	}
}

// A layer above that finds no room before its deadline is told how many of its
// datagrams have left, also while keep alives go ahead of each of them.
func TestStackedDeadline(t *testing.T) {
	for _, test := range []struct {
		confirmed  bool
		room, want int
	}{{true, 0, 0}, {true, 2, 2}, {false, 1, 0}, {false, 2, 1}, {false, 5, 2}, {false, 6, 3}} {
		synctest.Test(t, func(t *testing.T) {
			c := startFull(t, test.room)
			c.sendMu.Lock()
			c.sess.confirmed = test.confirmed
			c.sendMu.Unlock()
			out := new(wire.Batch)
			for range 3 {
				out.Append([]byte("x"))
			}
			var d deadline.Deadline
			d.Set(time.Now().Add(time.Second))
			n, _ := (*stacked)(c).WriteBatchBy(out, &d)
			require.Equal(t, test.want, n, "room for %d", test.room)
			c.Close()
		})
	}
}
