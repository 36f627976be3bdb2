package secure

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/simnet"
)

// A roaming is a client behind a NAT of its own, which talks with the server.
type roaming struct {
	nat    *simnet.NAT
	client *Conn
	number uint64

	mu    sync.Mutex
	heard []time.Duration // between answers
	wrong int             // answers to others
	idle  bool            // nothing was asked for a while
}

// roamers starts n clients, and a server that answers each by its number. They end with stop.
func (w *world) roamers(t *testing.T, l *Listener, n int) (all []*roaming, stop func()) {
	var wg sync.WaitGroup
	for i := range n {
		host := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		public := netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)})
		nat, err := w.net.AddNAT(public, netip.PrefixFrom(host, 32), 0)
		require.NoError(t, err)
		d := w.dialer()
		d.dialUDP = func() (net.PacketConn, error) { return w.net.Listen(host.String() + ":0") }
		client, err := d.Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		wg.Go(func() { echo(server) })
		all = append(all, &roaming{nat: nat, client: client, number: uint64(i)})
	}
	for _, r := range all {
		wg.Go(r.read)
	}
	return all, func() {
		for _, r := range all {
			r.client.Close()
		}
		wg.Wait()
	}
}

func (r *roaming) read() {
	b := make([]byte, 1500)
	last := time.Now()
	for {
		n, err := r.client.Read(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		if n < 8 || binary.LittleEndian.Uint64(b) != r.number {
			r.wrong++
		}
		if !r.idle {
			r.heard = append(r.heard, time.Since(last))
		}
		r.idle = false
		r.mu.Unlock()
		last = time.Now()
	}
}

// ask has all clients send at 10 Hz, each at its own time, and calls f after a while.
func ask(all []*roaming, d time.Duration, f func()) {
	begin := time.Now()
	const interval = 100 * time.Millisecond
	for tick := 0; time.Since(begin) < d; tick++ {
		for i, r := range all {
			time.Sleep(time.Until(begin.Add(time.Duration(tick)*interval + interval*time.Duration(i)/time.Duration(len(all)))))
			r.client.Write(binary.LittleEndian.AppendUint64(nil, r.number))
		}
		if f != nil && time.Since(begin) >= d/4 {
			f()
			f = nil
		}
	}
	time.Sleep(time.Second)
}

// gaps returns the longest pause of each client, in order, and forgets them.
func gapsOf(all []*roaming) (longest []time.Duration) {
	for _, r := range all {
		r.mu.Lock()
		longest = append(longest, slices.Max(append(r.heard, 0)))
		r.heard, r.idle = nil, true
		r.mu.Unlock()
	}
	slices.Sort(longest)
	return longest
}

// When all NATs forget their clients at once, each goes on after 500 ms, 200 ms of chance, two round
// trips and an interval, in 99 of 100 cases. None is lost, and none gets the answers of another.
func TestMovesOfMany(t *testing.T) {
	n, rounds := testenv.Sized(60, 1000), testenv.Sized(4, 20)
	const latency = 25 * time.Millisecond
	inWorld(t, simnet.Link{Latency: latency}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{Sessions: nil})
		all, stop := w.roamers(t, l, n)
		time.Sleep(2 * time.Second)
		var longest []time.Duration
		for round := range rounds {
			gapsOf(all)
			ask(all, 4*time.Second, func() {
				for _, r := range all {
					r.nat.Rebind()
				}
			})
			gaps := gapsOf(all)
			longest = append(longest, gaps...)
			for _, r := range all {
				require.NoError(t, r.client.Err())
				require.GreaterOrEqual(t, r.client.Stats().Moves, uint64(round+1))
				require.Zero(t, r.wrong)
			}
		}
		slices.Sort(longest)
		p99 := longest[len(longest)*99/100-1]
		t.Logf("%d moves: half of the gaps are at most %v, 99 of 100 %v, all %v", len(longest), longest[len(longest)/2], p99, longest[len(longest)-1])
		require.LessOrEqual(t, p99, 500*time.Millisecond+moveJitter+4*latency+100*time.Millisecond)
		require.Equal(t, n, l.Stats().Conns)
		stop()
		synctest.Wait()
		require.Zero(t, l.Stats().Conns)
		require.NoError(t, l.Close())
	})
}

// A phone that leaves its Wi-Fi goes on by mobile data within 1.5 s.
func TestMoveToAnotherInterface(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 30 * time.Millisecond}, func(t *testing.T, w *world) {
		wifi, mobile := netip.MustParseAddr("10.5.0.1"), netip.MustParseAddr("10.5.1.1")
		d := w.dialer()
		d.dialUDP = func() (net.PacketConn, error) { return w.net.ListenAny(0, wifi, mobile) }
		l := w.listen(t, &ListenConfig{})
		client, err := d.Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		go echo(server)
		time.Sleep(time.Second)
		for down := range 6 {
			w.net.SetDown(wifi, down%2 == 0)
			w.net.SetDown(mobile, down%2 == 1)
			k := talkFor(client, 100*time.Millisecond, 4*time.Second)
			require.LessOrEqual(t, k.gap, 1500*time.Millisecond)
			require.NoError(t, client.Err())
		}
		require.GreaterOrEqual(t, client.Stats().Moves, uint64(6))
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
	})
}

// After many moves, nothing is left of them: no goroutine, socket, token or byte.
func TestMovesLeaveNothing(t *testing.T) {
	n := testenv.Sized(500, 10_000)
	inWorld(t, simnet.Link{Latency: 5 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		d, port := w.dialer(), 0
		d.dialUDP = func() (net.PacketConn, error) { // the network remembers all addresses
			port++
			return w.net.Listen(fmt.Sprint("10.0.1.1:", 5000+port%20))
		}
		client, err := d.Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		go echo(server)
		move := func(n int) {
			for range n {
				time.Sleep(time.Second)
				require.NoError(t, client.Rebind(t.Context()))
			}
			time.Sleep(10 * time.Second)
		}
		move(10)
		synctest.Wait()
		heap, goroutines := testenv.Heap(), testenv.Goroutines()
		move(n)
		synctest.Wait()
		require.LessOrEqual(t, testenv.Goroutines(), goroutines)
		require.Less(t, testenv.Heap()-heap, int64(300<<10))
		s := l.Stats()
		require.Equal(t, 1, s.Conns)
		require.LessOrEqual(t, s.Tokens, 400, "those of the latest moves, until they expire")
		require.GreaterOrEqual(t, client.Stats().Moves, uint64(n+10), "and those by TLS")
		_, secrets := live(l)
		require.LessOrEqual(t, len(secrets), 4)
		index, _ := server.ClientIndex()
		require.Zero(t, index)
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
		time.Sleep(time.Minute)
	})
}

// While nothing moves, a session takes at most 100 bytes a second for what moves might need,
// beside the keep alives of netcode.
func TestBytesOfSpares(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		time.Sleep(time.Minute)
		before := w.net.Stats()
		const minutes = 20
		time.Sleep(minutes * time.Minute)
		s := w.net.Stats()
		bytes := s.SentBytes - before.SentBytes
		const keepAlives = 2 * 27 // a second: both sides', each with a prefix, a sequence, 8 bytes and a tag
		each := float64(bytes)/(minutes*60) - keepAlives
		t.Logf("%.1f bytes a second", each)
		require.Less(t, each, 100.0)
		require.NoError(t, client.Err())
		require.NoError(t, server.Err())
		client.Close()
		server.Close()
		require.NoError(t, l.Close())
	})
}

// For a day, a client moves each minute, and once an hour its keys come by TLS.
func TestMovesForADay(t *testing.T) {
	minutes := testenv.Sized(150, 24*60)
	inWorld(t, simnet.Link{Latency: 20 * time.Millisecond, Loss: 0.02}, func(t *testing.T, w *world) {
		nat := w.behindNAT(t)
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		go echo(server)
		logins := l.seats.serial.Load()
		time.Sleep(time.Second)
		var heap int64
		goroutines := 0
		for minute := range minutes {
			nat.Rebind()
			k := talkFor(client, 200*time.Millisecond, 5*time.Second)
			require.Less(t, k.gap, 4*time.Second, "minute %d", minute)
			require.NoError(t, client.Err())
			require.NoError(t, server.Err())
			time.Sleep(54 * time.Second)
			if minute == minutes/10 {
				heap, goroutines = testenv.Heap(), testenv.Goroutines()
			}
		}
		synctest.Wait()
		require.Less(t, testenv.Heap()-heap, int64(300<<10))
		require.LessOrEqual(t, testenv.Goroutines(), goroutines)
		require.GreaterOrEqual(t, client.Stats().Moves, uint64(minutes))
		proofs := l.seats.serial.Load() - logins
		require.GreaterOrEqual(t, proofs, uint64(minutes/60))
		t.Log(fmt.Sprint(client.Stats().Moves, " moves, ", proofs, " tokens by TLS"))
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
		time.Sleep(time.Minute)
	})
}

// A client learns from the system that its address is gone, and does not wait for silence.
func TestMoveAtAnError(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 30 * time.Millisecond}, func(t *testing.T, w *world) {
		hosts := []string{"10.5.0.1:0", "10.5.1.1:0"}
		d := w.dialer()
		d.dialUDP = func() (net.PacketConn, error) { return w.net.Listen(hosts[0]) }
		l := w.listen(t, &ListenConfig{})
		client, err := d.Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		go echo(server)
		time.Sleep(time.Second)
		for range 4 {
			down := netip.MustParseAddrPort(client.LocalAddr().String()).Addr()
			slices.Reverse(hosts)
			w.net.SetDown(down, true)
			k := talkFor(client, 50*time.Millisecond, 2*time.Second)
			w.net.SetDown(down, false)
			require.LessOrEqual(t, k.gap, moveJitter+5*30*time.Millisecond+2*50*time.Millisecond)
			require.NoError(t, client.Err())
		}
		require.EqualValues(t, 4, client.Stats().Moves)
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
	})
}
