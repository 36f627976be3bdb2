package serve

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
)

// A toy is a connection whose messages a test puts into it.
type toy struct {
	seat Seat[*toy]

	mu   sync.Mutex
	msgs []string
	err  error
}

func (c *toy) Conn() *toy        { return c }
func (c *toy) Seat() *Seat[*toy] { return &c.seat }

func (c *toy) Next(dst []byte) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.msgs) == 0 {
		return dst, false, c.err
	}
	m := c.msgs[0]
	c.msgs = c.msgs[1:]
	return append(dst, m...), true, nil
}

func (c *toy) receive(msgs ...string) {
	c.mu.Lock()
	c.msgs = append(c.msgs, msgs...)
	c.mu.Unlock()
	c.seat.Received(c)
}

func (c *toy) end(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	c.seat.Ended(c)
}

// A reader is the reader of a socket.
type reader struct{ runners []datagram.Runner }

func (r *reader) AfterRead(x datagram.Runner) {
	if !slices.Contains(r.runners, x) {
		r.runners = append(r.runners, x)
	}
}

func (r *reader) drained() {
	for _, x := range r.runners {
		x.Run()
	}
	r.runners = nil
}

// A diary is a Handler.
type diary struct {
	mu  sync.Mutex
	log []string
}

func (d *diary) note(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, s)
}

func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	log := d.log
	d.log = nil
	return log
}

func (d *diary) handler() Handler[*toy] {
	return Handler[*toy]{
		Open:    func(*toy) { d.note("open") },
		Message: func(_ *toy, msg []byte) { d.note(string(msg)) },
		Closed:  func(_ *toy, err error) { d.note(err.Error()) },
	}
}

var errBusy = errors.New("busy")

func start(t *testing.T, h Handler[*toy], polled bool, after datagram.AfterReader, conns ...*toy) *Server[*toy] {
	t.Helper()
	s := new(Server[*toy])
	s.Init()
	err := s.Start(h, polled, errBusy, func() (list []Conn[*toy], ok bool) {
		for _, c := range conns {
			list = append(list, c)
		}
		return list, true
	}, func(Conn[*toy]) datagram.AfterReader { return after })
	require.NoError(t, err)
	return s
}

// The handler runs after the packets at hand, and learns of each thing once.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		r := new(reader)
		early := &toy{msgs: []string{"early"}}
		s := start(t, d.handler(), false, r, early)
		synctest.Wait()
		require.Equal(t, []string{"open", "early"}, d.take(), "on a goroutine, since no packet comes")
		early.receive("a")
		early.receive("b")
		require.Empty(t, d.take())
		r.drained()
		require.Equal(t, []string{"a", "b"}, d.take())
		c := &toy{msgs: []string{"last"}}
		require.True(t, s.On())
		s.Adopt(c, r)
		c.end(io.EOF)
		synctest.Wait()
		require.Equal(t, []string{"open", "last", "EOF"}, d.take())
		c.end(io.EOF)
		c.receive("late")
		r.drained()
		synctest.Wait()
		require.Empty(t, d.take(), "after the end")
		require.Same(t, early.seat.Loop(), c.seat.Loop(), "one for a socket")

		// Without a reader that calls back, a goroutine does.
		other := new(toy)
		s.Adopt(other, nil)
		synctest.Wait()
		other.receive("x")
		synctest.Wait()
		require.Equal(t, []string{"open", "x"}, d.take())
		require.NotSame(t, early.seat.Loop(), other.seat.Loop())

		require.Equal(t, errBusy, s.Start(d.handler(), false, errBusy, nil, nil))
		require.Equal(t, errBusy, s.Start(d.handler(), true, errBusy, nil, nil))
		s.Stop()
		s.Stop()
		s.Wait()
		var closed Server[*toy]
		require.Equal(t, net.ErrClosed, closed.Start(d.handler(), false, errBusy, func() ([]Conn[*toy], bool) { return nil, false }, nil))
		require.False(t, closed.On())
		unserved := new(toy)
		unserved.receive("x")
		unserved.end(io.EOF)
		unserved.seat.Flush()
		require.Nil(t, unserved.seat.Loop())
	})
}

// A polled Server calls the handler within Poll only, the newest one.
func TestServerPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var old, d diary
		r := new(reader)
		c := new(toy)
		s := start(t, old.handler(), true, r, c)
		c.receive("a")
		r.drained()
		c.end(io.EOF)
		synctest.Wait()
		require.Empty(t, old.take())
		require.NoError(t, s.Start(d.handler(), true, errBusy, nil, nil))
		s.Poll()
		require.Equal(t, []string{"open", "a", "EOF"}, d.take())
		require.Empty(t, old.take())
		require.Equal(t, errBusy, s.Start(d.handler(), false, errBusy, nil, nil))
	})
}

// What comes while the handler runs is handed over by the goroutine that runs it.
func TestLoopRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		r := new(reader)
		a, b := new(toy), new(toy)
		h := d.handler()
		inside := 0
		h.Message = func(c *toy, msg []byte) {
			inside++
			require.Equal(t, 1, inside)
			d.note(string(msg))
			if string(msg) == "a" {
				b.receive("b")
				c.receive("again")
				r.drained() // as another goroutine might
				c.seat.Loop().wake()
				_, ok := c.seat.Loop().Join()
				require.True(t, ok)
				c.seat.Loop().Leave(c.seat.Loop().opened)
			}
			inside--
		}
		start(t, h, false, r, a, b)
		synctest.Wait()
		d.take()
		_, ok := a.seat.Loop().Join()
		require.False(t, ok, "no handler runs")
		a.receive("a")
		r.drained()
		synctest.Wait()
		require.Equal(t, []string{"a", "again", "b"}, d.take())
	})
}
