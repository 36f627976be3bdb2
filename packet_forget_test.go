package volley

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/pattern"
	"volley/simnet"
)

// packetAt returns a PacketConn at an address of a simulated network.
func packetAt(t *testing.T, n *simnet.Network, addr string, cfg *Config) *PacketConn {
	t.Helper()
	below, err := n.Listen(addr)
	require.NoError(t, err)
	pc, err := NewPacketConn(below, &ListenConfig{Config: cfg})
	require.NoError(t, err)
	return pc
}

// A talk is two PacketConns that send each other numbered messages.
type talk struct {
	t    *testing.T
	a, b *PacketConn
	next uint32
	seen map[uint32]int // how often each was read
}

func newTalk(t *testing.T, n *simnet.Network, idleA, idleB time.Duration) *talk {
	return &talk{t: t, seen: make(map[uint32]int),
		a: packetAt(t, n, "10.0.0.1:7", &Config{IdleTimeout: idleA, firstSequence: 1000}),
		b: packetAt(t, n, "10.0.0.2:7", &Config{IdleTimeout: idleB, firstSequence: 20_000}),
	}
}

func (k *talk) close() { k.a.Close(); k.b.Close() }

// send sends count messages a while apart and returns the first one's number.
func (k *talk) send(from, to *PacketConn, count, size int, pause time.Duration) (first uint32) {
	k.t.Helper()
	first = k.next
	for range count {
		_, err := from.WriteTo(pattern.New(k.next, size), to.LocalAddr())
		require.NoError(k.t, err)
		k.next++
		time.Sleep(pause)
	}
	return first
}

// read reads all there is at both ends.
func (k *talk) read() {
	k.t.Helper()
	for _, pc := range []*PacketConn{k.a, k.b} {
		pc.SetReadDeadline(time.Now().Add(time.Millisecond))
		b := make([]byte, pc.MaxMessageSize())
		for {
			n, _, err := pc.ReadFrom(b)
			if err != nil {
				wantTimeout(k.t, "ReadFrom", err)
				break
			}
			number, err := pattern.Check(b[:n])
			require.NoError(k.t, err)
			k.seen[number]++
			require.Equal(k.t, 1, k.seen[number], "message %d was delivered again", number)
		}
	}
}

// lost returns how many of the messages from first on were not read.
func (k *talk) lost(first uint32) (lost int) {
	for n := first; n < k.next; n++ {
		if k.seen[n] == 0 {
			lost++
		}
	}
	return lost
}

// links are those of these tests: in order, and with copies and overtaking up to
// a time that no datagram lives longer than.
var links = map[string]simnet.Link{
	"plain": {Latency: 20 * time.Millisecond, Ordered: true},
	"mixed": {Latency: 20 * time.Millisecond, Jitter: 3 * time.Millisecond, Duplicate: 0.5},
}

// When one side has forgotten the other, which has not, nothing is lost, whoever
// speaks first, however long they have talked before, and in whatever sizes.
func TestPacketConnForgottenByOne(t *testing.T) {
	for name, link := range links {
		for _, before := range []int{1, 5, 100, 3000} {
			for _, forgetful := range []string{"a", "b", "both"} {
				for _, size := range []int{40, 3000} {
					if size > 1200 && before > 100 {
						continue
					}
					t.Run(fmt.Sprint(name, before, forgetful, size), func(t *testing.T) {
						for seed := range uint64(5) {
							synctest.Test(t, func(t *testing.T) { oneForgets(t, link, seed, before, size, forgetful) })
						}
					})
				}
			}
		}
	}
}

func oneForgets(t *testing.T, link simnet.Link, seed uint64, before, size int, forgetful string) {
	n := simnet.New(seed)
	defer n.Close()
	n.SetDefault(link)
	idleA, idleB := time.Hour, time.Hour
	if forgetful != "b" {
		idleA = 30 * time.Second
	}
	if forgetful != "a" {
		idleB = 30 * time.Second
	}
	k := newTalk(t, n, idleA, idleB)
	defer k.close()
	for i := range before {
		k.send(k.a, k.b, 1, size, 0)
		if i%3 == 0 {
			k.send(k.b, k.a, 1, size, 5*time.Millisecond)
		}
	}
	time.Sleep(time.Second)
	k.read()
	require.Zero(t, k.lost(0))
	time.Sleep(40 * time.Second)
	require.Equal(t, map[bool]int{false: 1, true: 0}[forgetful != "b"], k.a.Stats().Peers)
	require.Equal(t, map[bool]int{false: 1, true: 0}[forgetful != "a"], k.b.Stats().Peers)

	first := k.send(k.a, k.b, 3, size, 100*time.Millisecond) // a has the first word
	k.send(k.b, k.a, 3, size, 100*time.Millisecond)
	k.send(k.a, k.b, 20, size, 10*time.Millisecond)
	time.Sleep(time.Second)
	k.read()
	require.Zero(t, k.lost(first))
	s, _ := k.a.PeerStats(k.b.LocalAddr())
	time.Sleep(40 * time.Second)

	first = k.send(k.b, k.a, 1, size, 0) // and now b, and both at once
	k.send(k.a, k.b, 1, size, 100*time.Millisecond)
	k.send(k.b, k.a, 20, size, 10*time.Millisecond)
	time.Sleep(time.Second)
	k.read()
	require.LessOrEqual(t, k.lost(first), 1, "%+v", s)
}

// A process that is started again on its port, at once, is heard from its first
// message on by those who remember the former one; and hears them.
func TestPacketConnRestarted(t *testing.T) {
	for name, link := range links {
		for _, before := range []int{1, 5, 100, 3000} {
			for _, first := range []string{"restarted", "other"} {
				t.Run(fmt.Sprint(name, before, first), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { restarted(t, link, before, first == "restarted") })
				})
			}
		}
	}
}

func restarted(t *testing.T, link simnet.Link, before int, first bool) {
	n := simnet.New(9)
	defer n.Close()
	n.SetDefault(link)
	k := newTalk(t, n, 0, 0)
	defer func() { k.close() }()
	for range before {
		k.send(k.a, k.b, 1, 40, 0)
		k.send(k.b, k.a, 1, 40, time.Millisecond)
	}
	time.Sleep(time.Second)
	k.read()
	require.NoError(t, k.a.Close())
	time.Sleep(time.Second) // for the copies that are on their way to nobody
	k.a = packetAt(t, n, "10.0.0.1:7", nil)
	begin := k.next
	if first {
		k.send(k.a, k.b, 1, 40, 100*time.Millisecond)
	}
	k.send(k.b, k.a, 1, 40, 100*time.Millisecond)
	for range 20 {
		k.send(k.a, k.b, 1, 40, 10*time.Millisecond)
		k.send(k.b, k.a, 1, 40, 10*time.Millisecond)
	}
	time.Sleep(time.Second)
	k.read()
	require.Zero(t, k.lost(begin))
	s, known := k.a.PeerStats(k.b.LocalAddr())
	require.True(t, known)
	require.Zero(t, s.MessagesLost)
}

// Keepalives of a Conn do not hold a peer, and its greeting makes none.
func TestPacketConnKeepAlivesDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
		pc := packetAt(t, n, "10.0.0.1:7", nil)
		defer pc.Close()
		inner, err := n.Dial("10.0.0.2:7", "10.0.0.1:7")
		require.NoError(t, err)
		var d Dialer
		c, err := d.connect(inner)
		require.NoError(t, err)
		defer c.Close()
		time.Sleep(time.Second)
		require.Zero(t, pc.Stats().Peers)
		require.EqualValues(t, 2, pc.Stats().Unknown)
		c.Write([]byte("hello"))
		time.Sleep(29 * time.Second)
		require.Equal(t, 1, pc.Stats().Peers)
		time.Sleep(2 * time.Second)
		require.Zero(t, pc.Stats().Peers)
		_, err = c.Read(make([]byte, 10)) // and it ends, too
		require.ErrorIs(t, err, ErrIdleTimeout)
	})
}

// Clients that open a socket for each question, and get the port of another one,
// are answered. One in some thousand is not, whose first sequence is that of one before.
func TestPacketConnPortsAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Duplicate: 0.5, Jitter: 5 * time.Millisecond})
		r := rand.New(rand.NewPCG(1, 1))
		server := packetAt(t, n, "10.0.0.1:7", nil)
		go func() {
			b := make([]byte, 100)
			for {
				n, from, err := server.ReadFrom(b)
				if err != nil {
					return
				}
				server.WriteTo(b[:n], from)
			}
		}()
		defer server.Close()
		for i := range 100 {
			question := fmt.Sprint("question ", i)
			client := packetAt(t, n, "10.0.0.2:7", &Config{firstSequence: 1 + r.IntN(32_511)})
			_, err := client.WriteTo([]byte(question), server.LocalAddr())
			require.NoError(t, err)
			client.SetReadDeadline(time.Now().Add(time.Second))
			b := make([]byte, 100)
			for {
				n, _, err := client.ReadFrom(b)
				require.NoError(t, err, "%s", question)
				if string(b[:n]) == question { // not a late copy of the last answer
					break
				}
			}
			client.Close()
			time.Sleep(50 * time.Millisecond)
		}
		s, _ := server.PeerStats(&net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 7})
		require.EqualValues(t, 100, s.MessagesReceived)
	})
}

// A message that comes just as its peer is forgotten is not lost.
func TestPacketConnForgottenThatMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		k := newTalk(t, n, 30*time.Second, 30*time.Second)
		defer k.close()
		for range 50 {
			k.send(k.a, k.b, 1, 40, 0)
			synctest.Wait()
			k.read()
			time.Sleep(30 * time.Second)
		}
		require.Zero(t, k.lost(0))
	})
}
