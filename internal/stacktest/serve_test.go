package stacktest

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/internal/serve"
	"volley/internal/testenv"
	"volley/netcode"
	"volley/simnet"
)

// A valued connection is one of any protocol that is served.
type valued interface {
	net.Conn
	SetValue(any)
	Value() any
}

// A serveHandler is a Handler of any protocol.
type serveHandler struct {
	open    func(valued)
	message func(valued, []byte)
	closed  func(valued, error)
}

// A server is a Listener of any protocol.
type server struct {
	serve, poll func(serveHandler) error
	accept      func() error
	conns       func() []net.Conn
	close       func() error
	shutdown    func(context.Context) error
	dial        func() net.Conn
}

// A servingListener is one with connections of type C and Handlers of type H.
type servingListener[C, H any] interface {
	Serve(H) error
	Poll(H) error
	AcceptConn(context.Context) (C, error)
	Conns() iter.Seq[C]
	Close() error
	Shutdown(context.Context) error
}

func serverOf[C valued, H any](t *testing.T, l servingListener[C, H], handler func(serveHandler) H, dial func() net.Conn) *server {
	return &server{
		serve: func(h serveHandler) error { return l.Serve(handler(h)) },
		poll:  func(h serveHandler) error { return l.Poll(handler(h)) },
		accept: func() error {
			_, err := l.AcceptConn(t.Context())
			return err
		},
		conns: func() (cs []net.Conn) {
			for c := range l.Conns() {
				cs = append(cs, c)
			}
			return cs
		},
		close: l.Close, shutdown: l.Shutdown, dial: dial,
	}
}

func volleyHandler(h serveHandler) volley.Handler {
	return volley.Handler{
		Open:    func(c *volley.Conn) { h.open(c) },
		Message: func(c *volley.Conn, msg []byte) { h.message(c, msg) },
		Closed:  func(c *volley.Conn, err error) { h.closed(c, err) },
	}
}

func netcodeHandler(h serveHandler) netcode.Handler {
	return netcode.Handler{
		Open:    func(c *netcode.Conn) { h.open(c) },
		Message: func(c *netcode.Conn, msg []byte) { h.message(c, msg) },
		Closed:  func(c *netcode.Conn, err error) { h.closed(c, err) },
	}
}

// A strange listener is not known to be volley's own, nor are its connections.
type strange struct{ net.Listener }

func (l strange) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{c}, nil
}

// servedStacks are the protocols that can be served, on a network of 10 ms.
var servedStacks = []struct {
	name string
	make func(t *testing.T) *server
}{
	{"volley", func(t *testing.T) *server {
		_, l, dial := network(t, &volley.ListenConfig{})
		n := 0
		return serverOf(t, l, volleyHandler, func() net.Conn {
			n++
			return dial(fmt.Sprintf("10.0.%d.%d:0", 1+n/200, 1+n%200), nil)
		})
	}},
	{"netcode", func(t *testing.T) *server {
		s := serveSessions(t)
		return serverOf(t, s.inner, netcodeHandler, func() net.Conn { return s.dial(t) })
	}},
	{"volley over netcode", func(t *testing.T) *server {
		s := serveSessions(t)
		return serverOf(t, newListener(s.inner, nil), volleyHandler, func() net.Conn { return newConn(s.dial(t), nil) })
	}},
	{"volley over strangers", func(t *testing.T) *server {
		s := serveSessions(t)
		return serverOf(t, newListener(strange{s.inner}, &volley.Config{KeepAlive: -1, IdleTimeout: -1}), volleyHandler, func() net.Conn { return newConn(s.dial(t), nil) })
	}},
}

func serveSessions(t *testing.T) *sessions {
	s := newSessions(t, simnet.Link{Latency: 10 * time.Millisecond})
	t.Cleanup(func() { s.inner.Close(); s.net.Close() })
	return s
}

// eachServed runs a test with each protocol, and with Serve and Poll. Run serves until the
// Listener is closed; then its channel tells why.
func eachServed(t *testing.T, f func(t *testing.T, s *server, run func(serveHandler) <-chan error)) {
	for _, stack := range servedStacks {
		for _, polled := range []bool{false, true} {
			name := stack.name + "/Serve"
			if polled {
				name = stack.name + "/Poll"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := stack.make(t)
					f(t, s, func(h serveHandler) <-chan error {
						done := make(chan error, 1)
						go func() { done <- s.run(h, polled) }()
						return done
					})
				})
			})
		}
	}
}

func (s *server) run(h serveHandler, polled bool) (err error) {
	if h.open == nil {
		h.open = func(valued) {}
	}
	if h.closed == nil {
		h.closed = func(valued, error) {}
	}
	if !polled {
		return s.serve(h)
	}
	for err == nil {
		err = s.poll(h)
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

// end closes everything, and waits for the server.
func (s *server) end(t *testing.T, done <-chan error, clients ...net.Conn) {
	t.Helper()
	for _, c := range clients {
		c.Close()
	}
	time.Sleep(time.Second)
	for _, c := range s.conns() {
		c.Close()
	}
	s.close()
	require.ErrorIs(t, <-done, net.ErrClosed)
}

func (s *server) dials(n int) (clients []net.Conn) {
	for range n {
		clients = append(clients, s.dial())
	}
	return clients
}

func tell(t *testing.T, c net.Conn, msg string) {
	t.Helper()
	_, err := c.Write([]byte(msg))
	require.NoError(t, err)
}

func hears(t *testing.T, c net.Conn, want string) {
	t.Helper()
	buf := make([]byte, 1000)
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, err := c.Read(buf)
	require.NoError(t, err)
	require.Equal(t, want, string(buf[:n]))
}

// A handler learns of the beginning, each message and the end of a connection, in this
// order. Accept ends, and there is no second Serve.
func TestServed(t *testing.T) {
	eachServed(t, func(t *testing.T, s *server, run func(serveHandler) <-chan error) {
		accepts := make(chan error)
		go func() { accepts <- s.accept() }()
		synctest.Wait()
		var mu sync.Mutex
		log := make(map[string][]string)
		note := func(c valued, what string) {
			mu.Lock()
			defer mu.Unlock()
			id, _ := c.Value().(string)
			log[id] = append(log[id], what)
		}
		done := run(serveHandler{
			open: func(c valued) { note(c, "open") },
			message: func(c valued, msg []byte) {
				if c.Value() == nil {
					c.SetValue(string(msg))
				}
				note(c, string(msg))
				c.Write(msg)
			},
			closed: func(c valued, err error) {
				if err == nil {
					t.Error("an end without an error")
				}
				note(c, "closed")
			},
		})
		require.ErrorIs(t, <-accepts, serve.ErrServed)
		clients := s.dials(10)
		for i, c := range clients {
			tell(t, c, fmt.Sprint(i))
			hears(t, c, fmt.Sprint(i))
			tell(t, c, "two")
			hears(t, c, "two")
		}
		require.Len(t, s.conns(), 10)
		h := serveHandler{message: func(valued, []byte) {}}
		require.ErrorIs(t, s.run(h, false), serve.ErrServed)
		require.ErrorIs(t, s.accept(), serve.ErrServed)
		clients[0].Close()
		time.Sleep(time.Second)
		mu.Lock()
		wantEnd := 1
		if log["0"][len(log["0"])-1] != "closed" {
			wantEnd = 0 // a volley.Conn over a stranger hears of the end later
		}
		require.Equal(t, 10, len(log[""]))
		require.Equal(t, 2+wantEnd, len(log["0"]))
		require.Equal(t, []string{"1", "two"}, log["1"])
		mu.Unlock()
		s.end(t, done, clients...)
		synctest.Wait()
		for i := range clients {
			require.Equal(t, []string{fmt.Sprint(i), "two", "closed"}, log[fmt.Sprint(i)])
		}
		require.Empty(t, s.conns())
		require.ErrorIs(t, s.run(h, false), serve.ErrServed)
	})
}

// While a handler blocks, nobody is heard; afterwards everybody is, and nothing is lost. What
// others write meanwhile leaves.
func TestServedHandlerBlocks(t *testing.T) {
	eachServed(t, func(t *testing.T, s *server, run func(serveHandler) <-chan error) {
		opened := make(chan valued, 2)
		done := run(serveHandler{
			open: func(c valued) { opened <- c },
			message: func(c valued, msg []byte) {
				if string(msg) == "block" {
					c.Write([]byte("blocked"))
					time.Sleep(time.Second)
				}
				c.Write(msg)
			},
		})
		a, b := s.dial(), s.dial()
		tell(t, a, "a")
		hears(t, a, "a")
		served := <-opened
		tell(t, b, "b")
		hears(t, b, "b")
		<-opened
		begin := time.Now()
		tell(t, a, "block")
		time.Sleep(100 * time.Millisecond)
		tell(t, b, "late")
		tell(t, served, "by the way")
		hears(t, a, "blocked")
		hears(t, a, "by the way")
		require.Less(t, time.Since(begin), 200*time.Millisecond)
		hears(t, a, "block")
		hears(t, b, "late")
		require.Less(t, time.Since(begin), 1100*time.Millisecond)
		s.end(t, done, a, b)
	})
}

// A handler may close its own connection and others, and write to all.
func TestServedHandlerClosesAndWrites(t *testing.T) {
	eachServed(t, func(t *testing.T, s *server, run func(serveHandler) <-chan error) {
		var mu sync.Mutex
		ends := make(map[any]int)
		done := run(serveHandler{
			message: func(c valued, msg []byte) {
				switch string(msg) {
				case "all":
					for _, o := range s.conns() {
						if _, err := o.Write(msg); err != nil {
							t.Error(err)
						}
					}
				case "me":
					c.Write([]byte("bye"))
					c.Close()
					if _, err := c.Write([]byte("late")); err == nil {
						t.Error("written after Close")
					}
				case "others":
					for _, o := range s.conns() {
						if o != net.Conn(c) {
							o.Close()
						}
					}
					c.Write(msg)
				default:
					c.SetValue(string(msg))
					c.Write(msg)
				}
			},
			closed: func(c valued, err error) {
				mu.Lock()
				ends[c.Value()]++
				mu.Unlock()
				if c.Value() != "0" && err == nil {
					t.Error("no error")
				}
			},
		})
		count := 1000
		if testing.Short() || testenv.Race {
			count = 130 // more than leave at a time
		}
		clients := s.dials(count)
		for i, c := range clients {
			tell(t, c, fmt.Sprint(i))
			hears(t, c, fmt.Sprint(i))
		}
		tell(t, clients[3], "all")
		for _, c := range clients {
			hears(t, c, "all")
		}
		tell(t, clients[1], "me")
		hears(t, clients[1], "bye")
		time.Sleep(100 * time.Millisecond)
		tell(t, clients[0], "others")
		hears(t, clients[0], "others")
		time.Sleep(time.Second)
		mu.Lock()
		require.Len(t, ends, count-1)
		require.Zero(t, ends["0"])
		mu.Unlock()
		s.end(t, done, clients...)
		synctest.Wait()
		require.Len(t, ends, count)
		for who, n := range ends {
			require.Equal(t, 1, n, who)
		}
	})
}

// Shutdown waits for the connections, which are served meanwhile, and ends them with its
// context.
func TestServedShutdown(t *testing.T) {
	eachServed(t, func(t *testing.T, s *server, run func(serveHandler) <-chan error) {
		var mu sync.Mutex
		ends := 0
		done := run(serveHandler{
			message: func(c valued, msg []byte) { c.Write(msg) },
			closed: func(valued, error) {
				mu.Lock()
				ends++
				mu.Unlock()
			},
		})
		clients := s.dials(5)
		for _, c := range clients {
			tell(t, c, "x")
			hears(t, c, "x")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		down := make(chan error)
		go func() { down <- s.shutdown(ctx) }()
		time.Sleep(time.Second)
		for _, c := range clients {
			tell(t, c, "still served")
			hears(t, c, "still served")
		}
		require.ErrorIs(t, <-down, context.DeadlineExceeded)
		require.ErrorIs(t, <-done, net.ErrClosed)
		time.Sleep(time.Second)
		mu.Lock()
		require.Equal(t, 5, ends)
		mu.Unlock()
		require.NoError(t, s.shutdown(t.Context()))
		for _, c := range clients {
			c.Close()
		}
	})
}

// A panic of a handler goes up to the caller of Poll. If that recovers, Poll goes on with
// what was left.
func TestPolledHandlerPanics(t *testing.T) {
	for _, stack := range servedStacks {
		t.Run(stack.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stack.make(t)
				clients := make(chan []net.Conn)
				go func() { clients <- s.dials(3) }()
				h := serveHandler{open: func(valued) {}, closed: func(valued, error) {}}
				h.message = func(_ valued, msg []byte) { panic(string(msg)) }
				poll := func() (panicked any) {
					defer func() { panicked = recover() }()
					s.poll(h)
					return nil
				}
				var cs []net.Conn
				for cs == nil {
					poll()
					time.Sleep(5 * time.Millisecond)
					select {
					case cs = <-clients:
					default:
					}
				}
				for _, c := range cs {
					tell(t, c, "x")
					tell(t, c, "y")
				}
				time.Sleep(100 * time.Millisecond)
				var got []string
				for range 10 {
					if p := poll(); p != nil {
						got = append(got, p.(string))
					}
				}
				slices.Sort(got)
				require.Equal(t, []string{"x", "x", "x", "y", "y", "y"}, got)
				h.message = func(c valued, msg []byte) { c.Write(msg) }
				tell(t, cs[0], "z")
				time.Sleep(100 * time.Millisecond)
				require.Nil(t, poll())
				hears(t, cs[0], "z")
				done := make(chan error)
				go func() { done <- s.run(h, true) }()
				s.end(t, done, cs...)
			})
		})
	}
}

// A panic of a handler that is served ends the program.
func TestServedHandlerPanics(t *testing.T) {
	const name = "VOLLEY_TEST_PANIC"
	if os.Getenv(name) == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestServedHandlerPanics$")
		c.Env = append(os.Environ(), name+"=1")
		out, err := c.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "panic: as the test wants")
		return
	}
	client, server, err := dialedPair()
	require.NoError(t, err)
	go server.Serve(volley.Handler{Message: func(*volley.Conn, []byte) { panic("as the test wants") }})
	client.Write([]byte("x"))
	time.Sleep(time.Minute)
}

func dialedPair() (*volley.Conn, *volley.Listener, error) {
	l, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	c, err := volley.Dial("udp", l.Addr().String())
	return c, l, err
}

// An echo of a session, and of messages over one, allocates nothing.
func TestServedSessionAllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	for _, messages := range []bool{false, true} {
		lc := netcode.ListenConfig{PrivateKey: netcode.GenerateKey()}
		l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
		require.NoError(t, err)
		issuer := netcode.Issuer{PrivateKey: lc.PrivateKey, Servers: []netip.AddrPort{l.Addr().(*net.UDPAddr).AddrPort()}}
		token, err := issuer.Issue(1, nil)
		require.NoError(t, err)
		echo := serveHandler{open: func(valued) {}, closed: func(valued, error) {}}
		echo.message = func(c valued, msg []byte) { c.Write(msg) }
		if messages {
			go newListener(l, nil).Serve(volleyHandler(echo))
		} else {
			go l.Serve(netcodeHandler(echo))
		}
		session, err := netcode.Dial(token)
		require.NoError(t, err)
		c := net.Conn(session)
		if messages {
			c = newConn(session, nil)
		}
		msg, buf := []byte("a message"), make([]byte, 2000)
		round := func() {
			c.Write(msg)
			if _, err := c.Read(buf); err != nil {
				t.Error(err)
			}
		}
		for range 300 {
			round()
		}
		require.Less(t, testing.AllocsPerRun(1000, round), 1.0)
		c.Close()
		for s := range l.Conns() {
			s.Close()
		}
		l.Close()
	}
}
