package volley

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A stage is two connections over a simulated network, in a bubble.
type stage struct {
	t      *testing.T
	a, b   *Conn
	ia, ib *simnet.Conn
	stop   chan struct{}
}

// staged runs a test on a stage.
func staged(t *testing.T, ab, ba simnet.Link, cfg *Config, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, stop: make(chan struct{})}
		s.ia, s.ib = simnet.Pair(1, ab, ba)
		s.a, s.b = mustConn(s.ia, cfg), mustConn(s.ib, cfg)
		defer s.b.Close()
		defer s.a.Close()
		defer close(s.stop)
		f(s)
	})
}

// good is a link that does nothing but take its time.
var good = simnet.Link{Latency: 20 * time.Millisecond}

// drain reads a connection until it ends.
func (s *stage) drain(c *Conn) {
	go func() {
		var buf []byte
		for {
			b, err := c.ReadMessage(context.Background(), buf[:0])
			if err == nil {
				buf = b
			} else if !errors.Is(err, syscall.ECONNREFUSED) {
				return
			}
		}
	}()
}

// talk sends messages of size bytes, so many a second for so long.
func (s *stage) talk(rate int, size int, d time.Duration, from ...*Conn) {
	msg := make([]byte, size)
	pause := time.Second / time.Duration(rate)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(pause) {
		for _, c := range from {
			c.Write(msg)
		}
	}
}

func addrOf(c *simnet.Conn) netip.Addr { return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr() }

// finding returns the one of a kind, and fails if there is none.
func finding(t *testing.T, e Explanation, k string) Finding {
	t.Helper()
	for _, f := range e.Findings {
		if f.Kind == k {
			require.Contains(t, e.String(), f.Text)
			require.Contains(t, e.String(), f.Advice)
			return f
		}
	}
	t.Fatalf("no finding %q in: %v", k, e)
	return Finding{}
}

// only checks that there is one finding, and returns it.
func only(t *testing.T, e Explanation, k string) Finding {
	t.Helper()
	require.Len(t, e.Findings, 1, e)
	require.Equal(t, k == findingOneWay, e.OK())
	return finding(t, e, k)
}

func TestExplainNothing(t *testing.T) {
	for _, rate := range []int{1, 10, 30, 128, 1000} {
		staged(t, good, good, nil, func(s *stage) {
			s.drain(s.a)
			s.drain(s.b)
			require.Equal(t, "Nothing is wrong.", s.a.Explain().String(), "before the first message")
			s.talk(rate, 100, min(20*time.Second, 3000*time.Second/time.Duration(rate)), s.a, s.b)
			time.Sleep(time.Second)
			for _, c := range []*Conn{s.a, s.b} {
				e := c.Explain()
				require.Empty(t, e.Findings, "%d/s", rate)
				require.True(t, e.OK())
				require.Equal(t, MissedMessages{}, c.Stats().Missed)
				require.Equal(t, "Nothing is wrong.", e.String())
			}
			time.Sleep(time.Minute) // silence but for keepalives
			require.Empty(t, s.a.Explain().Findings)
			require.Empty(t, s.b.Explain().Findings)
			require.Equal(t, MissedMessages{}, s.a.Stats().Missed)
		})
	}
}

func TestExplainNetworkLoss(t *testing.T) {
	lossy := good
	lossy.Loss = 0.05
	staged(t, lossy, good, nil, func(s *stage) {
		s.drain(s.a)
		s.drain(s.b)
		s.talk(60, 100, time.Minute, s.a, s.b)
		f := only(t, s.a.Explain(), findingLossSending)
		require.InDelta(t, 0.05, f.Share, 0.01)
		f = only(t, s.b.Explain(), findingLossReceiving)
		require.InDelta(t, 0.05, f.Share, 0.01)
		lost := s.ia.Network().Stats().Lost
		require.InDelta(t, float64(lost), float64(s.b.Stats().Missed.Network), 0.1*float64(lost))
		require.Zero(t, s.b.Stats().Missed.Socket)
		require.Zero(t, s.b.Stats().Missed.Inbox)

		n := s.ia.Network() // it mends, and so does what is said
		n.SetLink(addrOf(s.ia), addrOf(s.ib), good)
		s.talk(60, 100, 10*time.Second, s.a, s.b)
		s.a.Explain()
		s.b.Explain()
		s.talk(60, 100, 10*time.Second, s.a, s.b)
		require.Empty(t, s.a.Explain().Findings)
		require.Empty(t, s.b.Explain().Findings)
	})
}

func TestExplainSocketFull(t *testing.T) {
	staged(t, good, good, nil, func(s *stage) {
		s.drain(s.a)
		s.drain(s.b)
		s.ib.SetReadBuffer(8 << 10)
		msgs := make([][]byte, 40)
		for i := range msgs {
			msgs[i] = make([]byte, 1000)
		}
		for range 20 {
			s.a.WriteBatch(nil, msgs)
			s.b.Write([]byte("and back"))
			time.Sleep(100 * time.Millisecond)
		}
		s.a.Write([]byte("by which the last ones are missed"))
		time.Sleep(time.Second)
		e := s.b.Explain()
		f := only(t, e, findingSocketFull)
		require.Equal(t, s.ib.Drops(), f.Count)
		require.EqualValues(t, 8<<10, f.Value)
		require.Contains(t, f.Advice, "sysctl -w net.core.rmem_max=4194304")
		missed := s.b.Stats().Missed
		require.InDelta(t, float64(s.ib.Drops()), float64(missed.Socket), 0.1*float64(s.ib.Drops()))
		require.Zero(t, missed.Network)
		require.Equal(t, missed, e.Missed)
	})
}

func TestExplainInboxFull(t *testing.T) {
	staged(t, good, good, &Config{ReadBuffer: 64 << 10}, func(s *stage) {
		s.drain(s.a)
		send := func(n int) { // nobody reads
			for range n {
				s.a.Write(make([]byte, 1000))
				s.b.Write([]byte("and back"))
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Second)
		}
		send(40)
		f := only(t, s.b.Explain(), findingInboxFull)
		require.Zero(t, f.Count)
		require.Greater(t, f.Value, f.Limit/2)
		send(60)
		f = only(t, s.b.Explain(), findingInboxFull)
		require.EqualValues(t, s.b.Stats().MessagesRefused, f.Count)
		require.NotZero(t, f.Count)
		require.Contains(t, f.Advice, "Config.ReadBuffer")
		require.Equal(t, MissedMessages{Inbox: f.Count}, s.b.Stats().Missed)
		finding(t, s.a.Explain(), findingLossSending)
		s.drain(s.b)
		time.Sleep(10 * time.Second)
		s.b.Explain()
		time.Sleep(explainRecent)
		send(100)
		require.Empty(t, s.b.Explain().Findings)
	})
}

func TestExplainPeerSilent(t *testing.T) {
	staged(t, good, good, nil, func(s *stage) {
		s.drain(s.a)
		s.drain(s.b)
		s.talk(10, 100, 5*time.Second, s.a, s.b)
		n := s.ia.Network()
		n.SetLink(addrOf(s.ib), addrOf(s.ia), simnet.Link{Loss: 1})
		s.talk(10, 100, 3*time.Second, s.a, s.b)
		f := finding(t, s.a.Explain(), findingPeerSilent)
		require.InDelta(t, 3, f.Duration.Seconds(), 0.3)
		require.Regexp(t, `was heard (2\.9|3\.0|3\.1)`, f.Text)
		only(t, s.b.Explain(), findingPeerDeaf) // which is heard
		time.Sleep(40 * time.Second)
		f = finding(t, s.a.Explain(), findingEnded)
		require.Contains(t, f.Text, "idle timeout")
	})
}

// TestExplainNeverHeard: nobody is there, and nobody says so.
func TestExplainNeverHeard(t *testing.T) {
	staged(t, simnet.Link{Loss: 1}, good, nil, func(s *stage) {
		s.a.Write([]byte("is anybody there?"))
		time.Sleep(2 * time.Second)
		require.Contains(t, only(t, s.a.Explain(), findingPeerSilent).Text, "never been heard")
		require.Empty(t, s.b.Explain().Findings) // which has sent nothing
		time.Sleep(11 * time.Second)
		only(t, s.b.Explain(), findingPeerSilent) // there should have been keepalives
	})
}

// TestExplainPeerDeaf: the peer is heard, but hears nothing.
func TestExplainPeerDeaf(t *testing.T) {
	staged(t, good, good, nil, func(s *stage) {
		s.drain(s.a)
		s.drain(s.b)
		s.talk(10, 100, 5*time.Second, s.a, s.b)
		n := s.ia.Network()
		n.SetLink(addrOf(s.ia), addrOf(s.ib), simnet.Link{Loss: 1})
		s.talk(10, 100, 5*time.Second, s.a, s.b)
		f := only(t, s.a.Explain(), findingPeerDeaf)
		require.InDelta(t, 50, float64(f.Count), 2)
		require.InDelta(t, 5, f.Duration.Seconds(), 0.2)
		finding(t, s.b.Explain(), findingPeerSilent)
	})
}

// A refusing connection reads as a UDP socket does to which an ICMP message came.
type refusing struct {
	net.Conn
	refuse chan struct{}
}

func (r *refusing) Read(b []byte) (int, error) {
	select {
	case <-r.refuse:
		return 0, &net.OpError{Op: "read", Net: "udp", Err: os.NewSyscallError("recvfrom", syscall.ECONNREFUSED)}
	default:
		return r.Conn.Read(b)
	}
}

func TestExplainPeerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ia, ib := simnet.Pair(1, good, good)
		defer ib.Close()
		inner := &refusing{ia, make(chan struct{}, 1)}
		inner.refuse <- struct{}{}
		a := mustConn(inner, nil)
		defer a.Close()
		a.Write([]byte("hello"))
		time.Sleep(time.Second)
		f := finding(t, a.Explain(), findingPeerRefuses)
		require.Contains(t, f.Text, "nobody listens")
		ib.Read(make([]byte, 100)) // which has waited there
		b := mustConn(ib, nil)     // it comes after all
		defer b.Close()
		a.Write([]byte("hello"))
		b.Write([]byte("hello"))
		time.Sleep(10 * time.Second)
		require.Empty(t, a.Explain().Findings)
	})
}

func TestExplainWindowShort(t *testing.T) {
	far := simnet.Link{Latency: 250 * time.Millisecond}
	for _, window := range []int{-1, 256} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			staged(t, far, far, &Config{maxWindow: window}, func(s *stage) {
				s.drain(s.a)
				s.drain(s.b)
				s.talk(50, 50, 5*time.Second, s.a, s.b)
				require.Empty(t, s.a.Explain().Findings)
				time.Sleep(6 * time.Second)
				s.a.Explain()
				s.talk(1000, 50, 4*time.Second, s.a, s.b)
				f := finding(t, s.a.Explain(), findingWindowShort)
				require.EqualValues(t, 256, f.Limit)
				require.Contains(t, f.Advice, "fewer and larger")
			})
		})
	}
	staged(t, far, far, nil, func(s *stage) {
		s.drain(s.a)
		s.drain(s.b)
		s.talk(1000, 50, 4*time.Second, s.a, s.b)
		require.Empty(t, s.a.Explain().Findings) // as Windows grow
	})
}

func TestExplainMemoryFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{MaxMemory: 64 << 10})
		n.SetDefault(good)
		inner, err := n.Dial("10.0.0.2:0", "10.0.0.1:7777")
		require.NoError(t, err)
		a := mustConn(inner, nil)
		defer a.Close()
		a.Write([]byte("hello"))
		b, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		defer b.Close()
		for range 100 { // nobody reads
			a.Write(make([]byte, 1000))
			b.Write([]byte("and back"))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		f := only(t, b.Explain(), findingMemoryFull)
		require.EqualValues(t, 64<<10, f.Limit)
		require.NotZero(t, f.Count)
		require.Contains(t, f.Advice, "ListenConfig.MaxMemory")
		require.NotZero(t, b.Stats().Missed.Inbox)
	})
}

// TestExplainEarlier: what has happened to the others of a Listener before a
// connection began is not blamed for what happens to it.
func TestExplainEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(good)
		socket, err := n.Listen("10.0.0.1:7777")
		require.NoError(t, err)
		l, err := (&ListenConfig{MaxMemory: 64 << 10}).ListenOn(socket)
		require.NoError(t, err)
		defer l.Close()
		s := &stage{t: t}
		dial := func(addr string) (a, b *Conn) {
			inner, err := n.Dial(addr, "10.0.0.1:7777")
			require.NoError(t, err)
			a = mustConn(inner, nil)
			a.Write([]byte("hello"))
			b, err = l.AcceptConn(context.Background())
			require.NoError(t, err)
			return a, b
		}
		first, its := dial("10.0.0.2:0")
		socket.SetReadBuffer(8 << 10)
		msgs := make([][]byte, 100)
		for i := range msgs {
			msgs[i] = make([]byte, 1000)
		}
		first.WriteBatch(nil, msgs)
		time.Sleep(time.Second)
		socket.SetReadBuffer(1 << 20)
		first.WriteBatch(nil, msgs) // which nobody reads
		time.Sleep(time.Second)
		finding(t, its.Explain(), findingSocketFull)
		finding(t, its.Explain(), findingMemoryFull)
		its.Close()
		first.Close()

		inner, b := dial("10.0.0.3:0")
		defer inner.Close()
		defer b.Close()
		s.drain(inner)
		s.drain(b)
		s.talk(30, 100, 3*time.Second, inner, b)
		require.Empty(t, b.Explain().Findings)
		n.SetLink(netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("10.0.0.1"), simnet.Link{Latency: good.Latency, Loss: 0.2})
		s.talk(30, 100, 10*time.Second, inner, b)
		require.NotZero(t, b.Stats().Missed.Network)
		require.Zero(t, b.Stats().Missed.Socket)
		require.NotZero(t, b.Stats().Transport.Drops) // those of all, still
	})
}

// TestExplainLateListener: what was sent while nobody listened is not lost in the
// network.
func TestExplainLateListener(t *testing.T) {
	for _, admit := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, l, dial := network(t, new(ListenConfig))
			s := &stage{t: t}
			require.NoError(t, l.Close())
			a := dial("10.0.0.2:0", new(Dialer))
			defer a.Close()
			s.drain(a)
			s.talk(30, 100, 10*time.Second, a)
			pc, err := n.Listen("10.0.0.1:7777")
			require.NoError(t, err)
			l, err = (&ListenConfig{AdmitMidStream: admit}).ListenOn(pc)
			require.NoError(t, err)
			defer l.Close()
			s.talk(30, 100, 100*time.Millisecond, a)
			b := accept(t, l)
			defer b.Close()
			s.drain(b)
			s.talk(30, 100, 5*time.Second, a, b)
			require.Empty(t, b.Explain().Findings)
			require.Zero(t, b.Stats().Missed)
		})
	}
}

func TestExplainOneWay(t *testing.T) {
	staged(t, good, good, nil, func(s *stage) {
		s.drain(s.b)
		s.talk(30, 100, 10*time.Second, s.a)
		f := only(t, s.a.Explain(), findingOneWay)
		require.EqualValues(t, s.a.Stats().MessagesSent, f.Count)
		require.Contains(t, s.a.Explain().String(), "Nothing is wrong.")
		f = only(t, s.b.Explain(), findingOneWay)
		require.EqualValues(t, s.b.Stats().MessagesReceived, f.Count)
		require.Zero(t, s.b.Stats().Missed)
	})
}

func TestExplainJitter(t *testing.T) {
	shaky := simnet.Link{Latency: 40 * time.Millisecond, Jitter: 40 * time.Millisecond}
	staged(t, shaky, shaky, nil, func(s *stage) {
		s.drain(s.a)
		s.drain(s.b)
		s.talk(30, 100, 30*time.Second, s.a, s.b)
		f := only(t, s.a.Explain(), findingJitter)
		require.InDelta(t, 20, f.Duration.Seconds()*1e3, 10)
	})
	far := simnet.Link{Latency: 200 * time.Millisecond, Jitter: 20 * time.Millisecond}
	staged(t, far, far, nil, func(s *stage) { // where it does not matter
		s.drain(s.a)
		s.drain(s.b)
		s.talk(30, 100, 30*time.Second, s.a, s.b)
		require.Empty(t, s.a.Explain().Findings)
	})
}

// A stuck connection takes nothing while it is stuck.
type stuck struct {
	net.Conn
	on   atomic.Bool
	free chan struct{}
}

func (w *stuck) Write(b []byte) (int, error) {
	if w.on.Load() {
		<-w.free
	}
	return w.Conn.Write(b)
}

func TestExplainSendBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ia, ib := simnet.Pair(1, good, good)
		inner := &stuck{Conn: ia, free: make(chan struct{})}
		s := &stage{t: t, a: mustConn(inner, nil), b: mustConn(ib, nil)}
		defer s.b.Close()
		defer s.a.Close()
		s.drain(s.a)
		s.drain(s.b)
		s.talk(10, 100, 3*time.Second, s.a, s.b)
		require.Empty(t, s.a.Explain().Findings)
		inner.on.Store(true)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 200 {
				s.a.Write(make([]byte, 1000))
			}
		}()
		time.Sleep(6 * time.Second)
		s.a.Explain()
		s.talk(10, 100, 6*time.Second, s.b)
		f := finding(t, s.a.Explain(), findingSendBlocked)
		require.GreaterOrEqual(t, f.Duration, 5*time.Second)
		inner.on.Store(false)
		close(inner.free)
		<-done
		s.talk(10, 100, time.Minute, s.a, s.b)
		s.a.Explain()
		s.talk(10, 100, 6*time.Second, s.a, s.b)
		require.Empty(t, s.a.Explain().Findings)
	})
}

// TestExplainClosed: what had no answer yet when the connection was closed is not
// lost, though Stats and receipts count it so.
func TestExplainClosed(t *testing.T) {
	staged(t, good, good, nil, func(s *stage) {
		s.drain(s.b)
		for range 10 {
			s.a.Write([]byte("hello"))
		}
		s.a.Close()
		only(t, s.a.Explain(), findingEnded)
		require.EqualValues(t, 10, s.a.Stats().MessagesLost)
		time.Sleep(time.Second)
		require.EqualValues(t, 10, s.b.Stats().MessagesReceived)
	})
	staged(t, simnet.Link{Loss: 1}, good, nil, func(s *stage) { // and what was lost before, is
		s.talk(10, 100, 12*time.Second, s.a)
		lost := s.a.Stats().MessagesLost
		require.NotZero(t, lost)
		require.Less(t, lost, s.a.Stats().MessagesSent)
		s.a.Close()
		require.Equal(t, lost, finding(t, s.a.Explain(), findingLossSending).Count)
	})
}

// TestExplainNoTime: round trips that take no time at all, as in a bubble, do not
// vary.
func TestExplainNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil)
		defer a.Close()
		defer b.Close()
		s := &stage{t: t}
		s.drain(a)
		s.drain(b)
		s.talk(50, 100, 6*time.Second, a, b)
		require.Zero(t, a.Stats().RTT)
		require.Empty(t, a.Explain().Findings)
		require.Empty(t, b.Explain().Findings)
	})
}
