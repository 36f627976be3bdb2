package datagram

import (
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// steppedSingle returns a Single that callers can read, and how many packets it has
// handled. Sleeps: its socket tells of packets.
func steppedSingle(sleeps bool) (c *Single, s *steppedSocket, handled func() int) {
	s = newSteppedSocket()
	c = NewSingle(s, nil, 1000)
	c.turns.sleeps = sleeps
	h := new(fakeHandler)
	c.handler = h // and no goroutine yet
	return c, s, func() int { return len(h.received()) }
}

// until sleeps until a time after begin, and lets everything at that time happen.
func until(begin time.Time, after time.Duration) {
	time.Sleep(time.Until(begin.Add(after)))
	synctest.Wait()
}

// reading returns how many read the socket.
func (s *steppedSocket) reading() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readers
}

// The goroutine reads when no caller has for 5 ms. A caller whose deadline came within a
// millisecond has not, one with a longer one has.
func TestInlinePatience(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		look time.Duration // of a second caller, which comes 2 ms after the first one
		want time.Duration // when the goroutine reads
	}{
		{0, 15 * ms}, {ms - 1, 15 * ms}, {ms, 18 * ms}, {ms + 500_000, 18*ms + 500_000},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s, handled := steppedSingle(false)
			begin := time.Now()
			var d deadline.Deadline
			d.Set(begin.Add(10 * ms))
			require.True(t, c.ReadInline(&d, noReaders{}))
			until(begin, 12*ms)
			if test.look > 0 {
				d.Set(time.Now().Add(test.look))
				require.True(t, c.ReadInline(&d, noReaders{}))
			}
			until(begin, 14*ms)
			s.push(from(peerAddr(1), "x")...)
			until(begin, test.want-1)
			require.Zero(t, handled())
			require.Zero(t, s.reading())
			until(begin, test.want)
			require.Equal(t, 1, handled())
			require.Equal(t, 1, s.reading())
			require.NoError(t, c.Close())
		})
	}
}

// A packet counts as reading, whatever the deadline, and so does a passing error.
func TestInlinePatienceAfterPacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, handled := steppedSingle(false)
		begin := time.Now()
		var d deadline.Deadline
		for i := range 3 {
			until(begin, time.Duration(4*i)*time.Millisecond)
			s.push(from(peerAddr(1), "x")...)
			require.True(t, c.ReadInline(&d, noReaders{}))
		}
		until(begin, 13*time.Millisecond-1)
		require.Zero(t, s.reading())
		until(begin, 13*time.Millisecond)
		require.Equal(t, 1, s.reading())
		require.Equal(t, 3, handled())
		require.NoError(t, c.Close())
	})
}

// The goroutine of a socket that tells of packets ends 200 ms after the last one, and
// begins with the next.
func TestSleepAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, handled := steppedSingle(true)
		c.turns.start()
		require.Zero(t, s.reading())
		for round := range 3 {
			begin := time.Now()
			s.push(from(peerAddr(1), "x")...)
			require.Equal(t, 1, s.reading())
			until(begin, 100*time.Millisecond)
			s.push(from(peerAddr(1), "y")...)
			until(begin, 300*time.Millisecond-1)
			require.Equal(t, 1, s.reading())
			until(begin, 300*time.Millisecond)
			require.Zero(t, s.reading())
			require.Equal(t, 2*(round+1), handled())
			time.Sleep(time.Second)
		}
		require.NoError(t, c.Close())
	})
}

// A caller of Read who comes while the socket would tell of packets takes that back, and
// when nobody reads any more the socket tells of them again after 5 ms.
func TestReadWhileAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, handled := steppedSingle(true)
		c.turns.start()
		telling := func() bool {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.sleeper != nil
		}
		require.True(t, telling())
		var d deadline.Deadline
		var wg sync.WaitGroup
		wg.Go(func() { c.ReadInline(&d, noReaders{}) })
		require.False(t, telling())
		require.Equal(t, 1, s.reading())
		s.push(from(peerAddr(1), "x")...)
		wg.Wait()
		require.Equal(t, 1, handled())
		begin := time.Now()
		until(begin, 5*time.Millisecond-1)
		require.False(t, telling())
		until(begin, 5*time.Millisecond)
		require.True(t, telling())
		require.Zero(t, s.serves, "no goroutine was there")
		require.NoError(t, c.Close())
	})
}

// Reading begins once, however often it is started, and not on a closed Conn.
func TestStartOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteppedSocket()
		m := NewMux(s, MuxConfig{Acceptor: new(fakeAcceptor)})
		m.Start()
		m.Start()
		require.Equal(t, 1, s.reading())
		require.NoError(t, m.Close())
		m.Start()
		require.Zero(t, s.reading())
		require.Equal(t, 1, s.serves)

		c, s, _ := steppedSingle(true)
		require.NoError(t, c.Close())
		c.turns.start()
		c.turns.WakeUp()
		var d deadline.Deadline
		require.False(t, c.ReadInline(&d, noReaders{}))
		require.Zero(t, s.reading())
	})
}

// A Conn that any caller can read has passing errors counted, and remembered, like those
// that the goroutine meets.
func TestInlineErrors(t *testing.T) {
	s := &inlineSocket{fakeSocket: newFakeSocket()}
	c := NewSingle(s, nil, 1000)
	h := new(fakeHandler)
	c.handler = h
	var d deadline.Deadline
	for i := range 10 {
		require.True(t, c.ReadInline(&d, noReaders{}))
		require.EqualValues(t, (i+1)/2, c.Stats().ReadErrors)
		require.EqualValues(t, (i+1)/2, c.Refused())
		require.Equal(t, i%2 == 1, c.LastError() == syscall.ECONNREFUSED, "it is forgotten with the next packet")
	}
	require.Len(t, h.received(), 5)
	require.NoError(t, c.Close())

	// A socket that callers cannot read is left to the goroutine.
	c = NewSingle(newFakeSocket(), nil, 1000)
	require.False(t, c.ReadInline(&d, noReaders{}))
	c.Close()
}

// kicked counts how often a caller is woken.
type kicked struct {
	mu      sync.Mutex
	kicks   int
	callers int
}

func (k *kicked) Kick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kicks++
}

func (k *kicked) Callers() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.callers
}

// The goroutine makes place for a caller who is alone, and wakes it; for several, of one
// kind or of two, it reads on.
func TestMakePlace(t *testing.T) {
	for _, test := range []struct {
		name     string
		callers  []int // of two kinds
		place    bool
		leaves   bool // all, before the goroutine gets to it
		expected int
	}{
		{"one", []int{1, 0}, true, false, 1},
		{"several", []int{2, 0}, false, false, 0},
		{"of two kinds", []int{1, 1}, false, false, 0},
		{"gone already", []int{1, 0}, true, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s, handled := steppedSingle(false)
				c.turns.start()
				require.Equal(t, 1, s.reading())
				var d deadline.Deadline
				kinds := []*kicked{{callers: test.callers[0]}, {callers: test.callers[1]}}
				for i := 1; i >= 0; i-- {
					if kinds[i].callers > 0 {
						require.False(t, c.ReadInline(&d, kinds[i]))
						if test.leaves {
							kinds[i].mu.Lock()
							kinds[i].callers = 0
							kinds[i].mu.Unlock()
						}
						synctest.Wait()
						kinds[i].mu.Lock()
						if i == 1 {
							kinds[i].kicks = 0 // it was alone then
						}
						kinds[i].mu.Unlock()
					}
					if i == 1 && kinds[1].callers > 0 { // it comes back, and reads
						s.push(from(peerAddr(1), "x")...)
						require.True(t, c.ReadInline(&d, kinds[1]))
						until(time.Now(), 5*time.Millisecond)
						require.Equal(t, 1, s.reading(), "the goroutine is back")
					}
				}
				synctest.Wait()
				require.Equal(t, test.place, s.reading() == 0)
				require.Equal(t, test.expected, kinds[0].kicks)
				require.Zero(t, kinds[1].kicks)
				before := handled()
				begin := time.Now()
				s.push(from(peerAddr(1), "y")...)
				synctest.Wait()
				require.Equal(t, test.place, handled() == before)
				until(begin, 5*time.Millisecond)
				require.Equal(t, before+1, handled())
				require.NoError(t, c.Close())
			})
		})
	}
}

// A Handler that closes its Conn while a caller reads, or the goroutine, is called no
// more, and nobody is told of an end.
func TestCloseWithinRead(t *testing.T) {
	for _, inline := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSteppedSocket()
			c := NewSingle(s, nil, 1000)
			h := &fakeHandler{batch: func([][]byte, *wire.Batch) { c.Close() }}
			s.push(from(peerAddr(1), "x")...)
			if inline {
				c.handler = h
				var d deadline.Deadline
				require.True(t, c.ReadInline(&d, noReaders{}))
				require.False(t, c.ReadInline(&d, noReaders{}))
			} else {
				require.NoError(t, c.Attach(h))
			}
			time.Sleep(time.Second)
			require.Zero(t, s.reading())
			require.Equal(t, []string{"x"}, h.received())
			require.Empty(t, h.ended())
		})
	}
}

// What a goroutine reads comes in batches of up to 8 packets from sockets that have no
// loop of their own, each with what was received and no more.
func TestServeBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		var sizes []int
		h := &fakeHandler{batch: func(bufs [][]byte, _ *wire.Batch) { sizes = append(sizes, len(bufs)) }}
		c := NewSingle(s, nil, 1000)
		require.NoError(t, c.Attach(h))
		for _, n := range []int{8, 1, 3} {
			var ds []string
			for range n {
				ds = append(ds, "x")
			}
			s.in <- from(peerAddr(1), ds...)
			synctest.Wait()
		}
		require.Equal(t, []int{8, 1, 3}, sizes)
		s.in <- append(from(peerAddr(1), "a"), socket.Packet{Buf: []byte("bbccd"), Segment: 2}, socket.Packet{})
		synctest.Wait()
		require.Equal(t, []string{"a", "bb", "cc", "d", ""}, h.received()[12:])
		require.NoError(t, c.Close())
	})
}
