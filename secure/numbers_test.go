package secure

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/netcode"
	"volley/simnet"
)

// A pair is both ends of a session over loopback.
type pair struct {
	client, server *netcode.Conn
	dialed         *Conn // nil: netcode alone
}

func securePair(t testing.TB, l *Listener) pair {
	c, err := Dial(t.Context(), l.URL("127.0.0.1"))
	require.NoError(t, err)
	s, err := l.AcceptConn(t.Context())
	require.NoError(t, err)
	return pair{c.Conn, s.Conn, c}
}

func netcodePair(t testing.TB, l *netcode.Listener, is *netcode.Issuer, id uint64) pair {
	tok, err := is.Issue(id, nil)
	require.NoError(t, err)
	c, err := netcode.Dial(tok)
	require.NoError(t, err)
	s, err := l.AcceptConn(t.Context())
	require.NoError(t, err)
	return pair{c, s, nil}
}

func plainServer(t testing.TB) (*netcode.Listener, *netcode.Issuer) {
	is := &netcode.Issuer{PrivateKey: netcode.GenerateKey()}
	l, err := netcode.Listen("udp4", "127.0.0.1:0", is.PrivateKey, 0)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	is.Servers = []netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())}
	return l, is
}

func (p pair) close() {
	p.client.Close()
	p.server.Close()
}

// echo sends a message there and back.
func (p pair) echo(t testing.TB, msg, buf []byte) {
	for _, c := range [][2]*netcode.Conn{{p.client, p.server}, {p.server, p.client}} {
		if _, err := c[0].Write(msg); err != nil {
			t.Fatal(err)
		}
		if _, err := c[1].Read(buf); err != nil {
			t.Fatal(err)
		}
	}
}

// Messages of a session allocate nothing, as those of netcode.
func TestMessagesDoNotAllocate(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	l := newServer(t, nil)
	p := securePair(t, l)
	defer p.close()
	msg, buf := make([]byte, 200), make([]byte, 2000)
	require.Zero(t, testing.AllocsPerRun(1000, func() { p.echo(t, msg, buf) }))
}

// A server takes at most 256 bytes more for a session than one of netcode: for the Conn, its
// seat, an identity of 32 bytes, and two fields of the session below. For moves it takes 300
// more.
func TestMemoryOfSessions(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector takes memory")
	}
	const n, fields = 4096, 2*16 + 4*8 + 2*16 + 32 // the last three: netcode.goesOn, a datagram.Moving and its path
	var s seats
	s.init()
	session := new(netcode.Conn)
	before := testenv.Heap()
	for id := range uint64(n) {
		c := &Conn{Conn: session, clientID: id, serial: id + 1, identity: make([]byte, 32), session: newSessionID()}
		s.begin(c)
		_, refusal := s.take(c)
		require.Empty(t, refusal)
	}
	each := (testenv.Heap()-before)/n + fields
	t.Logf("%d bytes", each)
	require.LessOrEqual(t, each, int64(256+300), "the second for moves")
	require.Len(t, s.clients, n)
}

// A counted connection counts the bytes that it sends.
type counted struct {
	net.Conn
	sent *int
}

func (c counted) Write(b []byte) (int, error) {
	*c.sent += len(b)
	return c.Conn.Write(b)
}

// A join and a message take so many bytes on the wire, beside the headers of TCP, UDP and IP.
func TestBytesOnTheWire(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		var datagrams []int
		d := w.tap(func(b []byte) { datagrams = append(datagrams, len(b)) })
		var up, down int
		d.dialTCP = func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			w.tokens <- counted{server, &down}
			return counted{&slowConn{Conn: client, local: w.Addr(), remote: w.Addr()}, &up}, nil
		}
		c, err := d.Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		s, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		t.Logf("a join: %d bytes by TCP to the server, %d to the client, and datagrams of %d", up, down, datagrams)
		require.InDelta(t, 1714, up, 40)
		require.InDelta(t, 4075, down, 40)
		require.Equal(t, []int{1078, 326}, datagrams[:2], "a request and a response")
		require.Equal(t, []int{21, 28, 21, 28}, datagrams[2:], "the client asks for its spare tokens, and whether the server is there")

		for _, n := range []int{1, 100, 1199} {
			datagrams = nil
			_, err := c.Write(make([]byte, n))
			require.NoError(t, err)
			require.Equal(t, []int{n + 19}, datagrams, "a prefix, a sequence, a tag of 16, and a byte of ours")
		}
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
		require.NoError(t, l.Close())
	})
}

// BenchmarkJoin measures the processor time that a join takes at each side, with its end. The
// clients are in a process of their own.
func BenchmarkJoin(b *testing.B) {
	l, err := Listen("udp", "127.0.0.1:0", nil)
	require.NoError(b, err)
	defer l.Close()
	l.service.gate.pace.interval = 1
	p := start(b, "join", l.URL("127.0.0.1"), b.N)
	p.line(b)
	go func() {
		for c, err := l.AcceptConn(b.Context()); err == nil; c, err = l.AcceptConn(b.Context()) {
			go func() {
				c.Read(make([]byte, 1))
				c.Close()
			}()
		}
	}()
	b.ResetTimer()
	before := testenv.CPUTime()
	var client float64
	p.stdin.Close()
	p.scan(b, &client)
	cpu := float64((testenv.CPUTime() - before).Microseconds()) / float64(b.N)
	p.end(b)
	b.ReportMetric(cpu, "server-cpu-us/op")
	b.ReportMetric(client/float64(b.N), "client-cpu-us/op")
}

func init() {
	processes["join"] = func(args []string) {
		left := int64(must(strconv.Atoi(args[1])))
		fmt.Println("ready")
		untilEnd() // until the start
		before := testenv.CPUTime()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for atomic.AddInt64(&left, -1) >= 0 {
					must(Dial(context.Background(), args[0])).Close()
				}
			})
		}
		wg.Wait()
		fmt.Println((testenv.CPUTime() - before).Microseconds())
	}
}

// BenchmarkGameRate compares the processor time of messages at game rates with that of netcode's:
// 50 sessions with an echo 30 times a second, both ends in one process, in five pairs of runs, one
// after the other. It reports the mean ratio, and where it is with a confidence of 95 %.
func BenchmarkGameRate(b *testing.B) {
	const sessions, seconds, hertz, rounds = 50, 2, 30, 5
	run := func(pairs []pair) time.Duration {
		msg, buf := make([]byte, 120), make([]byte, 2000)
		tick := time.NewTicker(time.Second / hertz)
		defer tick.Stop()
		before := testenv.CPUTime()
		for range seconds * hertz {
			<-tick.C
			for _, p := range pairs {
				p.echo(b, msg, buf)
			}
		}
		return testenv.CPUTime() - before
	}
	l, err := Listen("udp", "127.0.0.1:0", nil)
	require.NoError(b, err)
	defer l.Close()
	plain, is := plainServer(b)
	var secures, plains []pair
	for i := range sessions {
		secures = append(secures, securePair(b, l))
		plains = append(plains, netcodePair(b, plain, is, uint64(i+1)))
	}
	for b.Loop() {
		var sum, squares, cpu float64
		for i := range rounds {
			first, second := secures, plains
			if i%2 == 1 {
				first, second = plains, secures
			}
			s, p := run(first), run(second)
			if i%2 == 1 {
				s, p = p, s
			}
			r := float64(s) / float64(p)
			sum, squares, cpu = sum+r, squares+r*r, cpu+s.Seconds()*1e6
		}
		mean := sum / rounds
		margin := 2.776 * math.Sqrt((squares/rounds-mean*mean)/(rounds-1)) // Student's t for five runs
		b.ReportMetric(mean, "ratio")
		b.ReportMetric(mean-margin, "ratio-low")
		b.ReportMetric(mean+margin, "ratio-high")
		b.ReportMetric(cpu/(rounds*sessions*seconds*hertz), "cpu-us/echo")
	}
	for i := range sessions {
		secures[i].close()
		plains[i].close()
	}
}

// BenchmarkMessage measures a message there and back, against netcode alone.
func BenchmarkMessage(b *testing.B) {
	l, err := Listen("udp", "127.0.0.1:0", nil)
	require.NoError(b, err)
	defer l.Close()
	plain, is := plainServer(b)
	for name, p := range map[string]pair{"secure": securePair(b, l), "netcode": netcodePair(b, plain, is, 1)} {
		b.Run(name, func(b *testing.B) {
			msg, buf := make([]byte, 120), make([]byte, 2000)
			for b.Loop() {
				p.echo(b, msg, buf)
			}
		})
		p.close()
	}
}
