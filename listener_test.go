package volley

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/pattern"
	"volley/internal/testenv"
	"volley/internal/wire"
	"volley/reliable"
	"volley/simnet"
)

func TestListenerEchoesThousandPeers(t *testing.T) {
	const peers, each = 1000, 10
	cfg := &Config{IdleTimeout: time.Hour} // the machine may be slow
	lc := ListenConfig{Config: cfg}
	l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	echoAll(t, l)
	d := Dialer{Config: cfg}
	var all []*Conn
	for range peers {
		c, err := d.Dial(t.Context(), "udp", l.Addr().String())
		require.NoError(t, err)
		all = append(all, c)
	}
	var wg sync.WaitGroup
	gate := make(chan struct{}, 16) // no more at once than a small socket buffer holds
	for p, c := range all {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			if err := exchange(c, p, each); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := l.Stats(); s.Accepted != peers || s.Conns != peers {
		t.Errorf("%d connections accepted, %d open, want %d", s.Accepted, s.Conns, peers)
	}
	for _, c := range all {
		c.Close()
	}
}

// echoAll has every message of every connection answered, until the test ends.
func echoAll(t *testing.T, l *Listener) {
	var wg sync.WaitGroup
	var conns []*Conn
	wg.Go(func() {
		for {
			c, err := l.AcceptConn(context.Background())
			if err != nil {
				break
			}
			conns = append(conns, c)
			wg.Go(func() {
				for {
					m, err := c.ReadMessage(context.Background(), nil)
					if err != nil {
						return
					}
					c.Write(m)
				}
			})
		}
		for _, c := range conns {
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
}

// exchange sends messages and waits for each to come back.
func exchange(c *Conn, peer, each int) error {
	for i := range each {
		want := uint32(peer*each + i)
		var wrong error
		err := ask(c, pattern.New(want, 4+i*300), func(m []byte) bool {
			got, err := pattern.Check(m)
			if err != nil || got > want {
				wrong = fmt.Errorf("peer %d: message %d, %w, want %d", peer, got, err, want)
			}
			return err != nil || got >= want // not the second echo of an earlier one
		})
		if err == nil {
			err = wrong
		}
		if err != nil {
			return fmt.Errorf("peer %d, message %d: %w", peer, i, err)
		}
	}
	return nil
}

// ask sends a message until there is an answer that done accepts.
func ask(c *Conn, msg []byte, done func([]byte) bool) error {
	for try := 1; ; try++ {
		c.Write(msg)
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		m, err := c.ReadMessage(context.Background(), nil)
		for err == nil {
			if done(m) {
				return nil
			}
			m, err = c.ReadMessage(context.Background(), nil)
		}
		if try == 10 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// network returns a simulated network, and a listener and a dialing function on
// it.
func network(t *testing.T, lc *ListenConfig) (*simnet.Network, *Listener, func(addr string, d *Dialer) *Conn) {
	t.Helper()
	n := simnet.New(1)
	n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
	pc, err := n.Listen("10.0.0.1:7777")
	require.NoError(t, err)
	l, err := lc.ListenOn(pc)
	require.NoError(t, err)
	dial := func(addr string, d *Dialer) *Conn {
		inner, err := n.Dial(addr, "10.0.0.1:7777")
		require.NoError(t, err)
		c, err := d.connect(inner)
		require.NoError(t, err)
		return c
	}
	t.Cleanup(func() { l.Close(); n.Close() })
	return n, l, dial
}

func accept(t *testing.T, l *Listener) *Conn {
	t.Helper()
	l.SetDeadline(time.Now().Add(30 * time.Second))
	c, err := l.AcceptConn(context.Background())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	return c
}

func wantNoConn(t *testing.T, l *Listener) {
	t.Helper()
	l.SetDeadline(time.Now().Add(time.Second))
	c, err := l.AcceptConn(context.Background())
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Accept = %v, %v, want no connection", c, err)
	}
}

func wantMessage(t *testing.T, c *Conn, want string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if m, err := c.ReadMessage(context.Background(), nil); string(m) != want || err != nil {
		t.Errorf("ReadMessage = %q, %v, want %q", m, err, want)
	}
}

func TestServerSpeaksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{})
		c := dial("10.0.0.2:0", &Dialer{})
		s := accept(t, l)
		s.Write([]byte("welcome"))
		wantMessage(t, c, "welcome")
		c.Close()
		s.Close()
	})
}

func TestQuietDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{})
		c := dial("10.0.0.2:0", &Dialer{Quiet: true})
		wantNoConn(t, l)
		c.Write([]byte("first"))
		s := accept(t, l)
		wantMessage(t, s, "first")
		c.Close()
		s.Close()
	})
}

// A datagram that comes after Close makes no new connection, until the peer
// cannot believe in the old one any more.
func TestNoGhostAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{})
		c := dial("10.0.0.2:5000", &Dialer{})
		s := accept(t, l)
		s.Close()
		c.Write([]byte("late")) // still says that it has heard nothing
		wantNoConn(t, l)
		c.Write([]byte("later"))
		wantNoConn(t, l)
		c.Close()

		time.Sleep(defaultIdleTimeout)
		c = dial("10.0.0.2:5000", &Dialer{})
		c.Write([]byte("again"))
		s = accept(t, l)
		wantMessage(t, s, "again")
		c.Close()
		s.Close()
	})
}

// A client that starts again on the same port is heard by the server's connection to
// its former self, with its first message, and hears that connection. The numbers of
// its messages are larger than those before.
func TestRestartedClient(t *testing.T) {
	for i := range 50 {
		synctest.Test(t, func(t *testing.T) {
			_, l, dial := network(t, &ListenConfig{})
			c := dial("10.0.0.2:5000", &Dialer{Config: &Config{firstSequence: startsAt(10_000)}})
			s := accept(t, l)
			var last uint64
			for range 100 {
				c.Write([]byte("old"))
				_, id, err := s.ReadMessageID(context.Background(), nil)
				require.NoError(t, err)
				require.Greater(t, id, last)
				last = id
			}
			s.Write([]byte("old"))
			wantMessage(t, c, "old")
			time.Sleep(time.Second)
			kill(c)

			c = dial("10.0.0.2:5000", &Dialer{Config: &Config{firstSequence: startsAt(1 + 650*i)}})
			defer c.Close()
			for range 3 {
				if _, err := c.Write([]byte("new")); err != nil {
					t.Fatal(err)
				}
				s.SetReadDeadline(time.Now().Add(time.Second))
				m, id, err := s.ReadMessageID(context.Background(), nil)
				require.NoError(t, err, "first sequence %d", 1+650*i)
				require.Equal(t, "new", string(m))
				require.Greater(t, id, last)
				last = id
			}
			if s.extra() != nil {
				require.Zero(t, s.extra().missing, "what was skipped is not missing")
			}
			s.Write([]byte("new"))
			wantMessage(t, c, "new")
			s.Close()
		})
	}
}

// A port that is used again soon after its connection was closed in the proper
// way is heard.
func TestReusedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{})
		for range 3 {
			c := dial("10.0.0.2:5000", &Dialer{})
			s := accept(t, l)
			s.Write([]byte("hello"))
			wantMessage(t, c, "hello")
			c.Write([]byte("bye"))
			wantMessage(t, s, "bye")
			time.Sleep(100 * time.Millisecond)
			c.Close()
			s.Close()
			time.Sleep(2 * strayTime)
		}
	})
}

// The first datagram of a peer may arrive behind a later one, in one batch.
func TestOpeningBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _ := network(t, &ListenConfig{})
		opening := reliable.AppendHeader(nil, reliable.Header{Sequence: 0, Ack: 65535})
		later := reliable.AppendHeader(nil, reliable.Header{Sequence: 5, Ack: 3, AckBits: 15})
		from := netip.MustParseAddrPort("10.0.0.2:1")
		if (*acceptor)(l).HandleUnknown(time.Now(), from, false, [][]byte{later, later}, new(wire.Batch)) != nil {
			t.Error("two later datagrams make a connection")
		}
		if (*acceptor)(l).HandleUnknown(time.Now(), from, false, [][]byte{later, opening}, new(wire.Batch)) == nil {
			t.Error("a first datagram behind a later one makes no connection")
		}
	})
}

func TestMidStreamPeers(t *testing.T) {
	for _, admit := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, l, dial := network(t, &ListenConfig{AdmitMidStream: admit})
			c := dial("10.0.0.2:5000", &Dialer{})
			s := accept(t, l)
			s.Write([]byte("heard"))
			wantMessage(t, c, "heard")
			kill(s)
			require.NoError(t, l.Shutdown(t.Context()))
			pc, err := n.Listen("10.0.0.1:7777")
			require.NoError(t, err)
			l, err = (&ListenConfig{AdmitMidStream: admit}).ListenOn(pc)
			require.NoError(t, err)
			defer l.Close()
			c.Write([]byte("mid"))
			if admit {
				s = accept(t, l)
				wantMessage(t, s, "mid")
				s.Close()
			} else {
				wantNoConn(t, l)
			}
			c.Close()
		})
	}
}

func TestFilterAndMaxConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := netip.MustParseAddr("10.0.0.9")
		_, l, dial := network(t, &ListenConfig{
			MaxConns: 2,
			Filter:   func(a netip.AddrPort) bool { return a.Addr() != bad },
		})
		var all []*Conn
		defer func() {
			for _, c := range all {
				c.Close()
			}
		}()
		for _, addr := range []string{"10.0.0.9:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1"} {
			all = append(all, dial(addr, &Dialer{}))
		}
		time.Sleep(time.Second)
		s := l.Stats()
		if s.Conns != 2 || s.Accepted != 2 || s.Filtered != 1 || s.Refused != 1 || s.Unknown != 4 {
			t.Errorf("stats %+v, want 2 connections, 1 filtered, 1 refused, 4 datagrams unknown", s)
		}
		a := accept(t, l)
		a.Close()
		dial("10.0.0.5:1", &Dialer{}).Close()
		time.Sleep(time.Second)
		all = append(all, accept(t, l), accept(t, l))
		if s := l.Stats(); s.Conns != 2 || s.Accepted != 3 {
			t.Errorf("stats %+v, want 2 connections of 3", s)
		}
	})
}

func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{Backlog: 3})
		for i := range 5 {
			dial(fmt.Sprintf("10.0.0.2:%d", 1000+i), &Dialer{}).Close()
		}
		time.Sleep(time.Second)
		if s := l.Stats(); s.Accepted != 3 || s.Refused != 2 {
			t.Errorf("stats %+v, want 3 accepted and 2 refused", s)
		}
	})
}

func TestListenerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{})
		c := dial("10.0.0.2:0", &Dialer{})
		s := accept(t, l)
		waiting := dial("10.0.0.3:0", &Dialer{})
		time.Sleep(time.Second)
		l.SetDeadline(time.Time{})

		if got := l.Stats().Conns; got != 2 {
			t.Fatalf("%d connections, want 2", got)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		_, err := l.Accept()
		wantErr(t, "Accept", err, net.ErrClosed)
		if got := l.Stats().Conns; got != 1 {
			t.Errorf("%d connections after Close, want the accepted one", got)
		}
		c.Write([]byte("still here"))
		wantMessage(t, s, "still here")
		s.Write([]byte("yes"))
		wantMessage(t, c, "yes")
		dial("10.0.0.4:0", &Dialer{}).Close() // nobody listens any more
		time.Sleep(time.Second)
		s.Close()
		c.Close()
		waiting.Close()
	})
}

func TestCloseUnblocksAccept(t *testing.T) {
	l, err := Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error)
	for range 2 {
		go func() {
			_, err := l.Accept()
			done <- err
		}()
	}
	l.Close()
	for range 2 {
		wantErr(t, "blocked Accept", <-done, net.ErrClosed)
	}
	l.SetDeadline(time.Now())
}

func TestAcceptDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _ := network(t, &ListenConfig{})
		l.SetDeadline(time.Now().Add(time.Minute))
		start := time.Now()
		_, err := l.Accept()
		wantTimeout(t, "Accept", err)
		if d := time.Since(start); d != time.Minute {
			t.Errorf("Accept waited %v, want 1m", d)
		}
	})
}

func TestUnknownNetworks(t *testing.T) {
	for _, network := range []string{"", "tcp", "unix", "udp5"} {
		var unknown net.UnknownNetworkError
		if _, err := Dial(network, "127.0.0.1:1"); !errors.As(err, &unknown) {
			t.Errorf("Dial(%q): %v", network, err)
		}
		if _, err := Listen(network, "127.0.0.1:0"); !errors.As(err, &unknown) {
			t.Errorf("Listen(%q): %v", network, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (&Dialer{}).Dial(ctx, "udp", "name.invalid:1"); err == nil {
		t.Error("Dial with a cancelled context succeeded")
	}
}

func TestBothFamilies(t *testing.T) {
	l, err := Listen("udp", ":0")
	require.NoError(t, err)
	defer l.Close()
	port := l.Addr().(*net.UDPAddr).Port
	for _, host := range []string{"127.0.0.1", "::1"} {
		c, err := Dial("udp", net.JoinHostPort(host, fmt.Sprint(port)))
		if err != nil {
			t.Logf("no %s here: %v", host, err)
			continue
		}
		l.SetDeadline(time.Now().Add(30 * time.Second))
		s, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		s.Write([]byte(host))
		c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if m, err := c.ReadMessage(context.Background(), nil); string(m) != host || err != nil {
			t.Errorf("%s: got %q, %v", host, m, err)
		}
		if got, want := s.RemoteAddr().String(), c.LocalAddr().String(); got != want {
			t.Errorf("RemoteAddr = %s, want %s", got, want)
		}
		c.Close()
		s.Close()
	}
}

func TestSharedPort(t *testing.T) {
	l, err := (&ListenConfig{Sockets: 2}).Listen(context.Background(), "udp", "127.0.0.1:0")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer l.Close()
	echoAll(t, l)
	for p := range 50 {
		c, err := Dial("udp", l.Addr().String())
		require.NoError(t, err)
		defer c.Close() // at the end: the system must not give its port to another one
		if err := exchange(c, p, 2); err != nil {
			t.Error(err)
		}
	}
}

// Connections that time out in the backlog leave their places to new peers. One
// that has something to read keeps it until the place is needed.
func TestBacklogForgetsTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{Backlog: 3})
		var gone []*Conn
		for i := range 3 {
			c := dial(fmt.Sprintf("10.0.0.2:%d", 1+i), &Dialer{})
			if i > 0 {
				c.Write([]byte{byte(i)})
			}
			gone = append(gone, c)
		}
		time.Sleep(time.Second)
		for _, c := range gone {
			c.Close()
		}
		time.Sleep(time.Minute)
		var alive []*Conn
		for i := range 2 {
			alive = append(alive, dial(fmt.Sprintf("10.0.0.3:%d", 1+i), &Dialer{}))
		}
		time.Sleep(time.Second)
		if s := l.Stats(); s.Accepted != 5 || s.Refused != 0 || s.Conns != 2 {
			t.Errorf("%d accepted, %d refused, %d open, want 5, 0 and 2", s.Accepted, s.Refused, s.Conns)
		}
		old := accept(t, l)
		if m, err := old.ReadMessage(context.Background(), nil); err != nil || m[0] != 2 {
			t.Errorf("ReadMessage of the one that has ended = %v, %v, want 2", m, err)
		}
		for _, c := range alive {
			if s := accept(t, l); s.RemoteAddr().String() != c.LocalAddr().String() {
				t.Errorf("accepted %v, want %v", s.RemoteAddr(), c.LocalAddr())
			}
		}
	})
}

// listed returns the connections that Conns yields, and fails if one comes twice.
func listed(t *testing.T, l *Listener) map[*Conn]bool {
	t.Helper()
	all := make(map[*Conn]bool)
	for c := range l.Conns() {
		require.False(t, all[c], "a connection comes twice")
		all[c] = true
	}
	return all
}

func set(cs ...*Conn) map[*Conn]bool {
	all := make(map[*Conn]bool)
	for _, c := range cs {
		all[c] = true
	}
	return all
}

func TestConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{})
		require.Empty(t, listed(t, l))
		var dialed, conns []*Conn
		for i := range 5 {
			dialed = append(dialed, dial(fmt.Sprintf("10.0.0.2:%d", i+1), &Dialer{}))
			if i < 4 {
				conns = append(conns, accept(t, l))
			}
		}
		defer func() {
			for _, c := range append(dialed, conns...) {
				c.Close()
			}
		}()
		time.Sleep(time.Second)
		require.Equal(t, 5, l.Stats().Conns)
		require.Equal(t, set(conns...), listed(t, l), "and not the one that waits for Accept")
		conns[0].Close()
		require.Equal(t, set(conns[1:]...), listed(t, l))
		n := 0
		for range l.Conns() {
			if n++; n == 2 {
				break
			}
		}
		require.Equal(t, 2, n)

		var last *Conn // accepted in the loop: it may come, and what is closed there does not
		for c := range l.Conns() {
			if last == nil {
				last = accept(t, l)
				for _, c := range conns {
					c.Close()
				}
			} else {
				require.Same(t, last, c)
			}
		}
		require.Equal(t, set(last), listed(t, l))
		l.Close()
		require.Equal(t, set(last), listed(t, l), "they live on")
		dialed[4].Close()
		time.Sleep(time.Minute)
		require.Empty(t, listed(t, l), "it has timed out")
		last.Close()
	})
}

// Whoever is there during a whole loop comes once in it, while others come and
// go beside several loops at once.
func TestConnsWhileTheyComeAndGo(t *testing.T) {
	lc := ListenConfig{Config: &Config{IdleTimeout: -1}}
	n := simnet.New(1)
	defer n.Close()
	pc, err := n.Listen("10.0.0.1:7777")
	require.NoError(t, err)
	l, err := lc.ListenOn(pc)
	require.NoError(t, err)
	defer l.Close()
	dial := func() (client, server *Conn, err error) {
		inner, err := n.Dial("10.0.0.2:0", "10.0.0.1:7777")
		if err != nil {
			return nil, nil, err
		}
		client, err = new(Dialer).connect(inner)
		if err != nil {
			return nil, nil, err
		}
		server, err = l.AcceptConn(context.Background())
		return client, server, err
	}
	var stay []*Conn
	for range 20 {
		c, s, err := dial()
		require.NoError(t, err)
		defer c.Close()
		defer s.Close()
		stay = append(stay, s)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for range 200 {
			c, s, err := dial()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
			s.Close()
		}
	})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				seen := make(map[*Conn]int)
				for c := range l.Conns() {
					seen[c]++
				}
				for _, c := range stay {
					if seen[c] != 1 {
						t.Errorf("a connection came %d times", seen[c])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// Over several sockets, all connections come.
func TestConnsOfSockets(t *testing.T) {
	lc := ListenConfig{Sockets: 3}
	l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	want := make(map[*Conn]bool)
	for range 12 {
		c, err := Dial("udp", l.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		l.SetDeadline(time.Now().Add(30 * time.Second))
		s, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		defer s.Close()
		want[s] = true
	}
	require.Equal(t, want, listed(t, l))
	if !testenv.Race {
		n := testing.AllocsPerRun(100, func() {
			for range l.Conns() {
			}
		})
		require.Less(t, n, 5.0, "allocations of a loop")
	}
}
