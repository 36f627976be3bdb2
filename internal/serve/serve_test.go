package serve

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/outbox"
)

// A toy is a connection whose messages a test puts into it.
type toy struct {
	seat  Seat[*toy]
	below below

	before Late

	mu   sync.Mutex
	msgs []string
	err  error
}

func (c *toy) Conn() *toy           { return c }
func (c *toy) Adopted(late Late)    { c.before = late }
func (c *toy) Below() datagram.Conn { return c.below }
func (c *toy) Seat() *Seat[*toy]    { return &c.seat }

func (c *toy) Waiting() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.msgs {
		n += len(m) + 4
	}
	return n
}

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

// A below is the connection below a toy.
type below struct {
	datagram.Conn
	after datagram.AfterReader
}

func (b below) Features() datagram.Features { return datagram.Features{After: b.after} }

// A source is a listener that makes connections when a test says so.
type source struct {
	listen.Source[*toy] // nil: whatever is not needed panics

	closed, over bool
	done         chan struct{}
	waiting      []*toy
	take         func(*toy)
}

func (s *source) Addr() net.Addr         { return &net.UDPAddr{Port: 7} }
func (s *source) Done() <-chan struct{}  { return s.done }
func (s *source) Muxes() []*datagram.Mux { return nil }
func (s *source) Over() bool             { return s.over }
func (s *source) Divert(_ error, take func(*toy)) bool {
	for _, c := range s.waiting {
		take(c)
	}
	s.take = take
	return !s.closed
}

func newServer(src *source) *Server[*toy] {
	src.done = make(chan struct{})
	s := new(Server[*toy])
	s.Init(src, func(c *toy) Conn[*toy] { return c }, 0)
	return s
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

// The handler runs after the packets at hand, and learns of each thing once.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		r := new(reader)
		early := &toy{below: below{after: r}, msgs: []string{"early"}}
		src := &source{waiting: []*toy{early}}
		s := newServer(src)
		ended := make(chan error)
		go func() { ended <- s.Serve(d.handler()) }()
		synctest.Wait()
		require.Equal(t, []string{"open", "early"}, d.take(), "on a goroutine, since no packet comes")
		early.receive("a")
		early.receive("b")
		require.Empty(t, d.take())
		r.drained()
		require.Equal(t, []string{"a", "b"}, d.take())
		c := &toy{below: below{after: r}, msgs: []string{"last"}}
		src.take(c)
		c.end(io.EOF)
		synctest.Wait()
		require.Equal(t, []string{"open", "last", "EOF"}, d.take())
		c.end(io.EOF)
		c.receive("late")
		r.drained()
		synctest.Wait()
		require.Empty(t, d.take(), "after the end")
		require.Same(t, early.seat.loop.Load(), c.seat.loop.Load(), "one for a socket")

		// Without a reader that calls back, a goroutine does.
		other := new(toy)
		src.take(other)
		synctest.Wait()
		other.receive("x")
		synctest.Wait()
		require.Equal(t, []string{"open", "x"}, d.take())
		require.NotSame(t, early.seat.loop.Load(), other.seat.loop.Load())

		require.ErrorIs(t, s.Serve(d.handler()), ErrServed)
		require.ErrorIs(t, s.Poll(d.handler()), ErrServed)
		require.ErrorIs(t, s.Serve(Handler[*toy]{}), ErrNoMessage)
		close(src.done)
		require.ErrorIs(t, <-ended, net.ErrClosed)
	})
}

func TestServerClosedBefore(t *testing.T) {
	var d diary
	s := newServer(&source{closed: true})
	require.ErrorIs(t, s.Serve(d.handler()), net.ErrClosed)
	require.ErrorIs(t, s.Poll(d.handler()), net.ErrClosed)
	unserved := new(toy)
	unserved.receive("x")
	unserved.end(io.EOF)
	unserved.seat.Flush()
	require.False(t, unserved.seat.Taken())
	require.False(t, unserved.seat.Write(nil))
}

// A polled Server calls the handler within Poll only, the newest one.
func TestServerPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var old, d diary
		r := new(reader)
		c := &toy{below: below{after: r}}
		src := new(source)
		s := newServer(src)
		require.NoError(t, s.Poll(old.handler()))
		src.take(c)
		c.receive("a")
		r.drained()
		c.end(io.EOF)
		synctest.Wait()
		require.Empty(t, old.take())
		require.NoError(t, s.Poll(d.handler()))
		require.Equal(t, []string{"open", "a", "EOF"}, d.take())
		require.Empty(t, old.take())
		require.ErrorIs(t, s.Serve(d.handler()), ErrServed)
		src.over = true
		require.ErrorIs(t, s.Poll(d.handler()), net.ErrClosed)
	})
}

// A connection that ends while Poll runs is told of by the next call, and the end of all later.
func TestEndWhilePollRuns(t *testing.T) {
	var d diary
	a, b := new(toy), &toy{msgs: []string{"b"}}
	src := &source{waiting: []*toy{a, b}}
	h := d.handler()
	h.Message = func(*toy, []byte) {
		a.end(io.EOF)
		src.over = true
	}
	s := newServer(src)
	require.NoError(t, s.Poll(h))
	require.Equal(t, []string{"open", "open"}, d.take())
	require.ErrorIs(t, s.Poll(h), net.ErrClosed)
	require.Equal(t, []string{"EOF"}, d.take())
}

// A handler that takes long, of a client that sends without a pause, keeps neither the messages of
// others back nor Poll.
func TestBusyClient(t *testing.T) {
	for _, polled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := new(reader)
			busy, calm := &toy{below: below{after: r}}, &toy{below: below{after: r}}
			src := &source{waiting: []*toy{busy, calm}}
			s := newServer(src)
			took, more := 0, true
			served := make(chan int, 1)
			h := Handler[*toy]{Message: func(c *toy, _ []byte) {
				switch {
				case c == calm:
					served <- took
					more = polled
				case more && took < 1e5:
					took++
					busy.receive("") // while the handler waits
				}
			}}
			if !polled {
				go s.Serve(h)
				synctest.Wait()
				defer close(src.done)
			}
			busy.receive("", "", "")
			calm.receive("")
			if polled {
				require.NoError(t, s.Poll(h))
				require.LessOrEqual(t, took, 3*4)
				require.GreaterOrEqual(t, took, 3)
				before := took
				require.NoError(t, s.Poll(h))
				require.Greater(t, took, before, "the next call goes on")
			} else {
				r.drained()
				synctest.Wait()
			}
			require.LessOrEqual(t, <-served, turn)
		})
	}
}

// All messages are handed over, turn by turn, and then the end.
func TestManyTurns(t *testing.T) {
	for _, n := range []int{turn - 1, turn, turn + 1, 3 * turn} {
		for _, polled := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				c := &toy{msgs: make([]string, n), err: io.EOF}
				src := &source{waiting: []*toy{c}}
				s := newServer(src)
				if polled {
					for range 2 {
						require.NoError(t, s.Poll(d.handler()))
					}
				} else {
					defer close(src.done)
					go s.Serve(d.handler())
					synctest.Wait()
				}
				got := d.take()
				require.Len(t, got, n+2)
				require.Equal(t, "EOF", got[n+1])
			})
		}
	}
}

// What comes while the handler runs is handed over by the goroutine that runs it.
func TestLoopRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		r := new(reader)
		a, b := &toy{below: below{after: r}}, &toy{below: below{after: r}}
		h := d.handler()
		inside := 0
		written := 0
		write := func(*datagram.Gathering, time.Time) outbox.Gathered {
			written++
			return outbox.Framed
		}
		h.Message = func(c *toy, msg []byte) {
			inside++
			require.Equal(t, 1, inside)
			d.note(string(msg))
			if string(msg) == "a" {
				b.receive("b")
				c.receive("again")
				r.drained() // as another goroutine might
				c.seat.loop.Load().wake()
				require.True(t, c.seat.Write(write))
			}
			inside--
		}
		src := &source{waiting: []*toy{a, b}}
		go newServer(src).Serve(h)
		synctest.Wait()
		d.take()
		require.False(t, a.seat.Write(write), "no handler runs")
		a.receive("a")
		r.drained()
		synctest.Wait()
		require.Equal(t, []string{"a", "again", "b"}, d.take())
		require.Equal(t, 1, written)
		close(src.done)
	})
}

// A datagram that finds no room is tried once more, when the pass itself has left.
func TestWriteBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &toy{msgs: []string{"a"}}
		src := &source{waiting: []*toy{c}}
		tries := 0
		go newServer(src).Serve(Handler[*toy]{Message: func(*toy, []byte) {
			require.False(t, c.seat.Write(func(*datagram.Gathering, time.Time) outbox.Gathered {
				tries++
				return outbox.Blocked
			}))
		}})
		synctest.Wait()
		require.Equal(t, 2, tries)
		close(src.done)
	})
}

// It is measured how long the handler takes, also while it does.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &toy{msgs: []string{"a"}}
		src := &source{waiting: []*toy{c}}
		take := LateAfter - 1
		go newServer(src).Serve(Handler[*toy]{Message: func(*toy, []byte) { time.Sleep(take) }})
		time.Sleep(time.Second)
		require.Zero(t, c.seat.Late())
		take = LateAfter
		c.receive("b")
		time.Sleep(time.Second)
		require.Equal(t, Late{1, LateAfter}, c.seat.Late())
		take = time.Minute
		c.receive("c")
		time.Sleep(time.Second)
		require.Equal(t, Late{2, time.Second + LateAfter}, c.seat.Late())
		later := new(toy)
		synctest.Wait()
		src.take(later)
		require.Equal(t, c.seat.Late(), later.before)
		time.Sleep(time.Minute)
		require.Equal(t, Late{2, time.Minute + LateAfter}, c.seat.Late())
		close(src.done)
	})
}
