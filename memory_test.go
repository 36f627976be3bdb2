package volley

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"volley/internal/pattern"
	"volley/internal/testenv"
	"volley/reliable"
	"volley/simnet"
)

// TestConnSize: beyond 1016 bytes and the allocator's 8 the next size is 1152.
func TestConnSize(t *testing.T) {
	if size := unsafe.Sizeof(Conn{}); size > 1016 {
		t.Errorf("a Conn has %d bytes, want at most 1016", size)
	}
	if size := unsafe.Sizeof(greeting{}); size > 48 {
		t.Errorf("a greeting adds %d bytes to a connection, want at most 48", size)
	}
}

// A value costs a served connection little memory, and it has the settings of its Listener.
func TestServedConnIsSmall(t *testing.T) {
	c := new(Conn)
	require.Nil(t, c.Value())
	c.SetValue(7)
	require.Equal(t, 7, c.Value())
	require.Nil(t, c.extra())
	require.LessOrEqual(t, unsafe.Sizeof(*c.attached), uintptr(48))

	w := &wrapper{cfg: &Config{}}
	first, err := w.sessionSettings(1200)
	require.NoError(t, err)
	again, err := w.sessionSettings(1200)
	require.NoError(t, err)
	require.Same(t, first, again)
	require.Equal(t, 1200, first.reliable.FragmentAbove+reliable.MaxHeaderSize)
	smaller, err := w.sessionSettings(1100)
	require.NoError(t, err)
	require.Equal(t, 1100, smaller.reliable.FragmentAbove+reliable.MaxHeaderSize)
	_, err = w.sessionSettings(100)
	require.Error(t, err)
}

// TestIdleConnsAreSmall makes many accepted connections busy, with losses, and
// then idle but for keepalives, and measures what they hold.
func TestIdleConnsAreSmall(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what memory costs")
	}
	count := testenv.Sized(1000, 10_000)
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{})
		n.SetDefault(simnet.Link{Latency: time.Millisecond, Loss: 0.02})
		dials := make([]*Conn, count)
		conns := make([]*Conn, count)
		for i := range dials {
			inner, err := n.Dial("10.0.0.2:0", "10.0.0.1:7777")
			if err != nil {
				t.Fatal(err)
			}
			dials[i] = mustConn(inner, nil)
			for conns[i] == nil {
				dials[i].Write([]byte("hello"))
				l.SetDeadline(time.Now().Add(10 * time.Millisecond))
				if conns[i], err = l.AcceptConn(context.Background()); err != nil {
					conns[i] = nil
				}
			}
		}
		goroutines := testenv.Goroutines()
		buf := make([]byte, 16384)
		for round := range 80 {
			for i, c := range conns {
				size := 100
				if round%20 == 0 {
					size = 3000
				}
				dials[i].Write(buf[:size])
				c.Write(buf[:size])
			}
			time.Sleep(5 * time.Millisecond)
			if round%20 == 19 {
				for i, c := range conns {
					drainConn(c, buf)
					drainConn(dials[i], buf)
				}
			}
		}
		time.Sleep(time.Second)
		for i, c := range conns {
			drainConn(c, buf)
			drainConn(dials[i], buf)
		}
		time.Sleep(25 * time.Second)
		synctest.Wait()
		// The reader of the listener and of each dialed connection, no more.
		if got := testenv.Goroutines(); got > goroutines+8 {
			t.Errorf("%d goroutines, %d before the traffic", got, goroutines)
		}
		before := testenv.Heap()
		for i, c := range conns {
			c.Close()
			conns[i] = nil
		}
		synctest.Wait()
		held := (before - testenv.Heap()) / int64(count)
		t.Logf("%d bytes an idle connection", held)
		if held > 4096 {
			t.Errorf("an idle accepted connection holds %d bytes, want at most 4096", held)
		}
		for _, c := range dials {
			c.Close()
		}
	})
}

func drainConn(c *Conn, buf []byte) {
	c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	for {
		if _, err := c.Read(buf); err != nil {
			break
		}
	}
	c.SetReadDeadline(time.Time{})
}

// TestNoAllocations sends and receives in the steady state, datagram by
// datagram and in floods.
func TestNoAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		switch a.NetConn().(type) {
		case nil, *net.UDPConn:
		default:
			t.Skip("the network below is slow or allocates by itself")
		}
		msg, buf := pattern.New(1, 300), make([]byte, 16384)
		big := pattern.New(2, 5000)
		exchange := func(m []byte) {
			a.Write(m)
			b.SetReadDeadline(time.Now().Add(30 * time.Second))
			if _, err := b.Read(buf); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			b.Write(m)
			a.SetReadDeadline(time.Now().Add(30 * time.Second))
			a.Read(buf)
		}
		for range 2000 {
			exchange(msg)
			exchange(big)
		}
		if n := testing.AllocsPerRun(2000, func() { exchange(msg) }); n >= 1 {
			t.Errorf("%v allocations for two small messages", n)
		}
		if n := testing.AllocsPerRun(2000, func() { exchange(big) }); n >= 1 {
			t.Errorf("%v allocations for two messages of 5 fragments", n)
		}
		batch := make([][]byte, 64)
		for i := range batch {
			batch[i] = msg
		}
		burst := func() {
			a.WriteBatch(nil, batch)
			for range batch {
				b.Read(buf)
			}
		}
		b.SetReadDeadline(time.Now().Add(time.Minute))
		for range 50 {
			burst()
		}
		if n := testing.AllocsPerRun(200, burst); n >= 3 {
			t.Errorf("%v allocations for a batch of %d messages", n, len(batch))
		}
	})
}

// An acknowledgement that finds no memory is tried again, at a measured pace.
func TestAckWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{Config: &Config{maxWindow: -1}})
		l.budget.Init(2000)
		c := dial("10.0.0.2:1", &Dialer{})
		accept(t, l)
		c.Write([]byte("please acknowledge"))
		time.Sleep(time.Second)
	})
}

// After the end nothing waits and nothing is held.
func TestStatsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil)
		for range 100 {
			a.Write(make([]byte, 1000))
		}
		if n := b.Stats().ReadQueue; n != 100*1012 {
			t.Errorf("ReadQueue = %d, want %d", n, 100*1012)
		}
		b.Read(make([]byte, 1000))
		a.Close()
		b.Close()
		for _, c := range []*Conn{a, b} {
			if s := c.Stats(); s.ReadQueue != 0 || s.Memory != 0 {
				t.Errorf("after Close: ReadQueue %d, Memory %d, want 0", s.ReadQueue, s.Memory)
			}
		}
	})
}
