package netcode

import (
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/listen"
	"volley/internal/socket"
	"volley/internal/testenv"
	"volley/internal/wire"
)

// forgedRequest is a request that is well-formed, with a token that nobody has sealed.
func forgedRequest(tb testing.TB, now time.Time) []byte {
	b := make([]byte, requestSize)
	putRequest(b, issueAt(tb, now, 1))
	b[500] ^= 1
	return b
}

// Well-formed requests get a quarter of a processor, however many come and whatever each
// costs, and 50 ms at once. Requests that are not well-formed use up none of it.
func TestRequestsGetAQuarter(t *testing.T) {
	for _, cost := range []time.Duration{3 * time.Microsecond, 7 * time.Microsecond, 90 * time.Microsecond} {
		for _, offered := range []float64{0.1, 0.24, 0.5, 4} { // of a processor
			s := newTestServer(nil)
			now := time.Duration(0)
			spent := time.Duration(0)
			looking := false
			s.clock = func() time.Duration { // the second look at it is after the work
				if looking = !looking; !looking {
					spent += cost
					return now + cost
				}
				return now
			}
			refused := forgedRequest(t, testStart)
			refused[5] ^= 1
			var out wire.Batch
			every := time.Duration(float64(cost) / offered)
			dropped := 0
			request, in := forgedRequest(t, testStart), make([]byte, requestSize)
			const length = 300 * time.Millisecond
			for ; now < length; now += every {
				copy(in, request)
				if _, reason := s.receive(testStart, clientAddr(1), in, &out); reason == dropFlood {
					looking = false
					dropped++
				}
				s.receive(testStart, clientAddr(2), refused, &out)
			}
			require.Zero(t, out.Len())
			limit := length/requestShare + requestBurst
			require.LessOrEqual(t, spent, limit+cost, "%v at %v", cost, offered)
			if offered <= 0.25 {
				require.Zero(t, dropped)
			} else {
				require.InDelta(t, float64(limit), float64(spent), float64(2*cost+every))
			}
			require.EqualValues(t, dropped, s.counts.drops[dropFlood])
		}
	}
}

// A request during which the process stood still counts as 100 µs.
func TestRequestThatTookLong(t *testing.T) {
	s := newTestServer(nil)
	looks := time.Duration(0)
	s.clock = func() time.Duration { looks++; return looks * time.Hour }
	var out wire.Batch
	_, reason := s.receive(testStart, clientAddr(1), forgedRequest(t, testStart), &out)
	require.Equal(t, dropTokenDecrypt, reason)
	require.Equal(t, 100*time.Microsecond, s.requestTime.spent)
}

// A client that asks ten times a second beside a flood joins within some of its requests,
// because they come at any time, like those of the flood.
func TestJoinBesideForgedRequests(t *testing.T) {
	s := newTestServer(nil)
	forged, in := forgedRequest(t, testStart), make([]byte, requestSize)
	request := clientSends(newTestClient(testStart, issueAt(t, testStart, 7)), testStart)[0]
	const cost, every, ask = 3 * time.Microsecond, 2 * time.Microsecond, 100 * time.Millisecond
	var now time.Duration
	working := false
	s.clock = func() time.Duration {
		if working = !working; !working {
			return now + cost
		}
		return now
	}
	var out wire.Batch
	rng := rand.New(rand.NewPCG(1, 1))
	next, asked := time.Second, 0
	for flood := time.Duration(0); asked < 100 && out.Len() == 0; working = false {
		if flood < next {
			now, flood = flood, flood+every
			s.receive(testStart, clientAddr(1), in[:copy(in, forged)], &out)
			continue
		}
		asked++
		now, next = next, next+ask+time.Duration(rng.Int64N(int64(time.Millisecond)))
		s.receive(testStart, clientAddr(9), in[:copy(in, request)], &out)
	}
	require.NotZero(t, s.counts.drops[dropFlood])
	require.Less(t, asked, 30)
	t.Logf("request number %d was answered", asked)
}

// BenchmarkStranger is what it costs a listener to judge a datagram of an address without a
// session, beside the system calls. Each comes from another address.
func BenchmarkStranger(b *testing.B) {
	shorter := forgedRequest(b, time.Now())[:requestSize-1]
	foreign := forgedRequest(b, time.Now())
	foreign[requestProtocol] ^= 1
	expired := forgedRequest(b, time.Now())
	clear(expired[requestExpires:requestNonce])
	for _, bb := range []struct {
		name string
		data []byte
	}{
		{"garbage", make([]byte, 100)},
		{"payload", append([]byte{0x15}, make([]byte, 100)...)},
		{"short request", shorter},
		{"foreign request", foreign},
		{"expired request", expired},
		{"forged request", forgedRequest(b, time.Now())},
	} {
		b.Run(bb.name, func(b *testing.B) {
			lc := ListenConfig{PrivateKey: testKey, ProtocolID: testProtocol}
			l, err := lc.newListener()
			require.NoError(b, err)
			s := &strangersSocket{fakeSocket: newFakeSocket(), left: b.N, data: bb.data, over: make(chan struct{})}
			b.ReportAllocs()
			start := testenv.CPUTime()
			require.NoError(b, l.serve(listen.PortOf(s), lc.PrivateKey))
			<-s.over
			b.StopTimer()
			b.ReportMetric(float64(testenv.CPUTime()-start)/float64(b.N), "cpu-ns/op")
			drops := l.Stats().Drops
			b.ReportMetric(float64(drops[dropTokenDecrypt.String()])/b.Elapsed().Seconds(), "opened/s")
			require.EqualValues(b, b.N, total(drops))
			require.NoError(b, l.Close())
		})
	}
}

// A strangersSocket receives the same datagram from so many addresses, seven at a time: what
// is left behind by a read may not be looked at.
type strangersSocket struct {
	*fakeSocket
	left int
	data []byte
	bufs [7][requestSize]byte
	over chan struct{} // closed when there are no more
}

func (s *strangersSocket) ReadBatch(ps []socket.Packet) (n int, err error) {
	for ; n < min(len(ps), len(s.bufs)) && s.left > 0; n++ {
		s.left--
		ps[n] = socket.Packet{Buf: s.bufs[n][:copy(s.bufs[n][:], s.data)], Addr: clientAddr(s.left)}
	}
	if n == 0 {
		close(s.over)
		<-s.done
		return 0, net.ErrClosed
	}
	return n, nil
}
