package volley

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
