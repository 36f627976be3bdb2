package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/secure"
	"volley/simnet"
	"volley/volleydebug"
)

// nodes starts nodes with one key, each of which knows those before, and waits until all know all.
func nodes(t *testing.T, count int, change func(*Config)) []*testNode {
	t.Helper()
	key := filepath.Join(t.TempDir(), "fleet.key")
	var all []*testNode
	for i := range count {
		cfg := &Config{Name: fmt.Sprintf("node-%d", i), KeyFile: key}
		for _, n := range all {
			if at := n.Cluster(); at != nil {
				cfg.Routes = append(cfg.Routes, at.String())
			}
		}
		if change != nil {
			change(cfg)
		}
		all = append(all, newNode(t, cfg))
	}
	for _, n := range all {
		require.Eventually(t, func() bool { return len(n.alive()) == count-1 }, 20*time.Second, 10*time.Millisecond)
	}
	return all
}

// A testNode is a node with a server that sends each message back, behind its own name.
type testNode struct {
	*Node
	listener *secure.Listener
	path     *simnet.Proxy // from clients to the Listener
	served   sync.WaitGroup
	kill     func()

	mu    sync.Mutex
	conns []*secure.Conn
}

func newNode(t *testing.T, cfg *Config) *testNode {
	t.Helper()
	if testing.Verbose() {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n, err := Join(ctx, cfg)
	require.NoError(t, err)
	tn := &testNode{Node: n}
	tn.listener, err = n.Listen("udp", "127.0.0.1:0", nil)
	require.NoError(t, err)
	tn.path, err = simnet.NewProxy(simnet.ProxyConfig{Target: tn.listener.Addr().String()})
	require.NoError(t, err)
	t.Cleanup(func() { tn.path.Close() })
	n.do(func() { n.public = tn.path.Addr().String() })
	tn.served.Go(func() {
		for {
			c, err := tn.listener.AcceptConn(context.Background())
			if err != nil {
				return
			}
			tn.mu.Lock()
			tn.conns = append(tn.conns, c)
			tn.mu.Unlock()
			tn.served.Go(func() { tn.echo(c) })
		}
	})
	tn.kill = sync.OnceFunc(func() {
		tn.listener.Close()
		tn.mu.Lock()
		for _, c := range tn.conns {
			c.Close()
		}
		tn.mu.Unlock()
		n.Close()
		tn.served.Wait()
	})
	t.Cleanup(tn.kill)
	return tn
}

func (n *testNode) echo(c *secure.Conn) {
	msg := make([]byte, 1200)
	for {
		k, err := c.Read(msg)
		if err != nil {
			return
		}
		c.Write(append([]byte(n.cfg.Name+": "), msg[:k]...))
	}
}

func (n *testNode) alive() (names []string) {
	for _, p := range n.Peers() {
		if p.Alive {
			names = append(names, p.Name)
		}
	}
	return names
}

// die has the node be silent at once, as after a kill: nobody is told of anything.
func (n *testNode) die() {
	n.path.Close()
	n.do(func() { n.server.Watch(nil) })
	n.engine.server.Shutdown()
	n.kill()
}

// A testClient says something ten times a second, and goes where it is sent.
type testClient struct {
	mu    sync.Mutex
	conn  *secure.Conn
	heard []hearing
	err   error
	done  chan struct{}
	stop  func()
}

// A hearing is an answer.
type hearing struct {
	at   time.Time
	text string
}

func newClient(t *testing.T, n *testNode) *testClient {
	t.Helper()
	dialer := secure.Dialer{Header: http.Header{"Volley-Server": {n.path.Addr().String()}}}
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := dialer.Dial(ctx, n.listener.URL("127.0.0.1"))
	require.NoError(t, err)
	c := &testClient{conn: conn, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for err == nil {
			c.talk(ctx, conn)
			if conn, err = conn.Next(ctx); err == nil {
				c.mu.Lock()
				c.conn = conn
				c.mu.Unlock()
			}
		}
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}()
	c.stop = sync.OnceFunc(func() {
		c.mu.Lock()
		c.conn.Close()
		c.mu.Unlock()
		cancel()
		<-c.done
		c.conn.Close()
	})
	t.Cleanup(c.stop)
	return c
}

func (c *testClient) talk(ctx context.Context, conn *secure.Conn) {
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ; conn.Err() == nil && ctx.Err() == nil; <-tick.C {
			conn.Write([]byte("hello"))
		}
	}()
	msg := make([]byte, 1200)
	for {
		n, err := conn.Read(msg)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.heard = append(c.heard, hearing{time.Now(), string(msg[:n])})
		c.mu.Unlock()
	}
}

func (c *testClient) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heard) == 0 {
		return ""
	}
	return c.heard[len(c.heard)-1].text
}

func (c *testClient) hears(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); c.last() != text; time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		err := c.err
		c.mu.Unlock()
		require.NoError(t, err)
		require.True(t, time.Now().Before(end), "no %q, and %q", text, c.last())
	}
}

// spared waits until the clients of a node have tokens for another one.
func (n *testNode) spared(t *testing.T, count int) {
	t.Helper()
	require.Eventually(t, func() bool { return n.Stats().Spared == count }, 20*time.Second, 10*time.Millisecond)
}

// The client of a node that dies goes on at the other one.
func TestDeath(t *testing.T) {
	all := nodes(t, 2, nil)
	c := newClient(t, all[0])
	c.hears(t, "node-0: hello")
	all[0].spared(t, 1)
	former := c.conn
	all[0].die()
	c.hears(t, "node-1: hello")
	require.Equal(t, secure.ErrMoved, former.Err())
	require.EqualValues(t, 1, all[1].Stats().Came)
	require.EqualValues(t, 0, all[1].Stats().Bad)
}

// The debug page shows nodes until they are closed.
func TestSeen(t *testing.T) {
	all := nodes(t, 2, nil)
	c := newClient(t, all[0])
	c.hears(t, "node-0: hello")
	all[0].spared(t, 1)
	all[1].SetLoad(7)
	require.Eventually(t, func() bool { return all[0].Peers()[0].Load == 7 }, 20*time.Second, 10*time.Millisecond)
	seen := volleydebug.Snapshot().Nodes
	require.Len(t, seen, 2)
	n, s := seen[0], all[0].Stats()
	require.Equal(t, volleydebug.Node{
		Name: "node-0", Sessions: 1, Spared: 1, Load: 1, Given: s.Given, Missed: s.Missed, Peers: n.Peers,
	}, n)
	require.Equal(t, []volleydebug.Peer{{Name: "node-1", Load: 7, Alive: true, Heard: n.Peers[0].Heard}}, n.Peers)
	require.Equal(t, all[1].Stats().Sealed, seen[1].Sealed)
	all[1].kill()
	require.Len(t, volleydebug.Snapshot().Nodes, 1)
}

// A node that is drained sends its clients to the other one.
func TestDrain(t *testing.T) {
	all := nodes(t, 2, func(c *Config) { c.State = func(c *secure.Conn) []byte { return []byte("state") } })
	c := newClient(t, all[0])
	all[0].spared(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, all[0].Drain(ctx))
	require.Zero(t, all[0].Stats().Sessions)
	t.Logf("%+v %+v", all[0].Stats(), all[1].Stats())
	c.hears(t, "node-1: hello")
	all[1].mu.Lock()
	state, ok := all[1].conns[0].Resumed()
	all[1].mu.Unlock()
	require.True(t, ok)
	require.Equal(t, "state", string(state))
	_, err := secure.Dial(t.Context(), all[0].listener.URL("127.0.0.1"))
	require.ErrorAs(t, err, new(*secure.RefusedError))
	require.NoError(t, all[0].Close())
	require.ErrorIs(t, all[0].Drain(ctx), net.ErrClosed)
	c.stop()
	require.True(t, errors.Is(c.err, net.ErrClosed) || errors.Is(c.err, context.Canceled), c.err)
}
