package outbox

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/leaktest"
	"volley/internal/testenv"
	"volley/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A link is a connection below, which a test can hold, fill and break, and
// which notes what was given to it.
type link struct {
	datagram.Conn // nil: whatever is not needed panics

	delay  func() time.Duration // of each call; may be nil
	room   chan struct{}        // closed: there is room; nil: there always is
	waited chan struct{}        // a token for each wait for room
	wedged error                // of each wait for room; may be nil

	mu     sync.Mutex
	inside int // calls under way
	most   int // of them at a time
	broken error
	sizes  []int // of batches
	sent   []uint64
}

func (l *link) WriteBatchBy(b *wire.Batch, d *deadline.Deadline) (int, error) {
	l.mu.Lock()
	l.inside++
	l.most = max(l.most, l.inside)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.inside--
		l.mu.Unlock()
	}()
	if l.delay != nil {
		time.Sleep(l.delay())
	}
	if l.room != nil {
		passed := d.Arm()
		defer d.Disarm()
		select {
		case l.waited <- struct{}{}:
		default:
		}
		select {
		case <-l.room:
		case <-passed:
			select {
			case <-l.room:
			default:
				return 0, os.ErrDeadlineExceeded
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes = append(l.sizes, b.Len())
	for i := range b.Len() {
		l.sent = append(l.sent, binary.BigEndian.Uint64(b.At(i)))
	}
	return b.Len(), l.broken
}

func (l *link) WaitWritable(_ int, cancel <-chan struct{}) error {
	if l.room == nil {
		return l.wedged
	}
	select {
	case <-l.room:
		return l.wedged
	case <-cancel:
		return os.ErrDeadlineExceeded
	}
}

// A conn numbers the datagrams it frames.
type conn struct {
	sync.Mutex
	Outbox
	link  *link
	born  time.Time
	next  uint64 // number of the next datagram
	rests int
	no    error // of Frame
}

var errLarge = errors.New("too large")

func newConn(waits bool) *conn {
	c := &conn{link: &link{waited: make(chan struct{}, 1)}, born: time.Now()}
	c.Init(&c.Mutex, c.link, c, waits)
	return c
}

func (c *conn) Arrange(b *wire.Batch) *wire.Batch { return b }
func (c *conn) Now() time.Duration                { return time.Since(c.born) }

func (c *conn) Check(b []byte) error {
	if len(b) > 1200 {
		return errLarge
	}
	return nil
}

func (c *conn) Frame(_ time.Duration, b []byte, out *wire.Batch) (uint64, error) {
	if err := cmp.Or(c.no, c.Check(b)); err != nil {
		return 0, err
	}
	binary.BigEndian.PutUint64(out.Extend(8+len(b)), c.next)
	c.next++
	return c.next - 1, nil
}

func (c *conn) RestUnlocking(time.Duration) { c.rests++ }

func (c *conn) write(b []byte) (uint64, error) {
	c.Lock()
	defer c.Unlock()
	return c.WriteUnlocking(c, c.born, b)
}

func (c *conn) writeBatch(msgs ...[]byte) (int, error) {
	c.Lock()
	defer c.Unlock()
	return c.WriteBatchUnlocking(c, c.born, nil, msgs)
}

// answer does what receiving does.
func (c *conn) answer() bool {
	c.Lock()
	defer c.Unlock()
	if c.Crowded() || c.Err() != nil {
		return false
	}
	before := c.Pending()
	c.Frame(c.Now(), nil, c.Batch(c.Now()))
	c.Answered()
	c.SendFreshUnlocking(before)
	return true
}

// gather does what a pass over many connections does. There is room in the
// socket for some of what it frames.
func (c *conn) gather(t *testing.T, rng *rand.Rand) {
	out := new(wire.Batch)
	c.Lock()
	_, how, err := c.Gather(c, c.Now(), []byte("x"), out)
	c.Unlock()
	switch {
	case err != nil:
		t.Error(err)
	case how == Blocked:
		_, err = c.write([]byte("x"))
	case how == Framed && rng.IntN(2) == 0:
		c.Lock()
		c.SentUnlocking(out, nil, c.Deadline())
		c.Unlock()
	case how == Framed:
		c.Lock()
		patience := c.Patience()
		c.Unlock()
		c.link.WriteBatchBy(out, patience)
		c.Lock()
		c.SentUnlocking(nil, nil, c.Deadline())
		c.Unlock()
	}
	if err != nil {
		t.Error(err)
	}
}

func (c *conn) end(err error) {
	c.Lock()
	defer c.Unlock()
	c.End(err)
}

// wantInOrder checks that n datagrams have left, in the order of framing, and
// that nobody transmitted beside another.
func (c *conn) wantInOrder(t *testing.T, n int) {
	t.Helper()
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	require.Equal(t, n, len(c.link.sent), "datagrams that have left")
	for i, number := range c.link.sent {
		require.EqualValues(t, i, number, "order of leaving")
	}
	require.LessOrEqual(t, c.link.most, 1, "transmitters at a time")
}

// A Write that finds nobody sending leaves in the caller, by itself.
func TestWriteLeavesInCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		for i := range uint64(100) {
			id, err := c.write([]byte("x"))
			require.NoError(t, err)
			require.Equal(t, i, id)
			require.Len(t, c.link.sent, int(i)+1, "left before Write returned")
			time.Sleep(floodGap)
		}
		c.wantInOrder(t, 100)
		require.Nil(t, c.pending)
	})
}

// A flood leaves in few large batches, and all of it leaves, whether the goroutine
// that empties the queue runs or the caller has to do that.
func TestFloodLeavesTogether(t *testing.T) {
	for _, starved := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newConn(false)
			// Time passes only while nobody can write, and a batch takes time to leave.
			// So the batches do not depend on which goroutine gets to run.
			c.link.delay = func() time.Duration { return time.Nanosecond }
			if starved {
				c.run = func() {
					time.Sleep(time.Millisecond)
					c.flush()
				}
			}
			const count = 10_000
			for range count {
				_, err := c.write([]byte("x"))
				require.NoError(t, err)
			}
			time.Sleep(time.Second)
			synctest.Wait() // also for the race detector, to which a sleep orders nothing
			c.wantInOrder(t, count)
			require.Less(t, len(c.link.sizes), count/50)
			require.True(t, c.rests > 0 || !starved)
			for _, n := range c.link.sizes {
				require.LessOrEqual(t, n, maxDatagrams)
			}
		})
	}
}

// Who writes at a measured pace after a flood is believed soon, even if the
// goroutine that empties the queue does not get to run: messages then leave in
// the caller again.
func TestFloodEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		c.run = func() {} // it never gets to run
		for range floodMax + 1 {
			c.write([]byte("x"))
		}
		require.True(t, c.flood.There())
		for i := range 24 {
			c.write([]byte("x"))
			time.Sleep(2 * floodGap)
			if c.pending != nil {
				require.LessOrEqual(t, c.Now()-c.oldest, maxAge+5*2*floodGap, "age of the queue at message %d", i)
			}
		}
		require.False(t, c.flood.There())
		require.Nil(t, c.pending)
	})
}

// Whatever writes, answers, waits and is late at a time, it leaves in the order
// of framing, and nothing that was taken is lost.
func TestOrder(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			c := newConn(seed%4 == 3)
			rng := rand.New(rand.NewPCG(seed, 1))
			delays := make([]time.Duration, 1000)
			for i := range delays {
				delays[i] = time.Duration(rng.IntN(30)) * time.Microsecond
			}
			calls := 0
			c.link.delay = func() time.Duration { calls++; return delays[calls%len(delays)] }
			var tasks sync.WaitGroup
			for i := range 6 {
				rng := rand.New(rand.NewPCG(seed, uint64(2+i)))
				tasks.Go(func() {
					for range 100 {
						switch n := rng.IntN(10); {
						case i == 0 || n == 0:
							c.answer()
						case n == 1:
							msgs := make([][]byte, rng.IntN(400))
							for j := range msgs {
								msgs[j] = make([]byte, rng.IntN(3))
							}
							if n, err := c.writeBatch(msgs...); n != len(msgs) || err != nil {
								t.Errorf("WriteBatch of %d = %d, %v", len(msgs), n, err)
							}
						case n == 2:
							time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
						case n == 3:
							c.Lock()
							if c.AcquireUnlocking(c.Patience()) == nil {
								out := new(wire.Batch)
								if err := c.ClearUnlocking(c.Patience()); err != nil {
									t.Error(err)
								}
								c.Frame(0, nil, out)
								c.TransmitUnlocking(out, c.Patience())
								c.ReleaseUnlocking(c.Patience())
							}
							c.Unlock()
						case n == 4:
							c.gather(t, rng)
						default:
							if _, err := c.write([]byte("x")); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			tasks.Wait()
			time.Sleep(time.Second)
			synctest.Wait() // also for the race detector, to which a sleep orders nothing
			c.wantInOrder(t, int(c.next))
			require.Nil(t, c.pending)
			require.False(t, c.busy || c.taken || c.Clogged())
			require.Zero(t, c.waiters)
		})
	}
}

// A Write that finds no room fails at its deadline, and all that waits fails at
// the end; what was taken before leaves when there is room.
func TestDeadlineAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		c.link.room = make(chan struct{})
		c.Lock()
		c.SetDeadline(time.Now().Add(time.Second))
		c.Unlock()
		held := make(chan error, 1)
		go func() {
			_, err := c.write([]byte("held"))
			held <- err
		}()
		synctest.Wait()
		for range maxDatagrams {
			_, err := c.write([]byte("taken"))
			require.NoError(t, err)
		}
		begin := time.Now()
		_, err := c.write([]byte("no place in the queue"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
		require.ErrorIs(t, <-held, os.ErrDeadlineExceeded)
		c.Lock()
		c.SetDeadline(time.Time{})
		c.Unlock()
		synctest.Wait() // a goroutine has taken what is in the queue
		for range maxDatagrams {
			_, err := c.write([]byte("taken"))
			require.NoError(t, err)
		}
		results := make(chan error, 5)
		for range cap(results) {
			go func() {
				_, err := c.write([]byte("waits"))
				results <- err
			}()
		}
		synctest.Wait()
		c.end(io.EOF)
		for range cap(results) {
			require.ErrorIs(t, <-results, io.ErrClosedPipe)
		}
		_, err = c.write(nil)
		require.ErrorIs(t, err, io.ErrClosedPipe)
		c.end(net.ErrClosed)
		_, err = c.writeBatch([]byte("late"))
		require.ErrorIs(t, err, net.ErrClosed)
		close(c.link.room)
		synctest.Wait()
		require.Equal(t, 2*maxDatagrams, len(c.link.sent))
	})
}

// Draining waits a while for what Writes are done with, and sends what last
// frames behind it. What only answers is given up at once.
func TestDrain(t *testing.T) {
	for _, test := range []struct {
		name        string
		taken, room bool
		want        time.Duration
	}{
		{"taken, and there is room", true, true, 0},
		{"taken, without room", true, false, linger},
		{"answers, and there is room", false, true, 0},
		{"answers, without room", false, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newConn(false)
			c.link.room = make(chan struct{})
			if !test.taken {
				c.answer()
			} else {
				go c.write([]byte("held"))
				synctest.Wait()
				c.write([]byte("taken"))
			}
			synctest.Wait()
			if test.room {
				close(c.link.room)
				synctest.Wait()
			}
			c.Lock()
			begin := time.Now()
			c.End(net.ErrClosed)
			last := c.next
			c.DrainUnlocking(func() { c.Frame(0, nil, c.Batch(0)) })
			c.Unlock()
			require.Equal(t, test.want, time.Since(begin), test.name)
			synctest.Wait()
			require.Nil(t, c.pending, test.name)
			if test.room {
				require.Equal(t, last, c.link.sent[len(c.link.sent)-1], test.name)
			}
		})
	}
}

// Answers do not wait for room, are bounded, and make the other side's writer
// wait while many have not left.
func TestAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		c.link.room = make(chan struct{})
		begin, count := time.Now(), 0
		c.answer()
		synctest.Wait() // a goroutine has taken the first
		for c.answer() {
			count++
			c.Lock()
			many, clogged := c.pending.Len() > answerRoom, c.Clogged()
			c.Unlock()
			require.Equal(t, many, clogged)
		}
		require.Equal(t, maxAnswers, count)
		require.Zero(t, time.Since(begin))
		cancel := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(cancel) })
		require.ErrorIs(t, c.WaitUnclogged(cancel), os.ErrDeadlineExceeded)
		result := make(chan error)
		for range 2 {
			go func() { result <- c.WaitUnclogged(nil) }()
		}
		synctest.Wait()
		close(c.link.room)
		require.NoError(t, <-result)
		require.NoError(t, <-result)
		synctest.Wait()
		c.wantInOrder(t, 1+maxAnswers)
		c.clogged.Store(true)
		go func() { result <- c.WaitUnclogged(nil) }()
		synctest.Wait()
		c.end(io.EOF)
		require.ErrorIs(t, <-result, net.ErrClosed)
	})
}

// An error that ends the connection below reaches the Write whose message met
// it, or a later one, once.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		c.link.broken = io.ErrUnexpectedEOF
		_, err := c.write([]byte("x"))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		n, err := c.writeBatch([]byte("x"), nil, []byte("y"))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Zero(t, n)
		c.answer()
		c.link.broken = nil
		_, err = c.write([]byte("is told"))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		_, err = c.write([]byte("goes on"))
		require.NoError(t, err)
	})
}

// What cannot be framed leaves nothing behind.
func TestNotFramed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		_, err := c.write(make([]byte, 1201))
		require.Equal(t, errLarge, err)
		n, err := c.writeBatch([]byte("x"), make([]byte, 1201), []byte("y"))
		require.Equal(t, errLarge, err)
		require.Equal(t, 1, n)
		for range floodMax {
			c.write([]byte("x"))
		}
		synctest.Wait()
		c.no = errors.New("no memory")
		_, err = c.write([]byte("x")) // would be the first of the queue
		require.Equal(t, c.no, err)
		require.Nil(t, c.pending)
		time.Sleep(time.Second)
		_, err = c.write([]byte("x"))
		require.Equal(t, c.no, err)
		c.wantInOrder(t, 1+floodMax)
	})
}

// A Write to a connection without room waits for it, others wait for their
// turn, and what receiving has to say waits for neither.
func TestWriteWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(true)
		c.link.room = make(chan struct{})
		results := make(chan error, 4)
		for range cap(results) {
			go func() {
				_, err := c.writeBatch([]byte("x"), nil, []byte("y"))
				results <- err
			}()
		}
		synctest.Wait()
		require.Empty(t, c.extra.turn)
		require.False(t, c.busy)
		close(c.link.room)
		for range cap(results) {
			require.NoError(t, <-results)
		}
		c.wantInOrder(t, 2*cap(results))
		c.link.room = make(chan struct{})
		c.Lock()
		c.SetDeadline(time.Now().Add(time.Second))
		c.Unlock()
		_, err := c.write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Len(t, c.extra.turn, 1)
	})
}

// To write costs no allocation, straight out and in floods.
func TestNoAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	c := newConn(false)
	msg := make([]byte, 100)
	c.link.sent = make([]uint64, 0, 1<<20)
	c.link.sizes = make([]int, 0, 1<<20)
	for range 1000 {
		c.write(msg)
	}
	if n := testing.AllocsPerRun(2000, func() { c.write(msg) }); n > 0 {
		t.Errorf("%v allocations for a message of a flood", n)
	}
	if n := testing.AllocsPerRun(50, func() {
		time.Sleep(time.Until(time.Now().Add(100 * time.Microsecond)))
		c.write(msg)
	}); n > 0 {
		t.Errorf("%v allocations for a message at a pace", n)
	}
	for done := false; !done; time.Sleep(time.Millisecond) {
		c.Lock()
		done = c.pending == nil && !c.busy
		c.Unlock()
	}
}

// A Write of a flood joins what only receiving has to say; from then on that is
// given time to leave at the end.
func TestFloodTakes(t *testing.T) {
	c := newConn(false)
	c.run = func() {} // it never gets to run
	for range floodMax {
		c.flood.Note(0)
	}
	c.Frame(0, nil, c.Batch(0))
	c.no = errLarge
	_, err := c.write([]byte("x"))
	require.ErrorIs(t, err, errLarge)
	require.False(t, c.taken)
	c.no = nil
	id, err := c.write([]byte("x"))
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
	require.True(t, c.taken)
	require.Equal(t, 2, c.pending.Len())
	require.Empty(t, c.link.sent)
}
