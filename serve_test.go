package volley

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/internal/serve"
	"volley/internal/testenv"
	"volley/simnet"
)

// A recorder is a Handler that echoes and writes down what it is told.
type recorder struct {
	mu  sync.Mutex
	log map[string][]string // by remote address
	err error
}

func (r *recorder) note(c *Conn, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		r.log = make(map[string][]string)
	}
	addr := c.RemoteAddr().String()
	r.log[addr] = append(r.log[addr], what)
}

func (r *recorder) of(addr net.Addr) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log[addr.String()])
}

func (r *recorder) handler() Handler {
	return Handler{
		Open: func(c *Conn) { r.note(c, "open") },
		Message: func(c *Conn, msg []byte) {
			r.note(c, string(msg))
			if _, err := c.Write(msg); err != nil {
				r.note(c, err.Error())
			}
		},
		Closed: func(c *Conn, err error) {
			r.note(c, "closed")
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
		},
	}
}

// servers are the two ways to run a Handler. Each returns what ends it.
var servers = []struct {
	name string
	run  func(l *Listener, h Handler) (wait func() error)
}{
	{"Serve", func(l *Listener, h Handler) func() error {
		done := make(chan error, 1)
		go func() { done <- l.Serve(h) }()
		return func() error { return <-done }
	}},
	{"Poll", func(l *Listener, h Handler) func() error {
		done := make(chan error, 1)
		go func() {
			for {
				if err := l.Poll(h); err != nil {
					done <- err
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
		return func() error { return <-done }
	}},
}

// eachServer runs a test with Serve and with Poll.
func eachServer(t *testing.T, f func(t *testing.T, run func(*Listener, Handler) func() error)) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) { f(t, s.run) })
	}
}

func say(t *testing.T, c *Conn, msg string) {
	t.Helper()
	_, err := c.Write([]byte(msg))
	require.NoError(t, err)
}

func hear(t *testing.T, c *Conn, want string) {
	t.Helper()
	buf := make([]byte, 2000)
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, err := c.Read(buf)
	require.NoError(t, err)
	require.Equal(t, want, string(buf[:n]))
}

// A handler learns of the beginning, each message and the end of a connection, in
// this order, and may answer.
func TestServeCallsHandler(t *testing.T) {
	eachServer(t, func(t *testing.T, run func(*Listener, Handler) func() error) {
		synctest.Test(t, func(t *testing.T) {
			_, l, dial := network(t, &ListenConfig{})
			r := new(recorder)
			wait := run(l, r.handler())
			var clients []*Conn
			for i := range 20 {
				c := dial(fmt.Sprintf("10.0.1.%d:0", i), &Dialer{})
				clients = append(clients, c)
				say(t, c, "one")
				hear(t, c, "one")
				say(t, c, "two")
				hear(t, c, "two")
			}
			require.Equal(t, 20, len(slices.Collect(l.Conns())))
			for _, c := range clients {
				require.Equal(t, []string{"open", "one", "two"}, r.of(c.LocalAddr()))
				c.Close()
			}
			time.Sleep(2 * defaultIdleTimeout)
			synctest.Wait()
			for _, c := range clients {
				require.Equal(t, []string{"open", "one", "two", "closed"}, r.of(c.LocalAddr()))
			}
			require.ErrorIs(t, r.err, io.EOF)
			require.Zero(t, l.Stats().Conns)
			require.NoError(t, l.Close())
			require.ErrorIs(t, wait(), net.ErrClosed)
		})
	})
}

// Connections that wait for Accept are served as well; those that were accepted
// are not. Accept ends.
func TestServeTakesBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{})
		a, b := dial("10.0.1.1:0", &Dialer{}), dial("10.0.1.2:0", &Dialer{})
		say(t, a, "a")
		mine := accept(t, l)
		say(t, b, "b")
		time.Sleep(time.Second)
		l.SetDeadline(time.Time{})
		accepts := make(chan error)
		go func() {
			_, err := l.Accept() // takes b
			accepts <- err
			_, err = l.Accept()
			accepts <- err
		}()
		require.NoError(t, <-accepts)
		c := dial("10.0.1.3:0", &Dialer{})
		synctest.Wait()
		r := new(recorder)
		go l.Serve(r.handler())
		require.ErrorIs(t, <-accepts, serve.ErrServed)
		say(t, c, "c")
		hear(t, c, "c")
		hear(t, mine, "a")
		require.Empty(t, r.of(a.LocalAddr()))
		require.ErrorIs(t, l.Serve(r.handler()), serve.ErrServed)
		require.ErrorIs(t, l.Poll(r.handler()), serve.ErrServed)
		require.ErrorContains(t, l.Serve(Handler{}), "Handler.Message is nil")
		for _, c := range []*Conn{a, b, c, mine} {
			c.Close()
		}
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Serve(r.handler()), serve.ErrServed)
	})
}

func TestServeAfterClose(t *testing.T) {
	l, err := Listen("udp", loopback.Addr())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Serve(Handler{Message: func(*Conn, []byte) {}}), net.ErrClosed)
	require.ErrorIs(t, l.Poll(Handler{Message: func(*Conn, []byte) {}}), net.ErrClosed)
}

// The handler may close its own connection, and others. Closed is called for each,
// once, after the handler's call.
func TestServeHandlerCloses(t *testing.T) {
	eachServer(t, func(t *testing.T, run func(*Listener, Handler) func() error) {
		synctest.Test(t, func(t *testing.T) {
			_, l, dial := network(t, &ListenConfig{})
			r := new(recorder)
			h := r.handler()
			h.Message = func(c *Conn, msg []byte) {
				r.note(c, string(msg))
				switch string(msg) {
				case "me":
					c.Write([]byte("bye"))
					require.NoError(t, c.Close())
					_, err := c.Write([]byte("late"))
					require.ErrorIs(t, err, net.ErrClosed)
				case "others":
					for o := range l.Conns() {
						if o != c {
							o.Close()
						}
					}
				}
			}
			wait := run(l, h)
			a, b, c := dial("10.0.1.1:0", &Dialer{}), dial("10.0.1.2:0", &Dialer{}), dial("10.0.1.3:0", &Dialer{})
			for _, c := range []*Conn{a, b, c} {
				say(t, c, "hello")
			}
			time.Sleep(time.Second)
			say(t, a, "me")
			hear(t, a, "bye")
			time.Sleep(time.Second)
			require.Equal(t, []string{"open", "hello", "me", "closed"}, r.of(a.LocalAddr()))
			require.ErrorIs(t, r.err, net.ErrClosed)
			say(t, b, "others")
			time.Sleep(time.Second)
			require.Equal(t, []string{"open", "hello", "others"}, r.of(b.LocalAddr()))
			require.Equal(t, []string{"open", "hello", "closed"}, r.of(c.LocalAddr()))
			for _, c := range []*Conn{a, b, c} {
				c.Close()
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, l.Shutdown(ctx), context.Canceled)
			require.ErrorIs(t, wait(), net.ErrClosed)
			synctest.Wait()
			if got := r.of(b.LocalAddr()); len(got) > 3 {
				require.Equal(t, "closed", got[3])
			}
		})
	})
}

// What other goroutines write while the handler blocks leaves after a millisecond
// at most, and in order.
func TestServeBlockedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{})
		conns := make(chan *Conn, 1)
		release := make(chan struct{})
		go l.Serve(Handler{
			Open: func(c *Conn) { conns <- c },
			Message: func(c *Conn, msg []byte) {
				if string(msg) == "block" {
					<-release
				}
			},
		})
		c := dial("10.0.1.1:0", &Dialer{})
		say(t, c, "hello")
		served := <-conns
		say(t, c, "block")
		time.Sleep(time.Second)
		begin := time.Now()
		say(t, served, "1")
		hear(t, c, "1")
		require.Equal(t, 10*time.Millisecond, time.Since(begin))
		_, err := served.WriteBatch(nil, [][]byte{[]byte("2"), []byte("3")})
		require.NoError(t, err)
		hear(t, c, "2")
		hear(t, c, "3")
		require.NoError(t, WriteAll([]byte("4"), slices.Values([]*Conn{served})))
		hear(t, c, "4")
		close(release)
		c.Close()
		served.Close()
	})
}

// All that a handler writes leaves in one pass: at most a system call for 64
// messages, where the system has one for that.
func TestServeAnswersLeaveTogether(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("each datagram takes a system call")
	}
	eachServer(t, func(t *testing.T, run func(*Listener, Handler) func() error) {
		l, err := Listen("udp", loopback.Addr())
		require.NoError(t, err)
		defer l.Close()
		const count = 50
		begun := make(chan struct{})
		release := make(chan struct{})
		wait := run(l, Handler{Message: func(c *Conn, msg []byte) {
			switch string(msg) {
			case "block":
				begun <- struct{}{}
				<-release
			case "all":
				for o := range l.Conns() {
					if _, err := o.Write([]byte("news")); err != nil {
						t.Error(err)
					}
				}
			default:
				c.Write(msg)
			}
		}})
		var clients []*Conn
		for range count {
			c, err := Dial("udp", l.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			say(t, c, "hello")
			hear(t, c, "hello")
			clients = append(clients, c)
		}
		round := func() uint64 {
			say(t, clients[0], "block")
			<-begun
			before := l.Stats().Transport.SendCalls
			say(t, clients[1], "all")
			release <- struct{}{}
			for _, c := range clients {
				hear(t, c, "news")
			}
			return l.Stats().Transport.SendCalls - before
		}
		least := round()
		for range 20 { // acknowledgements that are late on a busy machine take calls of their own
			if least <= 10 {
				break
			}
			least = min(least, round())
		}
		require.LessOrEqual(t, least, uint64(10))
		for c := range l.Conns() {
			c.Close()
		}
		l.Close()
		require.ErrorIs(t, wait(), net.ErrClosed)
	})
}

// A served connection has no goroutine.
func TestServeHasNoGoroutines(t *testing.T) {
	eachServer(t, func(t *testing.T, run func(*Listener, Handler) func() error) {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := network(t, &ListenConfig{})
			run(l, Handler{Message: func(c *Conn, msg []byte) { c.Write(msg) }})
			pc, err := n.Listen("10.0.1.1:5000")
			require.NoError(t, err)
			before := testenv.Goroutines()
			for i := range 100 {
				inner, err := n.Dial(fmt.Sprintf("10.0.2.%d:0", i), l.Addr().String())
				require.NoError(t, err)
				c, err := (&Dialer{Config: ReferenceConfig()}).connect(inner) // which says no goodbye
				require.NoError(t, err)
				say(t, c, "hello")
				time.Sleep(50 * time.Millisecond)
				c.Close()
			}
			require.Equal(t, 100, l.Stats().Conns)
			require.LessOrEqual(t, testenv.Goroutines(), before+3)
			pc.Close()
			for c := range l.Conns() {
				c.Close()
			}
			l.Close()
			time.Sleep(time.Second)
		})
	})
}

// A call of Poll allocates nothing, with messages and without.
func TestPollAllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	l, err := Listen("udp", loopback.Addr())
	require.NoError(t, err)
	defer l.Close()
	heard := 0
	h := Handler{Message: func(c *Conn, msg []byte) {
		heard++
		c.Write(msg)
	}}
	poll := func() {
		if err := l.Poll(h); err != nil {
			t.Error(err)
		}
	}
	poll()
	require.Zero(t, testing.AllocsPerRun(100, poll))
	c, err := Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	msg, buf := []byte("a message"), make([]byte, 2000)
	round := func() {
		if _, err := c.Write(msg); err != nil {
			t.Error(err)
		}
		for before := heard; heard == before; {
			poll()
		}
		if _, err := c.Read(buf); err != nil {
			t.Error(err)
		}
	}
	for range 100 {
		round()
	}
	require.Less(t, testing.AllocsPerRun(2000, round), 1.0)
	for c := range l.Conns() {
		c.Close()
	}
}

// An echo allocates nothing.
func TestServeAllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	l, err := Listen("udp", loopback.Addr())
	require.NoError(t, err)
	defer l.Close()
	h := Handler{Message: func(c *Conn, msg []byte) { c.Write(msg) }}
	go l.Serve(h)
	c, err := Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	msg, buf := []byte("a message"), make([]byte, 2000)
	round := func() {
		if _, err := c.Write(msg); err != nil {
			t.Error(err)
		}
		if _, err := c.Read(buf); err != nil {
			t.Error(err)
		}
	}
	for range 100 {
		round()
	}
	require.Less(t, testing.AllocsPerRun(2000, round), 1.0)
	for c := range l.Conns() {
		c.Close()
	}
}

// Values belong to a connection.
func TestValue(t *testing.T) {
	a, b := Pipe(nil)
	require.Nil(t, a.Value())
	a.SetValue(7)
	require.Equal(t, 7, a.Value())
	require.Nil(t, b.Value())
	a.Close()
	require.Equal(t, 7, a.Value())
	b.Close()
}

// Everything arrives once and in its connection's order, whatever the handler and
// other goroutines do beside each other.
func TestServeUnderLoad(t *testing.T) {
	eachServer(t, func(t *testing.T, run func(*Listener, Handler) func() error) {
		synctest.Test(t, func(t *testing.T) {
			n, l, dial := network(t, &ListenConfig{})
			n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
			wait := run(l, Handler{
				Open:    func(c *Conn) { c.SetValue(new(int)) },
				Message: func(c *Conn, msg []byte) { *c.Value().(*int)++; c.Write(msg) },
			})
			var tasks sync.WaitGroup
			for i := range 30 {
				c := dial(fmt.Sprintf("10.0.1.%d:0", i), &Dialer{})
				tasks.Go(func() {
					for k := range 50 {
						c.Write(fmt.Appendf(nil, "%d", k))
						time.Sleep(time.Duration(1+i%7) * time.Millisecond)
					}
				})
				tasks.Go(func() {
					seen := 0
					buf := make([]byte, 2000)
					for {
						c.SetReadDeadline(time.Now().Add(time.Second))
						n, err := c.Read(buf)
						if err != nil {
							break
						}
						if string(buf[:n]) == "tick" {
							continue
						}
						if got := string(buf[:n]); got != fmt.Sprint(seen) {
							t.Errorf("client %d: %s, want %d", i, got, seen)
						}
						seen++
					}
					if seen != 50 {
						t.Errorf("client %d: %d of 50", i, seen)
					}
					c.Close()
				})
			}
			tasks.Go(func() {
				for range 50 {
					time.Sleep(3 * time.Millisecond)
					if err := WriteAll([]byte("tick"), l.Conns()); err != nil {
						t.Error(err)
					}
					for c := range l.Conns() {
						c.WriteBatch(nil, [][]byte{[]byte("tick"), []byte("tick")})
					}
				}
			})
			tasks.Wait()
			for c := range l.Conns() {
				require.Equal(t, 50, *c.Value().(*int))
				c.Close()
			}
			l.Close()
			require.ErrorIs(t, wait(), net.ErrClosed)
		})
	})
}

// Explain tells of a handler that blocks, and for how long, on all connections of the
// socket that were there, also while it does.
func TestExplainHandlerBlocks(t *testing.T) {
	eachServer(t, func(t *testing.T, run func(*Listener, Handler) func() error) {
		synctest.Test(t, func(t *testing.T) {
			_, l, dial := network(t, &ListenConfig{})
			served := make(chan *Conn, 3)
			run(l, Handler{
				Open: func(c *Conn) { served <- c },
				Message: func(c *Conn, msg []byte) {
					d, err := time.ParseDuration(string(msg))
					if err != nil {
						t.Error(err)
					}
					time.Sleep(d)
					c.Write(msg)
				},
			})
			blocks := func(c *Conn) (f Finding) {
				for _, f := range c.Explain().Findings {
					if f.Kind == findingHandlerBlocks {
						return f
					}
				}
				return f
			}
			a, b := dial("10.0.1.1:0", &Dialer{}), dial("10.0.1.2:0", &Dialer{})
			say(t, a, "19ms")
			hear(t, a, "19ms")
			sa := <-served
			require.Zero(t, blocks(sa))
			say(t, b, "1ms")
			hear(t, b, "1ms")
			sb := <-served
			say(t, a, "300ms")
			hear(t, a, "300ms")
			say(t, a, "10s")
			time.Sleep(time.Second)
			for _, c := range []*Conn{sa, sb} {
				f := blocks(c)
				require.EqualValues(t, 2, f.Count)
				require.InDelta(t, 1.29, f.Duration.Seconds(), 0.02)
				require.Contains(t, f.Text, "blocked 2 times")
			}
			hear(t, a, "10s")
			c := dial("10.0.1.3:0", &Dialer{})
			say(t, c, "1ms")
			hear(t, c, "1ms")
			require.Zero(t, blocks(<-served))
			time.Sleep(6 * time.Second)
			blocks(sa)
			time.Sleep(6 * time.Second)
			require.Zero(t, blocks(sa))
			for _, c := range []*Conn{a, b, c} {
				c.Close()
			}
			for c := range l.Conns() {
				c.Close()
			}
			l.Close()
			time.Sleep(time.Second)
		})
	})
}
