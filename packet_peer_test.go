package volley

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"volley/internal/pattern"
	"volley/internal/testenv"
	"volley/simnet"
)

// A write to a peer that just then turns out to have started again goes to the
// new one: an error that matches net.ErrClosed would be taken for the end of the
// PacketConn.
func TestPacketConnWritesToAPeerThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		a := packetAt(t, n, "10.0.0.1:7", nil)
		defer a.Close()
		b := packetAt(t, n, "10.0.0.2:7", nil)
		defer b.Close()
		_, err := a.WriteTo([]byte("one"), b.LocalAddr())
		require.NoError(t, err)
		c := &a.mux.Handler(addrPortOf(a.sock, b.LocalAddr())).(*peerHandler).conn
		c.mu.Lock()
		c.user.EndLocked(&c.out, errForgotten) // as HandleTick begins
		c.mu.Unlock()
		_, err = a.WriteTo([]byte("two"), b.LocalAddr())
		require.NoError(t, err)
		c.set.onClose(c)
		require.Equal(t, 1, a.Stats().Peers)
	})
}

// A peer that is let in while the PacketConn is being closed does not keep the
// socket open.
func TestPacketConnClosedWhileAPeerComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		below, err := n.Listen("10.0.0.1:7")
		require.NoError(t, err)
		var pc *PacketConn
		pc, err = NewPacketConn(below, &ListenConfig{
			Config: &Config{IdleTimeout: -1},
			Filter: func(netip.AddrPort) bool { pc.Close(); return true },
		})
		require.NoError(t, err)
		floodSocket(t, n, 0).WriteTo(forged(0, 10), pc.LocalAddr())
		synctest.Wait()
		require.Zero(t, pc.Stats().Peers)
		require.ErrorIs(t, below.SetReadDeadline(time.Time{}), net.ErrClosed)
	})
}

// A message that nobody reads does not hold what was known of a peer that is
// forgotten.
func TestPacketConnUnreadMessageHoldsNoPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		pc := packetAt(t, n, "10.0.0.1:7", nil)
		defer pc.Close()
		s := floodSocket(t, n, 0)
		s.WriteTo(forged(0, 10), pc.LocalAddr())
		other := floodSocket(t, n, 1)
		synctest.Wait()
		p := weak.Make((*packetPeer)(pc.mux.Handler(addrPortOf(pc.sock, s.LocalAddr())).(*peerHandler)))
		require.NotNil(t, p.Value())
		time.Sleep(31 * time.Second)
		other.WriteTo(forged(0, 10), pc.LocalAddr()) // so that nothing remembers who came last
		synctest.Wait()
		for range 3 {
			runtime.GC()
		}
		require.Nil(t, p.Value())
		_, from, err := pc.ReadFrom(make([]byte, 10))
		require.NoError(t, err)
		require.Equal(t, s.LocalAddr().String(), from.String())
	})
}

// While somebody is writing to a peer that is to be forgotten, its timer does not
// go off again at once, and again.
func TestPacketConnWaitsForAWriteBeforeItForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		pc := packetAt(t, n, "10.0.0.1:7", nil)
		defer pc.Close()
		s := floodSocket(t, n, 0)
		s.WriteTo(forged(0, 10), pc.LocalAddr())
		synctest.Wait()
		h := pc.mux.Handler(addrPortOf(pc.sock, s.LocalAddr())).(*peerHandler)
		h.conn.mu.Lock()
		h.conn.out.Batch(h.conn.now()) // as if a Write were about to send
		h.conn.mu.Unlock()
		time.Sleep(31 * time.Second)
		now := time.Now()
		require.GreaterOrEqual(t, h.HandleTick(now, nil).Sub(now), time.Millisecond)
	})
}

// packetAt returns a PacketConn at an address of a simulated network.
func packetAt(t *testing.T, n *simnet.Network, addr string, cfg *Config) *PacketConn {
	t.Helper()
	below, err := n.Listen(addr)
	require.NoError(t, err)
	pc, err := NewPacketConn(below, &ListenConfig{Config: cfg})
	require.NoError(t, err)
	return pc
}

// startsAt has each connection begin with a sequence.
func startsAt(sequence int) func() int { return func() int { return sequence } }

// startsOf has each connection begin with a random sequence, as usual, but the same
// ones for a seed and a side.
func startsOf(seed, side uint64) func() int {
	r := rand.New(rand.NewPCG(seed, side))
	return func() int { return 1 + r.IntN(32_511) }
}

// A talk is two PacketConns that send each other numbered messages.
type talk struct {
	t    *testing.T
	a, b *PacketConn
	next uint32
	seen map[uint32]int // how often each was read
}

func newTalk(t *testing.T, n *simnet.Network, seed uint64, idleA, idleB time.Duration) *talk {
	return &talk{t: t, seen: make(map[uint32]int),
		a: packetAt(t, n, "10.0.0.1:7", &Config{IdleTimeout: idleA, firstSequence: startsOf(seed, 1)}),
		b: packetAt(t, n, "10.0.0.2:7", &Config{IdleTimeout: idleB, firstSequence: startsOf(seed, 2)}),
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

// When one side has forgotten the other, which has not, nothing is lost, whichever side
// speaks first, however long they have talked before, in all sizes of messages, and
// wherever they begin.
func TestPacketConnForgottenByOne(t *testing.T) {
	for seed := range uint64(testenv.Sized(testenv.Raced(300, 100), 5000)) {
		r := rand.New(rand.NewPCG(seed, 3))
		before, size := []int{1, 5, 100}[r.IntN(3)], []int{40, 3000}[r.IntN(2)]
		if seed%50 == 0 {
			before, size = 3000, 40
		}
		link, forgetful := []string{"plain", "mixed"}[r.IntN(2)], []string{"a", "b", "both"}[r.IntN(3)]
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d: %d messages of %d over a %s link, forgotten by %s", seed, before, size, link, forgetful)
				}
			}()
			oneForgets(t, links[link], seed, before, size, forgetful)
		})
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
	k := newTalk(t, n, seed, idleA, idleB)
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

// A process that is started again on its port, at once, is heard from its first message
// on by those who remember the former one, and hears them. If its first sequence is near
// those of the former one, its first message may be lost, and some more may be told Lost.
func TestPacketConnRestarted(t *testing.T) {
	for seed := range uint64(testenv.Sized(testenv.Raced(300, 100), 5000)) {
		r := rand.New(rand.NewPCG(seed, 4))
		before := []int{1, 5, 100}[r.IntN(3)]
		if seed%50 == 0 {
			before = 3000
		}
		link, first, near := []string{"plain", "mixed"}[r.IntN(2)], r.IntN(2) == 0, r.IntN(4) == 0
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d: %d messages over a %s link, the restarted one is the first: %v, near: %v", seed, before, link, first, near)
				}
			}()
			restarted(t, links[link], r, seed, before, first, near)
		})
	}
}

func restarted(t *testing.T, link simnet.Link, r *rand.Rand, seed uint64, before int, first, near bool) {
	n := simnet.New(seed)
	defer n.Close()
	n.SetDefault(link)
	k := newTalk(t, n, seed, 0, 0)
	defer func() { k.close() }()
	for range before {
		k.send(k.a, k.b, 1, 40, 0)
		k.send(k.b, k.a, 1, 40, time.Millisecond)
	}
	time.Sleep(time.Second)
	k.read()
	require.NoError(t, k.a.Close())
	time.Sleep(time.Second) // for the copies that are on their way to nobody

	former, start := startsOf(seed, 1)(), startsOf(seed, 5)()
	if near {
		start = max(1, former-100+r.IntN(before+200))
	}
	near = start > former-100 && start < former+2*before+100 // acknowledgements take sequences, too
	k.a = packetAt(t, n, "10.0.0.1:7", &Config{firstSequence: startsAt(start)})
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
	s, known := k.a.PeerStats(k.b.LocalAddr())
	require.True(t, known)
	if near {
		require.LessOrEqual(t, s.MessagesLost, uint64(32))
		require.LessOrEqual(t, k.lost(begin), 1)
		return
	}
	require.Zero(t, k.lost(begin))
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
// are answered, wherever they begin. If a client begins near the last clients' sequences,
// its first message may not be heard, since it could be a copy.
func TestPacketConnPortsAreUsedAgain(t *testing.T) {
	for range testenv.Sized(20, 500) {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) { portsAreUsedAgain(t, seed) })
	}
}

func portsAreUsedAgain(t *testing.T, seed uint64) {
	n := simnet.New(seed)
	defer n.Close()
	n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Duplicate: 0.5, Jitter: 5 * time.Millisecond})
	server := packetAt(t, n, "10.0.0.1:7", &Config{firstSequence: startsOf(seed, 1)})
	defer server.Close()
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
	draw, unheard := startsOf(seed, 2), 0
	var starts []int
	for i := range 100 {
		start := draw()
		near := slices.ContainsFunc(starts[max(0, i-4):], func(s int) bool { return max(s-start, start-s) <= 128 })
		starts = append(starts, start)
		question := fmt.Sprint("question ", i)
		client := packetAt(t, n, "10.0.0.2:7", &Config{firstSequence: startsAt(start)})
		_, err := client.WriteTo([]byte(question), server.LocalAddr())
		require.NoError(t, err)
		client.SetReadDeadline(time.Now().Add(time.Second))
		b := make([]byte, 100)
		for {
			n, _, err := client.ReadFrom(b)
			if err != nil && near {
				unheard++
				break
			}
			require.NoError(t, err, "seed %d: %s", seed, question)
			if string(b[:n]) == question { // not a late copy of the last answer
				break
			}
		}
		client.Close()
		time.Sleep(50 * time.Millisecond)
	}
	s, _ := server.PeerStats(&net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 7})
	require.EqualValues(t, 100-unheard, s.MessagesReceived)
}

// A message that comes just as its peer is forgotten is not lost.
func TestPacketConnForgottenThatMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		k := newTalk(t, n, 1, 30*time.Second, 30*time.Second)
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
