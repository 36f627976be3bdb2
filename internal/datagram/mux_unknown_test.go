package datagram

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/internal/wire"
)

// An order writes down who is given what, over all Handlers.
type order struct {
	*fakeAcceptor
	got []string
	// cost is what a stranger takes, and asked how many there were.
	cost  atomic.Int64
	asked atomic.Int64
}

func newOrder() *order {
	o := &order{fakeAcceptor: new(fakeAcceptor)}
	o.handler = func(Conn) Handler { return o.newHandler() }
	return o
}

func (o *order) newHandler() *fakeHandler {
	return &fakeHandler{batch: func(bufs [][]byte, _ *wire.Batch) {
		for _, b := range bufs {
			o.got = append(o.got, string(b))
		}
	}}
}

func (o *order) HandleUnknown(now time.Time, from netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) Admit {
	o.asked.Add(1)
	time.Sleep(time.Duration(o.cost.Load()))
	return o.fakeAcceptor.HandleUnknown(now, from, late, bufs, out)
}

func withOrder(t *testing.T, f func(t *testing.T, o *order, m *Mux, s *fakeSocket)) {
	o := newOrder()
	withMux(t, MuxConfig{}, o.fakeAcceptor, func(t *testing.T, m *Mux, s *fakeSocket) {
		m.cfg.Acceptor = o // nothing is read before the first packet
		f(t, o, m, s)
	})
}

func join(pss ...[]socket.Packet) (all []socket.Packet) {
	for _, ps := range pss {
		all = append(all, ps...)
	}
	return all
}

// What belongs to Conns is handled before what strangers have sent, of all that was
// read together, and either in the order in which it came.
func TestMuxKnownFirst(t *testing.T) {
	withOrder(t, func(t *testing.T, o *order, m *Mux, s *fakeSocket) {
		s.in <- join(from(peerAddr(1), "1a"), from(peerAddr(2), "2a"))
		synctest.Wait()
		s.in <- join(from(peerAddr(3), "3a"), from(peerAddr(1), "1b"), from(peerAddr(4), "4a", "4b"), from(peerAddr(2), "2b"), from(peerAddr(1), "1c"))
		synctest.Wait()
		require.Equal(t, []string{"1a", "2a", "1b", "2b", "1c", "3a", "4a", "4b"}, o.got)
	})
}

// Somebody who becomes known within a batch, by a packet of its own or since it is
// being dialed, gets what it has sent in order.
func TestMuxBecomesKnown(t *testing.T) {
	withOrder(t, func(t *testing.T, o *order, m *Mux, s *fakeSocket) {
		dialed := o.newHandler()
		dials := o.newHandler()
		note := dials.batch
		dials.batch = func(bufs [][]byte, out *wire.Batch) {
			note(bufs, out)
			p, err := m.Dial(peerAddr(9))
			require.NoError(t, err)
			require.NoError(t, p.Attach(dialed))
		}
		k, err := m.Dial(peerAddr(1))
		require.NoError(t, err)
		require.NoError(t, k.Attach(dials))
		s.in <- join(from(peerAddr(9), "9a"), from(peerAddr(2), "2a"), from(peerAddr(1), "1a"), from(peerAddr(9), "9b"), from(peerAddr(2), "2b"), from(peerAddr(9), "9c"))
		synctest.Wait()
		require.Equal(t, []string{"1a", "9a", "2a", "9b", "2b", "9c"}, o.got)
		require.Equal(t, []string{"9a", "9b", "9c"}, dialed.received())
		require.EqualValues(t, 1, o.asked.Load())
		m.Handler(peerAddr(9)).(*fakeHandler).batch = nil
		k.Close()
		peerOf(m, 9).Close()
	})
}

func peerOf(m *Mux, n int) *Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peers[peerAddr(n)]
}

// A flood of strangers takes an eighth of the time beside a socket that always has more,
// and 20 ms at first. All else of it is counted; a peer that is known misses nothing, and
// one that knocks again and again gets in.
func TestMuxShedsUnknown(t *testing.T) {
	withOrder(t, func(t *testing.T, o *order, m *Mux, s *fakeSocket) {
		s.in <- from(peerAddr(1), "known")
		synctest.Wait()
		o.cost.Store(int64(50 * time.Microsecond))
		o.asked.Store(0)
		const batches = 4000
		begin, next := time.Now(), 100
		for i := range batches {
			ps := from(peerAddr(1), "known")
			for range readPackets - 2 {
				next++
				ps = append(ps, from(peerAddr(next), "no")...)
			}
			if i%10 == 0 {
				next++
				ps = append(ps, from(peerAddr(2), "knocks")...)
			} else {
				ps = append(ps, from(peerAddr(1), "known")...)
			}
			s.in <- ps
			time.Sleep(100 * time.Microsecond)
			synctest.Wait()
		}
		passed := time.Since(begin)
		spent := time.Duration(o.asked.Load() * o.cost.Load())
		require.InDelta(t, float64(passed)/8+float64(20*time.Millisecond), float64(spent), float64(passed)/80)
		stats := m.Stats()
		require.EqualValues(t, batches*(readPackets-2), stats.Unknown)
		require.Greater(t, stats.Shed, uint64(batches*(readPackets-2)/2))
		require.Less(t, stats.Shed, stats.Unknown)
		require.Len(t, o.peer(0).handler.(*fakeHandler).received(), 1+batches*2-batches/10)
		require.NotNil(t, peerOf(m, 2), "it knocked 400 times")
	})
}

// As long as reads leave nothing behind, strangers take what they need; and one during
// which the reader stood still does not count for all of that time.
func TestMuxShedsOnlyBesideMore(t *testing.T) {
	withOrder(t, func(t *testing.T, o *order, m *Mux, s *fakeSocket) {
		batch := func(n int) {
			var ps []socket.Packet
			for i := range n {
				ps = append(ps, from(peerAddr(10+i), "no")...)
			}
			s.in <- ps
			synctest.Wait()
		}
		o.cost.Store(int64(time.Second))
		batch(readPackets)
		time.Sleep(time.Minute)
		for range 20 {
			batch(readPackets)
			time.Sleep(time.Minute / 10)
		}
		require.Zero(t, m.Stats().Shed)
		o.cost.Store(int64(90 * time.Microsecond))
		for range 1000 {
			batch(readPackets - 1)
			time.Sleep(time.Millisecond)
		}
		batch(readPackets) // what they took is not held against this
		batch(readPackets)
		time.Sleep(10 * time.Millisecond)
		require.EqualValues(t, readPackets, m.Stats().Shed)
		batch(readPackets)
		time.Sleep(time.Second)
		require.EqualValues(t, readPackets, m.Stats().Shed)
	})
}

// Datagrams that are dropped count one by one.
func TestMuxShedCounts(t *testing.T) {
	withOrder(t, func(t *testing.T, o *order, m *Mux, s *fakeSocket) {
		m.reading.unknown.spent = time.Hour
		m.reading.unknown.at = time.Now()
		ps := []socket.Packet{{Buf: []byte("aabbc"), Segment: 2, Addr: peerAddr(1)}}
		for len(ps) < readPackets {
			ps = append(ps, from(peerAddr(2), "x")...)
		}
		s.in <- ps
		synctest.Wait()
		require.EqualValues(t, 3+readPackets-1, m.Stats().Shed)
		require.EqualValues(t, m.Stats().Shed, m.Stats().Unknown)
		require.Zero(t, o.asked.Load())
		s.in <- from(peerAddr(3), "beside nothing else")
		synctest.Wait()
		require.EqualValues(t, 1, o.asked.Load())
	})
}
