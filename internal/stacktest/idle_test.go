package stacktest

import (
	"testing"
	"testing/synctest"
	"time"
	"volley"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/reliable"
	"volley/simnet"
)

// TestIdleConnectionsLive leaves connections idle for a day, on links that lose
// half of the datagrams each way: none of them times out.
func TestIdleConnectionsLive(t *testing.T) {
	conns, hours := testenv.Sized(3, 12), testenv.Raced(24, 3)
	synctest.Test(t, func(t *testing.T) {
		link := simnet.Link{Latency: pathRTT / 2, Loss: 0.5}
		var all []*volley.Conn
		for i := range conns {
			x, y := simnet.Pair(uint64(i), link, link)
			a, b := newConn(x, nil), newConn(y, nil)
			for range 20 {
				a.Write([]byte("a"))
				b.Write([]byte("b"))
				time.Sleep(10 * time.Millisecond)
			}
			all = append(all, a, b)
		}
		time.Sleep(time.Duration(hours) * time.Hour)
		for i, c := range all {
			_, err := c.Write([]byte("alive"))
			require.NoError(t, err, "connection %d", i)
			// A keepalive each 5 s are 720 an hour. Bad luck takes some more.
			require.Less(t, c.Stats().PacketsSent, uint64(hours*3*720), "packets of connection %d", i)
			c.Close()
		}
	})
}

// LostAfter bounds how long the fate of a message stays open.
func TestLostAfter(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * time.Second, -1} {
		synctest.Test(t, func(t *testing.T) {
			dark := simnet.Link{Blackout: true}
			a, b, _ := ratePair(&volley.Config{LostAfter: after}, dark, dark)
			start := time.Now()
			a.WriteMessage([]byte("into the dark"))
			known := time.Duration(0)
			for known == 0 && time.Since(start) < 20*time.Second {
				time.Sleep(100 * time.Millisecond)
				if len(a.AppendReceipts(nil)) > 0 {
					known = time.Since(start)
				}
			}
			want := map[time.Duration]time.Duration{0: 10 * time.Second, 3 * time.Second: 3 * time.Second}[after]
			require.InDelta(t, want, known, float64(100*time.Millisecond), "LostAfter: %v", after)
			a.Close()
			b.Close()
		})
	}
}

// foreignPeer answers messages as a peer does that knows nothing of what empty
// packets say about time: each after 10 ms, and it sends keepalives.
func foreignPeer(t *testing.T, pc *simnet.Conn, done chan<- struct{}) {
	defer close(done)
	e, err := reliable.New(&reliable.Config{}, time.Now(), nil)
	if err != nil {
		t.Error(err)
		return
	}
	buf := make([]byte, 2000)
	var out reliable.Batch
	say := func() {
		out.Reset()
		e.Send(time.Now(), nil, &out)
		pc.Write(out.At(0))
	}
	for {
		pc.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := pc.Read(buf)
		switch ne, ok := err.(interface{ Timeout() bool }); {
		case err == nil:
			e.Receive(time.Now(), buf[:n])
			if n > reliable.MaxHeaderSize {
				time.Sleep(10 * time.Millisecond)
				say()
			}
		case ok && ne.Timeout():
			say()
		default:
			return
		}
	}
}

// A peer that does not keep the convention is measured with its waits, and not
// worse: keepalives that name an old message again are no round trips.
func TestForeignPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := simnet.Pair(1, steadyLink(), steadyLink())
		a := newConn(x, nil)
		done := make(chan struct{})
		go foreignPeer(t, y, done)
		for range 30 {
			a.Write(make([]byte, 100))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		for range 3 {
			a.Write(make([]byte, 100))
			time.Sleep(9 * time.Second)
		}
		s := a.Stats()
		require.InDelta(t, pathRTT+5*time.Millisecond, s.RTT, float64(6*time.Millisecond), "RTT")
		require.LessOrEqual(t, s.RTTMax, pathRTT+11*time.Millisecond, "RTTMax")
		require.Equal(t, s.MessagesSent, s.MessagesDelivered, "messages delivered")
		a.Close()
		y.Close()
		<-done
	})
}
