package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"volley/internal/handover"
	"volley/internal/testenv"
	"volley/secure"
	"volley/simnet"
)

// cut has a node not hear another one, as if the network between them were cut.
func (n *testNode) cut(other *testNode, is bool) {
	n.do(func() {
		p := n.peers[other.id]
		if p.seal = n.key.sealer(other.id); is {
			p.seal = n.key.sealer(instance{})
		}
	})
}

// A client that has gone to another node while the nodes did not hear each other has one seat
// once they do.
func TestPartition(t *testing.T) {
	all := nodes(t, 2, nil)
	c := newClient(t, all[0])
	c.hears(t, "node-0: hello")
	all[0].spared(t, 1)
	all[0].cut(all[1], true)
	all[1].cut(all[0], true)
	require.Eventually(t, func() bool { return len(all[0].alive())+len(all[1].alive()) == 0 }, 20*time.Second, 10*time.Millisecond)
	all[0].path.SetLinks(simnet.Link{Loss: 1}, simnet.Link{Loss: 1})
	c.hears(t, "node-1: hello")
	require.Equal(t, 1, all[0].Stats().Sessions, "it does not know better")
	require.Equal(t, 1, all[1].Stats().Sessions)
	all[0].cut(all[1], false)
	all[1].cut(all[0], false)
	require.Eventually(t, func() bool { return all[0].Stats().Sessions == 0 }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, 1, all[1].Stats().Sessions)
	require.EqualValues(t, 1, all[0].Stats().Yielded)
	require.NotZero(t, all[0].Stats().Missed)
	require.NoError(t, all[1].only(t).Err())
}

// only returns the one session that was accepted.
func (n *testNode) only(t *testing.T) *secure.Conn {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	require.Len(t, n.conns, 1)
	return n.conns[0]
}

// Of two sessions with one generation, which a client can have while nodes do not hear each
// other, one stays: that at the node with the lower instance.
func TestSameGeneration(t *testing.T) {
	for _, lower := range []bool{true, false} {
		all := nodes(t, 1, nil)
		c := newClient(t, all[0])
		c.hears(t, "node-0: hello")
		other := instance{}
		if !lower {
			for i := range other {
				other[i] = 0xff
			}
		}
		all[0].do(func() {
			p := &peer{id: other, alive: true}
			for id, o := range all[0].own {
				all[0].takeChange(p, change{changeHere, id, o.generation})
			}
		})
		if lower {
			require.Eventually(t, func() bool { return all[0].Stats().Sessions == 0 }, 20*time.Second, 10*time.Millisecond)
		} else {
			require.Equal(t, 1, all[0].Stats().Sessions)
		}
	}
}

// Clients get tokens for the node with the least load, and none for one that wants none.
func TestLoad(t *testing.T) {
	all := nodes(t, 3, nil)
	require.Zero(t, all[1].Load())
	all[1].SetLoad(math.Inf(1))
	all[2].SetLoad(1000)
	for _, n := range all[1:] {
		require.Eventually(t, func() bool {
			for _, p := range all[0].Peers() {
				if p.Name == n.cfg.Name && p.Load == n.Load() {
					return true
				}
			}
			return false
		}, 20*time.Second, 10*time.Millisecond)
	}
	newClient(t, all[0])
	all[0].spared(t, 1)
	require.Zero(t, all[1].Stats().Sealed)
	require.NotZero(t, all[2].Stats().Sealed)
	require.EqualValues(t, 1, all[0].Load())
	all[1].SetLoad(math.NaN())
	require.Zero(t, all[1].Load())
}

// The clients of a node get tokens for another one when the node of their tokens has gone.
func TestSpareNodeLeaves(t *testing.T) {
	all := nodes(t, 3, nil)
	all[2].SetLoad(1000)
	require.Eventually(t, func() bool { return all[0].Peers()[1].Load == 1000 }, 20*time.Second, 10*time.Millisecond)
	newClient(t, all[0])
	all[0].spared(t, 1)
	require.NotZero(t, all[1].Stats().Sealed)
	all[1].kill()
	require.Eventually(t, func() bool { return len(all[0].Peers()) == 1 }, 20*time.Second, 10*time.Millisecond)
	all[0].spared(t, 1)
	require.NotZero(t, all[2].Stats().Sealed)
}

// A node gives tokens only for sessions that the other one has announced.
func TestAskForStranger(t *testing.T) {
	all := nodes(t, 2, nil)
	newClient(t, all[0])
	all[0].spared(t, 1)
	before := all[1].Stats()
	all[1].do(func() { clear(all[1].seats) })
	all[0].do(func() {
		for id, o := range all[0].own {
			all[0].want(time.Now(), id, o)
		}
	})
	require.Eventually(t, func() bool { return all[1].Stats().Refused > before.Refused }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, before.Sealed, all[1].Stats().Sealed)
}

// A session that was closed here is not to come back elsewhere.
func TestOver(t *testing.T) {
	all := nodes(t, 2, nil)
	c := newClient(t, all[0])
	c.hears(t, "node-0: hello")
	all[0].spared(t, 1)
	var session handover.SessionID
	all[1].do(func() {
		for session = range all[1].seats {
		}
	})
	require.NotZero(t, session)
	all[0].only(t).CloseWithReason("kicked")
	gone := func() (gone bool) {
		all[1].do(func() { _, there := all[1].seats[session]; gone = !there })
		return gone
	}
	require.Eventually(t, gone, 20*time.Second, 10*time.Millisecond)
	<-c.done
	require.ErrorAs(t, c.err, new(*secure.CloseError))
}

// Messages of strangers, repeated ones and malformed ones are counted and dropped.
func TestHostile(t *testing.T) {
	n := nodes(t, 2, nil)[0]
	control := n.engine.control
	sub, err := control.SubscribeSync(n.all())
	require.NoError(t, err)
	repeated, err := sub.NextMsg(10 * time.Second)
	require.NoError(t, err)
	for mine := instance(repeated.Data[1:]); mine == n.id; mine = instance(repeated.Data[1:]) {
		repeated, err = sub.NextMsg(10 * time.Second)
		require.NoError(t, err)
	}
	stranger := &key{secret: make([]byte, 32)}
	id := instance{7}
	mine := n.key.sealer(id)
	hostile := map[string][]byte{
		"empty":     {},
		"short":     {version, 1, 2},
		"version":   append([]byte{9}, repeated.Data[1:]...),
		"cut":       repeated.Data[:envelopeHead+3],
		"changed":   append(append([]byte(nil), repeated.Data[:len(repeated.Data)-1]...), repeated.Data[len(repeated.Data)-1]^1),
		"another":   stranger.sealer(id).seal(id, n.all(), []byte{kindBeat}),
		"subject":   mine.seal(id, n.to(n.id), []byte{kindBeat}),
		"no number": mine.seal(id, n.all(), []byte{kindBeat}),
		"repeated":  repeated.Data,
	}
	for name, b := range hostile {
		before := n.Stats().Bad
		require.NoError(t, control.Publish(n.all(), b))
		require.Eventually(t, func() bool { return n.Stats().Bad > before }, 20*time.Second, time.Millisecond, name)
	}
	require.Len(t, n.alive(), 1)
}

// The application cannot hear what nodes tell each other.
func TestAccounts(t *testing.T) {
	all := nodes(t, 2, nil)
	for i, n := range all {
		sub, err := n.NATS().SubscribeSync(">")
		require.NoError(t, err)
		require.NoError(t, n.NATS().Flush())
		n.do(func() { n.beat() })
		require.NoError(t, n.engine.control.Flush())
		require.Eventually(t, func() bool { // until the other node knows of the subscription
			require.NoError(t, all[1-i].NATS().Publish("room", []byte("hello")))
			m, err := sub.NextMsg(10 * time.Millisecond)
			return err == nil && m.Subject == "room"
		}, 20*time.Second, time.Millisecond)
		for {
			m, err := sub.NextMsg(10 * time.Millisecond)
			if err != nil {
				break
			}
			require.Equal(t, "room", m.Subject)
		}
	}
}

// newNATS starts a server that is apart from the nodes.
func newNATS(t *testing.T) *natsserver.Server {
	t.Helper()
	app, control := natsserver.NewAccount("app"), natsserver.NewAccount("control")
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true,
		Accounts: []*natsserver.Account{app, control},
		Users:    []*natsserver.User{{Username: "app", Password: "1", Account: app}, {Username: "control", Password: "2", Account: control}},
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

// Nodes can use a cluster that is there. Sessions live on without it.
func TestExistingCluster(t *testing.T) {
	s := newNATS(t)
	all := nodes(t, 2, func(c *Config) {
		c.URL, c.Routes = s.ClientURL(), nil
		c.App, c.Control = []nats.Option{nats.UserInfo("app", "1")}, []nats.Option{nats.UserInfo("control", "2")}
	})
	require.Nil(t, all[0].Cluster())
	c := newClient(t, all[0])
	all[0].spared(t, 1)
	s.Shutdown()
	s.WaitForShutdown()
	require.Eventually(t, func() bool { return len(all[0].alive()) == 0 }, 20*time.Second, 10*time.Millisecond)
	c.hears(t, "node-0: hello")
	newClient(t, all[1]).hears(t, "node-1: hello")
}

func TestOneAccount(t *testing.T) {
	s := newNATS(t)
	same := []nats.Option{nats.UserInfo("app", "1")}
	_, err := Join(t.Context(), &Config{Name: "a", KeyFile: filepath.Join(t.TempDir(), "key"), URL: s.ClientURL(), App: same, Control: same})
	var wrong *ConfigError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "Control", wrong.Field)
	_, err = Join(t.Context(), &Config{Name: "a", KeyFile: filepath.Join(t.TempDir(), "key"), URL: s.ClientURL(), App: same, Control: []nats.Option{nats.UserInfo("control", "3")}})
	require.ErrorIs(t, err, nats.ErrAuthorization)
}

func TestConfigErrors(t *testing.T) {
	some := []nats.Option{nats.Name("x")}
	for _, c := range []struct {
		field string
		cfg   Config
	}{
		{"Name", Config{}},
		{"Name", Config{Name: strings.Repeat("x", 65)}},
		{"KeyFile", Config{Name: "a"}},
		{"URL", Config{Name: "a", KeyFile: "k", URL: "nats://x", Cluster: ":1"}},
		{"URL", Config{Name: "a", KeyFile: "k", URL: "nats://x", Routes: []string{"x:1"}}},
		{"App", Config{Name: "a", KeyFile: "k", URL: "nats://x", Control: some}},
		{"Control", Config{Name: "a", KeyFile: "k", URL: "nats://x", App: some}},
		{"App", Config{Name: "a", KeyFile: "k", App: some}},
		{"Cluster", Config{Name: "a", KeyFile: "k", Cluster: "6222"}},
		{"Routes", Config{Name: "a", KeyFile: "k", Routes: []string{"x"}}},
	} {
		_, err := Join(t.Context(), &c.cfg)
		var wrong *ConfigError
		require.ErrorAs(t, err, &wrong, c.field)
		require.Equal(t, c.field, wrong.Field, err)
		require.Contains(t, err.Error(), "fleet: Config."+c.field+": ")
	}
	_, err := Join(t.Context(), nil)
	require.ErrorAs(t, err, new(*ConfigError))
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.WriteFile(open, nil, 0o644))
	require.NoError(t, os.Chmod(open, 0o644))
	_, err = Join(t.Context(), &Config{Name: "a", KeyFile: open})
	require.ErrorContains(t, err, "open")
}

// Servers of NATS with another key do not come together.
func TestTLS(t *testing.T) {
	load := func() *tls.Config {
		k, err := loadKey(filepath.Join(t.TempDir(), "key"))
		require.NoError(t, err)
		c, err := k.tlsConfig()
		require.NoError(t, err)
		return c
	}
	ours, other := load(), load()
	require.NoError(t, shake(ours, ours))
	require.Error(t, shake(ours, other))
	require.Error(t, shake(other, ours))
	bare := ours.Clone()
	bare.Certificates = nil
	require.Error(t, shake(bare, ours))
}

func shake(client, server *tls.Config) error {
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		return err
	}
	defer ln.Close()
	heard := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			defer c.Close()
			_, err = c.Read(make([]byte, 1))
		}
		heard <- err
	}()
	c, err := tls.Dial("tcp", ln.Addr().String(), client)
	if err == nil {
		defer c.Close()
		c.Write([]byte{1})
	}
	return errors.Join(err, <-heard)
}

// A node has one Listener, and leaves nothing behind.
func TestClose(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	join := func() {
		n, err := Join(t.Context(), &Config{Name: "a", KeyFile: key})
		require.NoError(t, err)
		ln, err := n.Listen("udp", "127.0.0.1:0", nil)
		require.NoError(t, err)
		_, err = n.Listen("udp", "127.0.0.1:0", nil)
		require.ErrorIs(t, err, errListens)
		require.NoError(t, n.Close())
		require.NoError(t, n.Close())
		_, err = n.Listen("udp", "127.0.0.1:0", nil)
		require.ErrorIs(t, err, net.ErrClosed)
		require.Zero(t, n.Load())
		require.Empty(t, n.Peers())
		n.SetLoad(1)
		require.ErrorIs(t, n.Drain(context.Background()), net.ErrClosed)
		require.NoError(t, ln.Close())
	}
	join()
	before := testenv.Goroutines()
	for range 5 {
		join()
	}
	for end := time.Now().Add(20 * time.Second); testenv.Goroutines() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			b := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, and %d before:\n%s", testenv.Goroutines(), before, b[:runtime.Stack(b, true)])
		}
	}
}

// Other nodes send clients to an address that they can reach.
func TestReachable(t *testing.T) {
	for _, c := range []struct{ cluster, listen, want string }{
		{"", "127.0.0.1:7", "127.0.0.1:7"},
		{"", "[::]:7", "127.0.0.1:7"},
		{"10.1.2.3:4", "0.0.0.0:7", "10.1.2.3:7"},
		{"10.1.2.3:4", "[::ffff:10.9.9.9]:7", "10.9.9.9:7"},
		{":4", "0.0.0.0:7", ""},
		{"host:4", "0.0.0.0:7", ""},
	} {
		n := &Node{cfg: Config{Cluster: c.cluster}}
		a, err := net.ResolveUDPAddr("udp", c.listen)
		require.NoError(t, err)
		got, err := n.reachable(a)
		if c.want == "" {
			require.ErrorContains(t, err, "Public")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got.String())
	}
}

func FuzzMessage(f *testing.F) {
	m := ask{1, []byte("key"), []ticket{{handover.SessionID{1}, []byte("ticket")}}}
	f.Add(m.append(nil))
	b := beat{"a", 1, 2, 3}
	f.Add(b.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := parseAsk(b); ok {
			require.Equal(t, b, m.append(nil))
		}
		if m, ok := parseBeat(b); ok {
			require.Equal(t, b[:len(m.append(nil))], m.append(nil))
		}
		n := &Node{seats: map[handover.SessionID]seat{}}
		n.takeSeats(&peer{}, b)
	})
}

// The end of a session elsewhere ends the one here, unless that is newer.
func TestOverElsewhere(t *testing.T) {
	n := nodes(t, 1, nil)[0]
	c := newClient(t, n)
	c.hears(t, "node-0: hello")
	over := func(less uint64) {
		n.do(func() {
			for id, o := range n.own {
				n.takeChange(&peer{id: instance{1}}, change{changeOver, id, o.generation - less})
			}
		})
	}
	over(1)
	require.NoError(t, n.only(t).Err())
	over(0)
	<-n.only(t).Done()
	require.Equal(t, secure.ErrMoved, n.only(t).Err())
}
