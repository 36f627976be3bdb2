package volley

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/pattern"
	"volley/internal/testenv"
	"volley/reliable"
	"volley/simnet"
)

// crowdOf connects clients to a Listener on a network.
func crowdOf(t *testing.T, n int) (clients, servers []*Conn) {
	t.Helper()
	_, l, dial := network(t, &ListenConfig{})
	for i := range n {
		clients = append(clients, dial(fmt.Sprintf("10.0.1.%d:%d", 1+i%250, 1+i/250), &Dialer{}))
		servers = append(servers, accept(t, l))
	}
	t.Cleanup(func() {
		for i := range n {
			clients[i].Close()
			servers[i].Close()
		}
	})
	return clients, servers
}

// sending reports whether somebody transmits on c, or is about to.
func sending(c *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Busy() || c.out.Pending()
}

// keepsReceipts reports whether receipts are on.
func keepsReceipts(c *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.receipts != nil
}

// Each gets its message, once and among those of Write in the order of the
// calls, whether it fits one datagram or not.
func TestWriteAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowdOf(t, 150)
		large := pattern.New(7, 5000)
		for _, s := range servers {
			_, err := s.Write([]byte("before"))
			require.NoError(t, err)
		}
		require.NoError(t, WriteAll([]byte("to all"), slices.Values(servers)))
		require.NoError(t, WriteAll(nil, slices.Values(servers)))
		require.NoError(t, WriteAll(large, slices.Values(servers)))
		require.NoError(t, WriteAll([]byte("x"), slices.Values(servers[:0])))
		for _, s := range servers {
			_, err := s.Write([]byte("behind"))
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		for i, c := range clients {
			for _, want := range []string{"before", "to all", string(large), "behind"} {
				wantMessage(t, c, want)
			}
			require.Zero(t, c.user.In.Len())
			require.EqualValues(t, 4, servers[i].Stats().MessagesDelivered)
			require.False(t, sending(servers[i]))
		}
	})
}

// The messages of WriteEach are copied at once, and those for one connection
// arrive in order, be they more than its queue has room for.
func TestWriteEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowdOf(t, 3)
		const rounds = 500
		buf := make([]byte, 4)
		msgs := func(yield func(*Conn, []byte) bool) {
			for k := range rounds {
				for i, s := range servers {
					if i == 1 && k%2 == 1 {
						continue
					}
					binary.BigEndian.PutUint32(buf, uint32(k*10+i))
					if !yield(s, buf) {
						return
					}
				}
			}
		}
		require.NoError(t, WriteEach(msgs))
		time.Sleep(time.Second)
		for i, c := range clients {
			for k := 0; k < rounds; k++ {
				if i == 1 && k%2 == 1 {
					continue
				}
				m, err := c.ReadMessage(context.Background(), nil)
				require.NoError(t, err)
				require.EqualValues(t, k*10+i, binary.BigEndian.Uint32(m))
			}
			require.Zero(t, c.user.In.Len())
		}
	})
}

// A connection that has receipts on has them for what WriteAll sends.
func TestWriteAllReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, servers := crowdOf(t, 100)
		x, y := Pipe(nil)
		defer y.Close()
		defer x.Close()
		conns := append(servers, x)
		require.NoError(t, WriteAll([]byte("a message"), slices.Values(conns)))
		for _, c := range conns {
			require.False(t, keepsReceipts(c))
			c.AppendReceipts(nil)
		}
		require.NoError(t, WriteAll(nil, slices.Values(conns)))
		for range 3 {
			require.NoError(t, WriteAll([]byte("a message"), slices.Values(conns)))
			time.Sleep(time.Second)
			for _, c := range conns {
				r := c.AppendReceipts(nil)
				require.NotEmpty(t, r)
				require.Equal(t, Delivered, r[len(r)-1].Fate)
			}
		}
	})
}

// What is framed leaves in the order of framing, whoever writes; what was
// written arrives, for nothing gets lost on the way; and Close finds its way.
func TestWriteAllConcurrently(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			clients, servers := crowdOf(t, 90)
			const writers, rounds = 4, 60
			var closed sync.Map
			var counts [writers]map[*Conn]uint32 // written
			var tasks sync.WaitGroup
			for w := range writers {
				counts[w] = make(map[*Conn]uint32)
				rng := rand.New(rand.NewPCG(seed, uint64(w)))
				tasks.Go(func() {
					for round := range rounds {
						from := rng.IntN(len(servers))
						conns := servers[from:min(len(servers), from+rng.IntN(len(servers)))]
						if w == 0 && round == rounds/2 {
							closed.Store(servers[11], true)
							servers[11].Close()
						}
						msg := func(c *Conn) []byte {
							return binary.BigEndian.AppendUint32([]byte{byte(w)}, counts[w][c])
						}
						each := func(yield func(*Conn, []byte) bool) {
							for _, c := range conns {
								if !yield(c, msg(c)) {
									return
								}
							}
						}
						if rng.IntN(3) > 0 {
							err := WriteEach(each)
							for _, c := range conns {
								if _, gone := closed.Load(c); !gone {
									counts[w][c]++
								}
							}
							var all *WriteAllError
							if errors.As(err, &all) {
								for c, err := range all.Failed {
									if c != servers[11] {
										t.Errorf("writer %d: %v", w, err)
									}
								}
							}
						} else {
							for c, m := range each {
								if _, err := c.Write(m); err != nil && c != servers[11] {
									t.Errorf("writer %d: %v", w, err)
								}
								counts[w][c]++
							}
						}
						time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
					}
				})
			}
			tasks.Wait()
			time.Sleep(time.Second)
			for i, c := range clients {
				if i == 11 {
					continue
				}
				var next [writers]uint32
				for c.user.In.Len() > 0 {
					m, err := c.ReadMessage(context.Background(), nil)
					require.NoError(t, err)
					require.Equal(t, next[m[0]], binary.BigEndian.Uint32(m[1:]), "client %d, writer %d", i, m[0])
					next[m[0]]++
				}
				for w := range writers {
					require.Equal(t, counts[w][servers[i]], next[w], "messages of writer %d for client %d", w, i)
				}
				require.Zero(t, c.Stats().PacketsStale)
				require.False(t, sending(servers[i]))
			}
		})
	}
}

// A message for a connection on which somebody is transmitting leaves behind
// that, and the others need not wait for it.
func TestWriteAllBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowdOf(t, 3)
		s := servers[1]
		s.mu.Lock()
		require.NoError(t, s.out.AcquireUnlocking(s.out.Patience()))
		s.mu.Unlock()
		require.NoError(t, WriteAll([]byte("hello"), slices.Values(servers)))
		time.Sleep(time.Second)
		wantMessage(t, clients[0], "hello")
		wantMessage(t, clients[2], "hello")
		require.Zero(t, clients[1].user.In.Len())
		s.mu.Lock()
		s.out.ReleaseUnlocking(s.out.Patience())
		s.mu.Unlock()
		wantMessage(t, clients[1], "hello")
	})
}

// A connection whose queue is full is waited for when all others are served, for
// all of its messages, which keep their order.
func TestWriteEachWaitsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowdOf(t, 2)
		s := servers[0]
		s.mu.Lock()
		require.NoError(t, s.out.AcquireUnlocking(s.out.Patience()))
		s.mu.Unlock()
		queued := 0
		full := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.out.Full()
		}
		for ; !full(); queued++ {
			_, err := s.Write([]byte("queued"))
			require.NoError(t, err)
		}
		var tasks sync.WaitGroup
		tasks.Go(func() {
			time.Sleep(time.Second)
			s.mu.Lock()
			s.out.ReleaseUnlocking(s.out.Patience())
			s.mu.Unlock()
		})
		start := time.Now()
		var served time.Duration
		tasks.Go(func() {
			for _, want := range []string{"1", "3"} {
				m, _ := clients[1].ReadMessage(context.Background(), nil)
				if string(m) != want {
					t.Errorf("read %q, want %q", m, want)
				}
			}
			served = time.Since(start)
		})
		require.NoError(t, WriteEach(func(yield func(*Conn, []byte) bool) {
			for i := range 4 {
				yield(servers[i%2], []byte{'0' + byte(i)})
			}
		}))
		tasks.Wait()
		require.Less(t, served, time.Second)
		time.Sleep(time.Second)
		for range queued {
			wantMessage(t, clients[0], "queued")
		}
		wantMessage(t, clients[0], "0")
		wantMessage(t, clients[0], "2")
	})
}

// deafCrowd connects sockets that nobody reads to a Listener.
func deafCrowd(tb testing.TB, n int, cfg *Config) (servers []*Conn) {
	tb.Helper()
	lc := ListenConfig{Config: cfg}
	l, err := lc.Listen(tb.Context(), "udp4", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { l.Close() })
	l.SetDeadline(time.Now().Add(time.Minute))
	for range n {
		raw, err := net.DialUDP("udp4", nil, l.Addr().(*net.UDPAddr))
		require.NoError(tb, err)
		_, err = raw.Write(reliable.AppendHeader(nil, reliable.Header{Sequence: 0, Ack: 65535}))
		require.NoError(tb, err)
		s, err := l.AcceptConn(context.Background())
		require.NoError(tb, err)
		servers = append(servers, s)
		tb.Cleanup(func() { s.Close(); raw.Close() })
	}
	return servers
}

// A call allocates the function that it gives to the iterator, which nobody else
// may ever be given, and nothing else.
func TestWriteAllAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	// The peers never answer, and slow machines need long.
	servers := deafCrowd(t, 70, &Config{maxWindow: 256, Receipts: 10, IdleTimeout: -1})
	msg := make([]byte, 100)
	all := slices.Values(servers)
	var each iter.Seq2[*Conn, []byte] = func(yield func(*Conn, []byte) bool) {
		for _, s := range servers {
			if !yield(s, msg) {
				return
			}
		}
	}
	var err error
	for name, f := range map[string]func(){
		"WriteAll":  func() { err = WriteAll(msg, all) },
		"WriteEach": func() { err = WriteEach(each) },
	} {
		for range 300 { // the windows reach their size
			f()
		}
		n := testing.AllocsPerRun(100, f)
		require.NoError(t, err) // the connections live: sending was counted
		if n > 1 {
			t.Errorf("%s: %v allocations for 70 messages, want 1", name, n)
		}
	}
}

// BenchmarkWriteAll is a message to each of 1,000 peers that nobody reads.
func BenchmarkWriteAll(b *testing.B) {
	servers := deafCrowd(b, 1000, nil)
	msg := make([]byte, 200)
	all := slices.Values(servers)
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteAll(msg, all); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(servers)), "ns/message")
}

// An error concerns one connection alone, and is told with it.
func TestWriteAllErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowdOf(t, 70)
		servers[3].Close()
		servers[5].SetWriteDeadline(time.Now().Add(-time.Second))
		x, y := Pipe(nil) // waits for room, and cannot gather
		defer y.Close()
		defer x.Close()
		small, _ := Pipe(&Config{MaxMessageSize: 2})
		defer small.Close()
		conns := append(slices.Clone(servers), nil, clients[0], x, small)

		err := WriteAll([]byte("hello"), slices.Values(conns))
		var all *WriteAllError
		require.ErrorAs(t, err, &all)
		require.Equal(t, len(conns), all.Of)
		want := map[*Conn]error{servers[3]: net.ErrClosed, servers[5]: os.ErrDeadlineExceeded, nil: syscall.EINVAL, small: nil}
		require.Len(t, all.Failed, len(want))
		for c, failure := range all.Failed {
			target, ok := want[c]
			require.True(t, ok, "failed: %v", failure)
			if target != nil {
				require.ErrorIs(t, failure, target)
				require.ErrorIs(t, err, target)
			}
			if c != nil {
				require.IsType(t, &net.OpError{}, failure)
			}
		}
		var tooLarge *MessageTooLargeError
		require.ErrorAs(t, err, &tooLarge)
		require.Contains(t, err.Error(), "4 of 74 messages not written, the first: ")

		time.Sleep(time.Second)
		for i, c := range clients {
			if i == 3 || i == 5 {
				require.Zero(t, c.user.In.Len())
			} else {
				wantMessage(t, c, "hello")
			}
		}
		wantMessage(t, servers[0], "hello")
		wantMessage(t, y, "hello")

		err = WriteAll(make([]byte, servers[0].MaxMessageSize()+1), slices.Values(servers[:1]))
		var large *MessageTooLargeError
		require.ErrorAs(t, err, &large)
		_, single := servers[0].Write(make([]byte, servers[0].MaxMessageSize()+1))
		require.Equal(t, single.Error(), err.Error())
	})
}

// crowdAt returns connections that a Listener has accepted at a socket that wrap has
// made of one.
func crowdAt(t *testing.T, n int, wrap func(net.PacketConn) net.PacketConn) (servers []*Conn) {
	t.Helper()
	network := simnet.New(1)
	t.Cleanup(func() { network.Close() })
	pc, err := network.Listen("10.0.0.1:7777")
	require.NoError(t, err)
	l, err := new(ListenConfig).ListenOn(wrap(pc))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	for i := range n {
		inner, err := network.Dial(fmt.Sprintf("10.0.0.2:%d", 1+i), "10.0.0.1:7777")
		require.NoError(t, err)
		c := mustConn(inner, nil)
		t.Cleanup(func() { c.Close() })
		_, err = c.Write([]byte("hello"))
		require.NoError(t, err)
		s := accept(t, l)
		t.Cleanup(func() { s.Close() })
		servers = append(servers, s)
	}
	return servers
}

// A brokenPacketConn refuses to send from a moment on.
type brokenPacketConn struct {
	net.PacketConn
	mu  sync.Mutex
	err error
}

func (b *brokenPacketConn) wrap(pc net.PacketConn) net.PacketConn {
	b.PacketConn = pc
	return b
}

func (b *brokenPacketConn) WriteTo(p []byte, to net.Addr) (int, error) {
	b.mu.Lock()
	err := b.err
	b.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return b.PacketConn.WriteTo(p, to)
}

// A socket that is gone is an error on each of its connections, and what it
// refuses for the moment on none.
func TestWriteAllBrokenSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken brokenPacketConn
		_, others := crowdOf(t, 2)
		servers := slices.Concat(others, crowdAt(t, 5, broken.wrap))
		breaks := func(err error) {
			synctest.Wait() // nobody transmits, who would send a message later
			broken.mu.Lock()
			broken.err = err
			broken.mu.Unlock()
		}
		breaks(syscall.ENOBUFS)
		require.NoError(t, WriteAll([]byte("hello"), slices.Values(servers)))
		breaks(net.ErrClosed)
		for range 2 {
			var all *WriteAllError
			require.ErrorAs(t, WriteAll([]byte("hello"), slices.Values(servers)), &all)
			synctest.Wait()
			require.Len(t, all.Failed, 5)
			for _, s := range servers[2:] {
				require.ErrorIs(t, all.Failed[s], net.ErrClosed)
			}
		}
	})
}

// An error of before is told for a message that is not written, also if another
// socket breaks in the same pass.
func TestWriteAllToldOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken brokenPacketConn
		s := crowdAt(t, 1, broken.wrap)[0]
		clients, _ := crowdOf(t, 1) // dialed, so written to when the pass is over
		broken.mu.Lock()
		broken.err = net.ErrClosed
		broken.mu.Unlock()
		x := clients[0]
		synctest.Wait() // what it had to say of itself has left
		before := x.Stats().MessagesSent
		x.mu.Lock()
		x.out.SentUnlocking(nil, syscall.EPERM, x.out.Deadline()) // as if it had been in a pass
		x.mu.Unlock()
		var all *WriteAllError
		require.ErrorAs(t, WriteAll([]byte("hello"), slices.Values([]*Conn{s, x})), &all)
		require.ErrorIs(t, all.Failed[s], net.ErrClosed)
		require.ErrorIs(t, all.Failed[x], syscall.EPERM)
		require.Equal(t, before, x.Stats().MessagesSent, "written, and yet told to have failed")
	})
}

// A hookedPacketConn calls a function before it sends.
type hookedPacketConn struct {
	net.PacketConn
	hook func(to net.Addr)
}

func (h *hookedPacketConn) WriteTo(p []byte, to net.Addr) (int, error) {
	h.hook(to)
	return h.PacketConn.WriteTo(p, to)
}

// However much is written to one connection meanwhile, those behind it in the
// pass are free again at once: their own messages do not wait for its flood.
func TestWriteAllBesideFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var servers []*Conn
		const flood = 100
		var mu sync.Mutex
		left, held := 0, 0
		hook := func(to net.Addr) {
			mu.Lock()
			more := left > 0 && to.String() == servers[0].RemoteAddr().String()
			if more {
				left--
			}
			mu.Unlock()
			if !more {
				return
			}
			servers[0].Write([]byte("one more"))
			time.Sleep(time.Millisecond) // who can go on does
			servers[1].mu.Lock()
			busy := servers[1].out.Busy()
			servers[1].mu.Unlock()
			if busy {
				mu.Lock()
				held++
				mu.Unlock()
			}
		}
		servers = crowdAt(t, 2, func(pc net.PacketConn) net.PacketConn { return &hookedPacketConn{pc, hook} })
		time.Sleep(time.Second) // a late answer to a greeting would be one datagram more behind the pass
		mu.Lock()
		left = flood
		mu.Unlock()
		require.NoError(t, WriteAll([]byte("hello"), slices.Values(servers)))
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Zero(t, left)
		require.EqualValues(t, flood+1, servers[0].Stats().MessagesSent)
		require.False(t, sending(servers[0]))
		require.LessOrEqual(t, held, 2) // with the pass itself, and once behind it
	})
}

// A manyCall is one of the functions that write to many connections.
type manyCall struct {
	name  string
	write func(msg string, conns iter.Seq[*Conn])
}

var manyCalls = []manyCall{
	{"WriteAll", func(msg string, conns iter.Seq[*Conn]) { WriteAll([]byte(msg), conns) }},
	{"WriteEach", func(msg string, conns iter.Seq[*Conn]) { WriteEach(eachWith(msg, conns)) }},
}

func eachWith(msg string, conns iter.Seq[*Conn]) iter.Seq2[*Conn, []byte] {
	return func(yield func(*Conn, []byte) bool) {
		conns(func(c *Conn) bool { return yield(c, []byte(msg)) })
	}
}

// keepYield makes a call for conns and returns the function that its iterator was
// given.
func (m manyCall) keepYield(msg string, conns ...*Conn) (kept func(*Conn) bool) {
	m.write(msg, func(yield func(*Conn) bool) {
		kept = yield
		slices.Values(conns)(yield)
	})
	return kept
}

// An iterator may keep the function that it was given. Called later, also while
// another call lists its connections, it panics and adds nothing to that call.
func TestWriteAllStrayYield(t *testing.T) {
	for _, m := range manyCalls {
		for _, other := range manyCalls {
			synctest.Test(t, func(t *testing.T) {
				clients, servers := crowdOf(t, 3)
				for range 10 {
					stray := m.keepYield("mine", servers[0])
					require.Panics(t, func() { stray(servers[1]) }, "%s, between calls", m.name)
					other.write("theirs", func(yield func(*Conn) bool) {
						require.Panics(t, func() { stray(servers[1]) }, "%s, during %s", m.name, other.name)
						yield(servers[2])
						require.Panics(t, func() { stray(servers[1]) }, "%s, during %s", m.name, other.name)
					})
					time.Sleep(time.Second)
					wantMessage(t, clients[0], "mine")
					wantMessage(t, clients[2], "theirs")
					for _, c := range clients {
						require.Zero(t, c.user.In.Len(), "%s, then %s", m.name, other.name)
					}
				}
			})
		}
	}
}

// An iterator that panics has ended, too.
func TestWriteAllStrayYieldAfterPanic(t *testing.T) {
	for _, m := range manyCalls {
		synctest.Test(t, func(t *testing.T) {
			clients, servers := crowdOf(t, 2)
			var stray func(*Conn) bool
			require.PanicsWithValue(t, "no more", func() {
				m.write("mine", func(yield func(*Conn) bool) {
					stray = yield
					yield(servers[0])
					panic("no more")
				})
			})
			require.Panics(t, func() { stray(servers[0]) })
			m.write("theirs", func(yield func(*Conn) bool) {
				require.Panics(t, func() { stray(servers[0]) })
				yield(servers[1])
			})
			time.Sleep(time.Second)
			require.Zero(t, clients[0].user.In.Len())
			wantMessage(t, clients[1], "theirs")
		})
	}
}

func panics(f func()) (it bool) {
	defer func() { it = recover() != nil }()
	f()
	return false
}

// A goroutine that an iterator has left behind calls what it was given at any
// moment of other calls.
func TestWriteAllStrayYieldOfAnotherGoroutine(t *testing.T) {
	for _, m := range manyCalls {
		synctest.Test(t, func(t *testing.T) {
			const rounds = 200
			clients, servers := crowdOf(t, 2)
			var stray atomic.Pointer[func(*Conn) bool]
			var done atomic.Bool
			var tasks sync.WaitGroup
			for range 2 {
				tasks.Go(func() {
					for !done.Load() {
						if yield := stray.Load(); yield != nil && !panics(func() { (*yield)(servers[0]) }) {
							t.Error("a stray yield has returned")
							return
						}
					}
				})
			}
			for range rounds {
				kept := m.keepYield("mine")
				stray.Store(&kept)
				m.write("theirs", slices.Values([]*Conn{servers[1], servers[1]}))
			}
			done.Store(true)
			tasks.Wait()
			time.Sleep(time.Second)
			for range 2 * rounds {
				wantMessage(t, clients[1], "theirs")
			}
			for _, c := range clients {
				require.Zero(t, c.user.In.Len())
			}
		})
	}
}

// The turn of an iterator ends when it returns, though the call goes on: here it
// waits for room.
func TestWriteAllStrayYieldWhileTheCallWaits(t *testing.T) {
	for _, m := range manyCalls {
		synctest.Test(t, func(t *testing.T) {
			x, y := Pipe(&Config{MaxMessageSize: 10, ReadBuffer: 1000})
			defer y.Close()
			defer x.Close()
			var stray func(*Conn) bool
			var call sync.WaitGroup
			var done atomic.Bool
			call.Go(func() {
				defer done.Store(true)
				m.write("mine", func(yield func(*Conn) bool) {
					stray = yield
					for range 1000 {
						yield(x)
					}
				})
			})
			synctest.Wait()
			require.NotZero(t, y.user.In.Len())
			require.False(t, done.Load())
			require.Panics(t, func() { stray(x) }, m.name)
			x.Close()
			call.Wait()
		})
	}
}
