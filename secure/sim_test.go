package secure

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

const simServer = "10.0.0.1:7777"

// A world has a server and its clients on a network in memory, with pipes in place of TCP.
type world struct {
	net      *simnet.Network
	where    string // where it is; empty: simServer
	latency  time.Duration
	tokens   chan net.Conn
	fails    chan error // of Accept; nil: none
	closed   chan struct{}
	closeTCP func()
}

// inWorld runs a test in virtual time. At its end no goroutine may be left.
func inWorld(t *testing.T, link simnet.Link, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{net: simnet.New(1), latency: link.Latency, tokens: make(chan net.Conn), closed: make(chan struct{})}
		w.closeTCP = sync.OnceFunc(func() { close(w.closed) })
		w.net.SetDefault(link)
		f(t, w)
		w.net.Close()
	})
}

// listen starts the server.
func (w *world) listen(t *testing.T, lc *ListenConfig) *Listener {
	pc, err := w.net.Listen(cmp.Or(w.where, simServer))
	require.NoError(t, err)
	l, err := lc.ListenOn(pc, w)
	require.NoError(t, err)
	return l
}

// A world is the listener for pipes.
func (w *world) Accept() (net.Conn, error) {
	select {
	case c := <-w.tokens:
		return c, nil
	case err := <-w.fails:
		return nil, err
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *world) Close() error {
	w.closeTCP()
	return nil
}

func (w *world) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(cmp.Or(w.where, simServer)))
}

// dialTCP makes a pipe to the server, from a client address.
func (w *world) dialTCP(ctx context.Context, client string) (net.Conn, error) {
	time.Sleep(2 * w.latency)
	a, b := net.Pipe()
	server, local := w.Addr(), net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))
	select {
	case w.tokens <- &slowConn{Conn: b, local: server, remote: local, latency: w.latency}:
		return &slowConn{Conn: a, local: local, remote: server, latency: w.latency}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// dialer returns a Dialer on this network.
func (w *world) dialer() *Dialer {
	return &Dialer{
		dialTCP: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dialTCP(ctx, "10.0.1.1:4000") },
		dialUDP: func() (net.PacketConn, error) { return w.net.Listen("10.0.1.1:0") },
	}
}

// connect makes a session.
func (w *world) connect(t *testing.T, l *Listener) (client, server *Conn) {
	t.Helper()
	client, err := w.dialer().Dial(t.Context(), l.URL("10.0.0.1"))
	require.NoError(t, err)
	server, err = l.AcceptConn(t.Context())
	require.NoError(t, err)
	return client, server
}

// A slowConn is an end of a pipe with addresses and a latency. It sends one message after the other.
type slowConn struct {
	net.Conn
	local, remote net.Addr
	latency       time.Duration

	mu     sync.Mutex
	last   chan struct{} // closed when the last message has been sent; nil: there is none
	closed bool
}

func (c *slowConn) LocalAddr() net.Addr  { return c.local }
func (c *slowConn) RemoteAddr() net.Addr { return c.remote }

func (c *slowConn) Write(b []byte) (int, error) {
	b = append([]byte(nil), b...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	before, done := c.last, make(chan struct{})
	c.last = done
	go func() {
		defer close(done)
		time.Sleep(c.latency)
		if before != nil {
			<-before
		}
		c.Conn.Write(b)
	}()
	return len(b), nil
}

// Writes never wait. Package tls sets their deadline to the past when it closes.
func (c *slowConn) SetWriteDeadline(time.Time) error { return nil }
func (c *slowConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }

// Close lets what was written arrive, for a second.
func (c *slowConn) Close() error {
	c.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	c.mu.Lock()
	last := c.last
	c.closed = true
	c.mu.Unlock()
	go func() {
		if last != nil {
			<-last
		}
		c.Conn.Close()
	}()
	c.Conn.SetReadDeadline(time.Unix(1, 0))
	return nil
}

// A join takes five round trips: of TCP, TLS, the token, the challenge and the session.
func TestJoinTakesFiveRoundTrips(t *testing.T) {
	const rtt = 100 * time.Millisecond
	inWorld(t, simnet.Link{Latency: rtt / 2}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		start := time.Now()
		client, server := w.connect(t, l)
		took := time.Since(start)
		t.Logf("%v with a round trip of %v", took, rtt)
		require.LessOrEqual(t, took, 5*rtt+rtt/20)
		require.NoError(t, client.Close())
		_, err := server.Read(make([]byte, 10))
		require.Equal(t, io.EOF, err)
		require.NoError(t, server.Close())
		require.NoError(t, l.Close())
	})
}

// Over a rough network all of a session works, and ends with a reason.
func TestSessionOverRoughNetwork(t *testing.T) {
	link := simnet.Link{Latency: 20 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.2, Duplicate: 0.1}
	inWorld(t, link, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		got := make(map[string]int)
		for i := range 200 {
			_, err := client.Write([]byte{byte(i)})
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		server.SetReadDeadline(time.Now().Add(time.Second))
		for {
			b, err := server.ReadMessage(t.Context(), nil)
			if err != nil {
				break
			}
			got[string(b)]++
		}
		require.Greater(t, len(got), 120)
		for msg, n := range got {
			require.Equal(t, 1, n, "%x came twice", msg)
		}
		require.NoError(t, server.CloseWithReason("over"))
		client.SetReadDeadline(time.Now().Add(time.Minute))
		closedBy(t, client, "over")
		require.NoError(t, client.Close())
		require.NoError(t, l.Close())
	})
}

// A session whose peer falls silent ends by its timeout at both sides, and frees the seat.
func TestSilentSession(t *testing.T) {
	inWorld(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{Authorize: player})
		client, server := w.connect(t, l)
		w.net.SetDefault(simnet.Link{Loss: 1})
		for _, c := range []*Conn{client, server} {
			_, err := c.Read(make([]byte, 10))
			require.Error(t, err)
			require.NoError(t, c.Close())
		}
		require.Empty(t, l.seats.clients)
		require.NoError(t, l.Close())
	})
}

// Clients that fall silent at each step cost the server their connection for five seconds.
func TestSilentClients(t *testing.T) {
	hello, request := 0, 0
	for name, step := range map[string]func(t *testing.T, w *world, l *Listener, c net.Conn){
		"after TCP": func(*testing.T, *world, *Listener, net.Conn) {},
		"in the ClientHello": func(t *testing.T, w *world, l *Listener, c net.Conn) {
			c.Write([]byte{22, 3, 1, 1, 0, 1})
		},
		"after the ClientHello": func(t *testing.T, w *world, l *Listener, c net.Conn) {
			go w.tls(l, &silentAfter{Conn: c, writes: 1}).Handshake()
			hello++
		},
		"after TLS": func(t *testing.T, w *world, l *Listener, c net.Conn) {
			require.NoError(t, w.tls(l, c).Handshake())
		},
		"in the header": func(t *testing.T, w *world, l *Listener, c net.Conn) {
			tc := w.tls(l, c)
			io.WriteString(tc, "POST /.well-known/volley HTTP/1.1\r\nHost: x\r\nX-")
		},
		"in the body": func(t *testing.T, w *world, l *Listener, c net.Conn) {
			tc := w.tls(l, c)
			io.WriteString(tc, "POST /.well-known/volley HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\nabc")
		},
		"before the answer": func(t *testing.T, w *world, l *Listener, c net.Conn) {
			tc := w.tls(l, &silentAfter{Conn: c, writes: 1 << 10})
			io.WriteString(tc, "POST /.well-known/volley HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
			request++
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
				l := w.listen(t, &ListenConfig{})
				c, err := w.dialTCP(t.Context(), "10.0.1.1:4000")
				require.NoError(t, err)
				step(t, w, l, c)
				synctest.Wait()
				time.Sleep(requestTimeout + time.Second)
				synctest.Wait()
				require.Empty(t, l.service.gate.conns)
				c.Close()
				// Another client is served as ever.
				client, server := w.connect(t, l)
				require.NoError(t, client.Close())
				require.NoError(t, server.Close())
				require.NoError(t, l.Close())
			})
		})
	}
	require.Equal(t, 1, hello)
	require.Equal(t, 1, request)
}

// A client that takes nothing of the handshake costs the same.
func TestClientThatDoesNotRead(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		c, server := net.Pipe() // on which a Write waits
		w.tokens <- server
		a, err := parseURL(l.URL("10.0.0.1"))
		require.NoError(t, err)
		c.Write(recordHello(a))
		time.Sleep(requestTimeout + time.Second)
		synctest.Wait()
		require.Empty(t, l.service.gate.conns)
		c.Close()
		require.NoError(t, l.Close())
	})
}

// A backend that is silent costs Dial ten seconds.
func TestSilentBackend(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		d := w.dialer()
		d.dialTCP = func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				io.Copy(io.Discard, w.server(l, server))
				server.Close()
			}()
			return client, nil
		}
		start := time.Now()
		_, err := d.Dial(t.Context(), "https://10.0.0.2/join#"+l.Fingerprint())
		var de *DialError
		require.ErrorAs(t, err, &de)
		require.Equal(t, "token", de.Step)
		require.Equal(t, 2*requestTimeout, time.Since(start))
		require.NoError(t, l.Close())
	})
}

// Clients that never use their tokens leave nothing at the server when these have expired.
func TestSilentTokens(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		a, err := parseURL(l.URL("10.0.0.1"))
		require.NoError(t, err)
		for range 100 {
			_, err := w.dialer().token(t.Context(), a)
			require.NoError(t, err)
		}
		require.Len(t, l.service.shares.queue, 100)
		time.Sleep(2 * keyPeriod)
		all, _ := live(l)
		require.Empty(t, all)
		l.service.shares.expireLocked(time.Now())
		require.Empty(t, l.service.shares.counts)
		require.NoError(t, l.Close())
	})
}

// Servers that fall silent at each step cost Dial a bounded time, and its error says where.
func TestSilentServers(t *testing.T) {
	for name, test := range map[string]struct {
		serve func(w *world, l *Listener, c net.Conn)
		step  string
		most  time.Duration
	}{
		"before TCP": {nil, "tcp", 10 * time.Second},
		"after TCP":  {func(_ *world, _ *Listener, c net.Conn) { io.Copy(io.Discard, c) }, "token", 10 * time.Second},
		"in TLS":     {func(w *world, l *Listener, c net.Conn) { w.server(l, &silentAfter{Conn: c, writes: 0}).Handshake() }, "token", 10 * time.Second},
		"after TLS":  {func(w *world, l *Listener, c net.Conn) { io.Copy(io.Discard, w.server(l, c)) }, "token", 10 * time.Second},
		"in the reply": {func(w *world, l *Listener, c net.Conn) {
			io.WriteString(w.server(l, c), "HTTP/1.1 200 OK\r\n")
			io.Copy(io.Discard, c)
		}, "token", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
				l := (&world{net: w.net, closed: make(chan struct{}), tokens: make(chan net.Conn), closeTCP: func() {}})
				server := l.listen(t, &ListenConfig{})
				close(l.closed)
				if test.serve != nil {
					go func() {
						c, _ := w.Accept()
						test.serve(w, server, c)
						c.Close()
					}()
				}
				start := time.Now()
				_, err := w.dialer().Dial(t.Context(), server.URL("10.0.0.1"))
				var de *DialError
				require.ErrorAs(t, err, &de)
				require.Equal(t, test.step, de.Step, "%v", err)
				require.LessOrEqual(t, time.Since(start), test.most)
				require.NoError(t, server.Close())
			})
		})
	}
	t.Run("in UDP", func(t *testing.T) {
		inWorld(t, simnet.Link{Loss: 1}, func(t *testing.T, w *world) {
			l := w.listen(t, &ListenConfig{})
			start := time.Now()
			_, err := w.dialer().Dial(t.Context(), l.URL("10.0.0.1"))
			var de *DialError
			require.ErrorAs(t, err, &de)
			require.Equal(t, "udp", de.Step)
			require.LessOrEqual(t, time.Since(start), 11*time.Second)
			require.NoError(t, l.Close())
		})
	})
}

// The context of Dial ends it at each step.
func TestDialEndsWithContext(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 50 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		for after := 10 * time.Millisecond; after < 490*time.Millisecond; after += 60 * time.Millisecond {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			start := time.Now()
			_, err := w.dialer().Dial(ctx, l.URL("10.0.0.1"))
			require.ErrorIs(t, err, context.DeadlineExceeded, "after %v", after)
			require.LessOrEqual(t, time.Since(start), after+101*time.Millisecond)
			cancel()
		}
		require.NoError(t, l.Close())
	})
}

// tls returns the client's side of a connection to the server.
func (w *world) tls(l *Listener, c net.Conn) *tls.Conn {
	a, err := parseURL(l.URL("10.0.0.1"))
	if err != nil {
		panic(err)
	}
	return tls.Client(c, new(Dialer).tlsConfig(a))
}

// server returns the server's side of a connection.
func (w *world) server(l *Listener, c net.Conn) *tls.Conn { return tls.Server(c, l.service.tls) }

// recordHello returns the first message of a client of TLS.
func recordHello(a address) (hello []byte) {
	client, server := net.Pipe()
	go tls.Client(client, new(Dialer).tlsConfig(a)).Handshake()
	b := make([]byte, 4096)
	n := must(server.Read(b))
	server.Close()
	return b[:n]
}

// A silentAfter sends no more after some writes, and receives nothing.
type silentAfter struct {
	net.Conn
	writes int
}

func (c *silentAfter) Write(b []byte) (int, error) {
	if c.writes--; c.writes < 0 {
		return len(b), nil
	}
	return c.Conn.Write(b)
}
