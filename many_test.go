package volley

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/pattern"
	"volley/internal/testenv"
	"volley/reliable"
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
	servers := deafCrowd(t, 70, &Config{MaxWindow: 256, Receipts: 10, IdleTimeout: -1})
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
