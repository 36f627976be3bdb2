package datagram

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A messageConn is a net.Conn of the application's. What is written to it waits while
// it is held.
type messageConn struct {
	net.Conn
	read func(b []byte) (int, error)

	mu        sync.Mutex
	held      chan struct{} // nil: it is not
	inside    int
	most      int // Writes at a time
	got       []string
	fails     func(n int) error // of Write number n; may be nil
	deadlines int               // times that one was taken back
	closed    bool
}

func (c *messageConn) LocalAddr() net.Addr  { return nil }
func (c *messageConn) RemoteAddr() net.Addr { return testAddr("there") }

func (c *messageConn) Read(b []byte) (int, error) { return c.read(b) }

func (c *messageConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.inside++
	c.most = max(c.most, c.inside)
	held := c.held
	c.mu.Unlock()
	if held != nil {
		<-held
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
	n := len(c.got)
	c.got = append(c.got, string(b))
	if c.fails != nil {
		return 0, c.fails(n)
	}
	return len(b), nil
}

func (c *messageConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
func (c *messageConn) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		c.deadlines++
	}
	return nil
}

func (c *messageConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *messageConn) written() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// hold makes Writes wait until let is called.
func (c *messageConn) hold() (let func()) {
	held := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	return func() {
		c.mu.Lock()
		c.held = nil
		c.mu.Unlock()
		close(held)
	}
}

// A Foreign takes back what deadline the application had set, does not know what the
// connection does not tell, and has its writers wait.
func TestForeignIs(t *testing.T) {
	inner := new(messageConn)
	c := NewForeign(inner, 1000, 2000)
	require.Equal(t, 1, inner.deadlines)
	require.Equal(t, "unknown unknown", c.LocalAddr().Network()+" "+c.LocalAddr().String())
	require.Equal(t, testAddr("there"), c.RemoteAddr())
	require.Equal(t, 1000, c.MaxDatagram())
	require.True(t, c.Features().Waits)
	require.False(t, c.Features().Lossless)
	require.NotNil(t, c.Features().Linger)
	require.NoError(t, c.Close())
	require.True(t, inner.closed)
}

// What a read gives is a datagram, also one that was cut; an error is one with whatever
// else it gives. The buffer holds one byte more than the largest datagram, and a record
// of TLS at least.
func TestForeignReads(t *testing.T) {
	for _, test := range []struct {
		n    int
		err  error
		want int // -1: the error
	}{
		{5, nil, 5},
		{0, nil, 0},
		{5, io.ErrShortBuffer, 5},
		{5, fmt.Errorf("cut: %w", io.ErrShortBuffer), 5},
		{0, io.ErrShortBuffer, -1},
		{5, io.EOF, -1},
		{0, syscall.ECONNREFUSED, -1},
		{0, os.ErrDeadlineExceeded, -1},
	} {
		inner := &messageConn{read: func(b []byte) (int, error) { return copy(b, "hello"[:test.n]), test.err }}
		s := newConnSocket(inner, 1000, 1000)
		ps := make([]socket.Packet, 2)
		n, err := s.ReadBatch(ps)
		if test.want < 0 {
			require.Equal(t, test.err, err)
			require.Zero(t, n)
			require.Equal(t, test.err == os.ErrDeadlineExceeded, inner.deadlines == 1, "it is taken back")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, "hello"[:test.want], string(ps[0].Buf))
		require.Zero(t, inner.deadlines)
	}
	for largest, want := range map[int]int{1000: 16385, 16384: 16385, 16385: 16386, 60000: 60001} {
		var got int
		inner := &messageConn{read: func(b []byte) (int, error) { got = len(b); return 1, nil }}
		_, err := newConnSocket(inner, largest, 1000).ReadBatch(make([]socket.Packet, 1))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// What is written leaves in order, one datagram a Write and one at a time, and writers
// do not wait for it.
func TestForeignWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := new(messageConn)
		let := inner.hold()
		c := NewForeign(inner, 1000, 1000)
		var want []string
		for round := range 5 {
			var b wire.Batch
			for i := range 4 { // the first three are a run
				d := fmt.Sprint("datagram ", round, i, "!"[:i/3])
				want = append(want, d)
				b.Append([]byte(d))
			}
			require.NoError(t, c.WriteBatch(&b))
			synctest.Wait()
		}
		require.Empty(t, inner.written())
		let()
		synctest.Wait()
		require.Equal(t, want, inner.written())
		require.NoError(t, write(c, "again"))
		synctest.Wait()
		require.Equal(t, append(want, "again"), inner.written())
		require.Equal(t, 1, inner.most)
		require.NoError(t, c.Close())
		require.Equal(t, net.ErrClosed, write(c, "late"))
		require.Len(t, inner.written(), len(want)+1)
		require.EqualValues(t, 1, c.Stats().WriteErrors)
	})
}

// A promptConn is a messageConn that says that its Write never waits.
type promptConn struct{ messageConn }

func (*promptConn) NeverWaits() {}

// A connection whose Write never waits gets the datagrams from the writer itself, and a
// later writer its error.
func TestForeignPrompt(t *testing.T) {
	inner := new(promptConn)
	c := NewForeign(inner, 1000, 1000)
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint("datagram ", i))
		require.NoError(t, write(c, want[i]))
		require.Equal(t, want, inner.written())
	}
	inner.fails = func(n int) error {
		if n == 100 {
			return net.ErrClosed
		}
		return nil
	}
	require.NoError(t, write(c, "fails"))
	require.Equal(t, net.ErrClosed, c.WaitWritable(1, nil))
	require.NoError(t, c.WaitWritable(1, nil))
	require.EqualValues(t, 1, c.Stats().WriteErrors)
	require.NoError(t, c.Close())
	require.Equal(t, net.ErrClosed, write(c, "late"))
	require.Len(t, inner.written(), 101)
}

// A readableConn is a promptConn that is read from a channel.
type readableConn struct {
	promptConn
	in  chan string
	cut chan struct{} // closed while the deadline has passed
}

func (c *readableConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	select {
	case s := <-c.in:
		return copy(b, s), nil
	case <-cut:
		return 0, os.ErrDeadlineExceeded
	}
}

func (c *readableConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Equal(past) {
		close(c.cut)
	} else {
		c.cut = make(chan struct{})
	}
	return nil
}

func (c *readableConn) Close() error { return c.SetReadDeadline(past) }

type kickedReaders struct {
	noReaders
	kick chan struct{}
}

func (r *kickedReaders) Kick() { signal(r.kick) }

// A connection whose Write never waits is read by a caller of Read. When none has come back
// for 5 ms a goroutine reads, up to 20 ms late.
func TestForeignPromptReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &readableConn{in: make(chan string, 10), cut: make(chan struct{})}
		c := NewForeign(inner, 1000, 1000)
		h := new(fakeHandler)
		require.NoError(t, c.Attach(h))
		synctest.Wait()
		c.Schedule(time.Now().Add(time.Hour)) // as all connections do, for their idle timeout
		r := &kickedReaders{kick: make(chan struct{}, 1)}
		var d deadline.Deadline
		require.False(t, c.ReadInline(&d, r)) // the goroutine makes place
		<-r.kick
		for i := range 5 {
			time.AfterFunc(time.Second/60, func() { inner.in <- fmt.Sprint(i) })
			require.True(t, c.ReadInline(&d, r))
			require.Len(t, h.received(), i+1)
		}
		begin := time.Now()
		inner.in <- "late"
		until(begin, 25*time.Millisecond-1)
		require.Len(t, h.received(), 5)
		until(begin, 25*time.Millisecond)
		require.Len(t, h.received(), 6)
		inner.in <- "later"
		synctest.Wait()
		require.Len(t, h.received(), 7)
		require.NoError(t, c.Close())
	})
}

// Writers have room while less than 64 KiB wait. Beyond twice that, with what they may
// write between two calls of WaitWritable, datagrams are lost, and counted.
func TestForeignRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := new(messageConn)
		let := inner.hold()
		c := NewForeign(inner, 1000, 300)
		require.NoError(t, write(c, "on its way"))
		synctest.Wait()
		room := func() bool {
			cancel := make(chan struct{})
			close(cancel)
			for range 10 { // the token and cancel may both be there
				if c.WaitWritable(1, cancel) == nil {
					return true
				}
			}
			return false
		}
		require.NoError(t, write(c, string(make([]byte, 64<<10-1))))
		require.True(t, room())
		require.NoError(t, write(c, "x"))
		require.False(t, room())

		var waiters sync.WaitGroup
		for range 3 {
			waiters.Go(func() {
				if err := c.WaitWritable(1, nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		const limit = 2 * (64<<10 + 300)
		require.NoError(t, write(c, string(make([]byte, limit-64<<10-1)), "x", "lost", "lost, too"))
		require.EqualValues(t, 2, c.Stats().WriteErrors)
		let()
		waiters.Wait()
		synctest.Wait()
		sizes := 0
		for _, d := range inner.written() {
			sizes += len(d)
		}
		require.Equal(t, len("on its way")+limit, sizes)
		require.True(t, room())
		require.NoError(t, c.Close())
	})
}

// An error that passes is counted; of others the first is told to who waits for room
// next, once, and what is behind it is tried all the same.
func TestForeignWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, worse := errors.New("broken"), errors.New("worse")
		inner := &messageConn{fails: func(n int) error {
			return []error{nil, syscall.ENOBUFS, broken, worse, nil, worse}[n]
		}}
		c := NewForeign(inner, 1000, 1000)
		require.NoError(t, write(c, "0", "1"))
		synctest.Wait()
		require.EqualValues(t, 1, c.Stats().WriteErrors)
		require.NoError(t, c.WaitWritable(1, nil))
		require.NoError(t, write(c, "2", "3", "4"))
		synctest.Wait()
		require.EqualValues(t, 3, c.Stats().WriteErrors)
		require.Equal(t, broken, c.WaitWritable(1, nil))
		require.NoError(t, c.WaitWritable(1, nil))
		require.NoError(t, write(c, "5"))
		synctest.Wait()
		require.Equal(t, worse, c.WaitWritable(1, nil))
		require.Len(t, inner.written(), 6)
		require.NoError(t, c.Close())
	})
}

// Close waits 100 ms for what has been written, and not at all if there is nothing, and
// ends the waiting of others at once.
func TestForeignCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			early    bool // something has been sent before
			let      time.Duration
			want     time.Duration
			leftOver bool
		}{
			{false, 0, 0, false},
			{true, 0, 0, false},
			{false, 99 * time.Millisecond, 99 * time.Millisecond, false},
			{true, 99 * time.Millisecond, 99 * time.Millisecond, false},
			{true, time.Second, 100 * time.Millisecond, true},
		} {
			inner := new(messageConn)
			c := NewForeign(inner, 1000, 1000)
			if test.early {
				require.NoError(t, write(c, "early"))
				synctest.Wait()
			}
			var let func()
			if test.let > 0 {
				let = inner.hold()
				require.NoError(t, write(c, "x"))
				synctest.Wait()
				time.AfterFunc(test.let, let)
				require.NoError(t, write(c, string(make([]byte, 64<<10))))
			}
			waiter := make(chan error, 1)
			go func() { waiter <- c.WaitWritable(1, nil) }()
			synctest.Wait()
			begin := time.Now()
			closed := make(chan struct{})
			go func() {
				c.Close()
				close(closed)
			}()
			synctest.Wait()
			require.Len(t, waiter, 1, "whoever waits for room learns of the end at once")
			if err := <-waiter; test.let > 0 {
				require.Equal(t, net.ErrClosed, err)
			}
			<-closed
			require.Equal(t, test.want, time.Since(begin), "%+v", test)
			if test.let > 0 {
				require.Equal(t, test.leftOver, len(inner.written()) < 2)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
	})
}
