package porous

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// bubble runs f in a bubble with virtual time.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// Sessions returns the two ends of a session of package netcode over a simulated
// link, which may be changed, and SealedPipe those of one in memory. The external
// tests set them, as this package may not import that one.
var (
	Sessions   func(tb testing.TB, seed uint64, link simnet.Link) (x, y net.Conn, change func(simnet.Link))
	SealedPipe func() (x, y net.Conn)
)

// A pairing makes two connections over a simulated link, which may be changed. With
// two Configs the second one is b's.
type pairing func(t *testing.T, link simnet.Link, cfg ...*Config) (a, b *Conn, change func(simnet.Link))

// bubbles runs f in bubbles with virtual time: over plain datagrams, and over
// sessions of netcode. Each pair has a network with a seed of its own.
func bubbles(t *testing.T, f func(t *testing.T, pair pairing)) {
	seed := uint64(0)
	over := func(x, y net.Conn, cfg []*Config) (a, b *Conn) {
		cfg = append(cfg, nil) // none is the defaults
		return wrapped(x, cfg[0]), wrapped(y, cfg[max(0, len(cfg)-2)])
	}
	plain := func(t *testing.T, link simnet.Link, cfg ...*Config) (a, b *Conn, change func(simnet.Link)) {
		seed++
		n := simnet.New(seed)
		t.Cleanup(func() { n.Close() })
		n.SetDefault(link)
		x, err := n.Dial("10.0.0.1:1", "10.0.0.2:1")
		require.NoError(t, err)
		y, err := n.Dial("10.0.0.2:1", "10.0.0.1:1")
		require.NoError(t, err)
		a, b = over(x, y, cfg)
		return a, b, n.SetDefault
	}
	sealed := func(t *testing.T, link simnet.Link, cfg ...*Config) (a, b *Conn, change func(simnet.Link)) {
		seed++
		x, y, change := Sessions(t, seed, link)
		a, b = over(x, y, cfg)
		return a, b, change
	}
	t.Run("plain", func(t *testing.T) { bubble(t, func(t *testing.T) { f(t, plain) }) })
	t.Run("netcode", func(t *testing.T) { bubble(t, func(t *testing.T) { f(t, sealed) }) })
}

func abort(conns ...*Conn) {
	for _, c := range conns {
		c.Abort()
	}
}

func readString(t *testing.T, r io.Reader) string {
	t.Helper()
	buf := make([]byte, 1<<16)
	n, err := r.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func TestConnChannelsAndModes(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{Latency: 20 * time.Millisecond}, &Config{Channels: 256})
		defer abort(a, b)
		for n := range 256 {
			for mode := Reliable; mode <= Passive; mode++ {
				_, err := a.Channel(n).WriteMessage(t.Context(), fmt.Appendf(nil, "%d %v", n, mode), mode)
				require.NoError(t, err)
			}
		}
		for n := 255; n >= 0; n-- {
			for mode := Reliable; mode <= Passive; mode++ {
				require.Equal(t, fmt.Sprintf("%d %v", n, mode), readString(t, b.Channel(n)))
			}
		}
		require.Same(t, a.Channel(7), a.Channel(7))
		require.Panics(t, func() { a.Channel(256) })
		for _, mode := range []Mode{-1, 0, 4} {
			_, err := a.WriteMessage(t.Context(), nil, mode)
			require.ErrorAs(t, err, new(*ConfigError))
		}
	})
}

func TestConnMessages(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{Latency: 5 * time.Millisecond}, &Config{MaxMessageSize: 10_000})
		defer abort(a, b)
		for _, size := range []int{0, 1, 1452, 1453, 10_000} {
			n, err := a.Write(make([]byte, size))
			require.NoError(t, err)
			require.Equal(t, size, n)
			p, err := b.ReadMessage(t.Context(), []byte("x"))
			require.NoError(t, err)
			require.Len(t, p, 1+size)
		}
		_, err := a.Write(make([]byte, 10_001))
		var large *MessageTooLargeError
		require.ErrorAs(t, err, &large)
		require.Equal(t, MessageTooLargeError{10_001, a.MaxMessageSize()}, *large)

		a.Write([]byte("too long for that"))
		a.Write([]byte("next"))
		buf := make([]byte, 3)
		n, err := b.Read(buf)
		require.ErrorIs(t, err, io.ErrShortBuffer)
		require.Equal(t, "too", string(buf[:n]))
		require.Equal(t, "next", readString(t, b))
		require.EqualValues(t, 1, b.Stats().MessagesTruncated)
		n, err = b.Read(nil)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// A message that is lost after a silence, when no timer is near, is sent again
// after a timeout; and memory that it takes at either side is given back.
func TestAfterASilence(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		link := simnet.Link{Latency: 10 * time.Millisecond}
		a, b, change := pair(t, link, nil)
		defer abort(a, b)
		compact := func(c *Conn) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.compact
		}
		for range 10 {
			time.Sleep(10 * time.Second)
			require.True(t, compact(a))
			require.True(t, compact(b))
			change(simnet.Link{Blackout: true})
			start := time.Now()
			a.Write([]byte("x"))
			time.Sleep(20 * time.Millisecond)
			change(link)
			readString(t, b)
			require.Less(t, time.Since(start), 300*time.Millisecond)
			require.False(t, compact(a))
			require.False(t, compact(b))
		}
	})
}

func TestDeadlines(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		cfg := &Config{Channels: 2, SendBuffer: 100_000}
		a, b, _ := pair(t, simnet.Link{Latency: 10 * time.Millisecond, Bandwidth: 1e6}, cfg)
		defer abort(a, b)
		start := time.Now()
		a.SetReadDeadline(start.Add(time.Second))
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.True(t, err.(net.Error).Timeout())
		require.Equal(t, time.Second, time.Since(start))

		ch := a.Channel(1)
		ch.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for err = nil; err == nil; {
			_, err = ch.Write(make([]byte, 30_000))
		}
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		for err = nil; err == nil; {
			_, err = a.WriteMessage(ctx, make([]byte, 30_000), Reliable)
		}
		require.ErrorIs(t, err, context.DeadlineExceeded, "deadlines of channels are their own")
		require.NoError(t, a.Flush(t.Context()))
	})
}

func TestReceipts(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		link := simnet.Link{Latency: 30 * time.Millisecond, Loss: 0.3}
		a, b, _ := pair(t, link, &Config{Channels: 2, CloseTimeout: time.Minute})
		defer abort(b)
		want := map[uint64]int{}
		const n = 1800
		for i := range n {
			id, err := a.Channel(i%2).WriteMessage(t.Context(), []byte("m"), Reliable+Mode(i%3))
			require.NoError(t, err)
			want[id] = i
			if i%3 == 2 {
				time.Sleep(20 * time.Millisecond)
			}
		}
		require.NoError(t, a.Flush(t.Context()))
		lost := 0
		for _, r := range a.AppendReceipts(nil) {
			i, ok := want[r.ID]
			require.True(t, ok, "one receipt for each")
			delete(want, r.ID)
			require.Equal(t, i%2, r.Channel)
			if r.Fate == Delivered {
				require.GreaterOrEqual(t, r.RTT, 60*time.Millisecond)
			} else {
				require.NotEqual(t, Reliable, Reliable+Mode(i%3))
				require.Zero(t, r.RTT)
				lost++
			}
		}
		require.Empty(t, want)
		require.NotZero(t, lost)
		st := a.Stats()
		require.EqualValues(t, lost, st.MessagesLost)
		require.EqualValues(t, n-lost, st.MessagesDelivered)
		require.Greater(t, st.Loss, 0.1)
		require.NoError(t, a.Close())
	})
}

func TestSendUntil(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{Latency: 300 * time.Millisecond}, nil)
		defer abort(a, b)
		late, err := a.WriteMessageUntil(t.Context(), []byte("late"), Reliable, time.Now().Add(10*time.Millisecond))
		require.NoError(t, err)
		_, err = a.WriteMessageUntil(t.Context(), []byte("in time"), Reliable, time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.Equal(t, "in time", readString(t, b))
		require.Equal(t, []Receipt{{ID: late, Fate: Lost}}, a.AppendReceipts(nil))
		require.NoError(t, a.Flush(t.Context()))
		synctest.Wait() // nobody transmits, who would look at the messages later
		a.AppendReceipts(nil)
		for _, over := range []time.Time{time.Now(), time.Now().Add(-time.Hour), time.Unix(0, 0)} {
			late, err = a.WriteMessageUntil(t.Context(), []byte("late from the start"), Reliable, over)
			require.NoError(t, err)
			require.Equal(t, []Receipt{{ID: late, Fate: Lost}}, a.AppendReceipts(nil))
		}
		require.NoError(t, a.Close(), "what was over by itself was not lost by the end")
	})
}

func TestPriority(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		link := simnet.Link{Latency: 10 * time.Millisecond, Bandwidth: 2e6}
		a, b, _ := pair(t, link, &Config{Channels: 2})
		defer abort(a, b)
		a.Channel(1).SetHighPriority(true)
		require.True(t, a.Channel(1).Stats().HighPriority)
		for range 300 {
			a.Write(make([]byte, 5000))
		}
		time.Sleep(time.Second)
		start := time.Now()
		a.Channel(1).Write([]byte("urgent"))
		require.Equal(t, "urgent", readString(t, b.Channel(1)))
		require.Less(t, time.Since(start), 500*time.Millisecond)
		require.Greater(t, a.Stats().SendQueue, 500_000, "what is low still waits")
	})
}

// A channel that nobody reads at the peer blocks whoever writes there, and
// nobody else, whatever the size of their messages; nor does what it keeps grow.
func TestUnreadChannelBlocksItself(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		cfg := &Config{Channels: 3, SendBuffer: 100_000, ReceiveBuffer: 300_000}
		a, b, _ := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, cfg)
		defer abort(a, b)
		blocked := make(chan error)
		for n := range 2 {
			go func() {
				for {
					if _, err := a.Channel(1 + n).Write(make([]byte, 3000)); err != nil {
						blocked <- err
						return
					}
				}
			}()
		}
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		buf := make([]byte, a.MaxMessageSize())
		go func() {
			for i := range 300 {
				a.WriteMessage(ctx, buf[:max(1, i%3*len(buf)/2)], Reliable)
			}
		}()
		for i := range 300 {
			n, err := b.Read(buf)
			require.NoError(t, err)
			require.Equal(t, max(1, i%3*len(buf)/2), n)
			require.Less(t, a.Stats().SendQueue, cfg.SendBuffer+3*(a.MaxMessageSize()+112))
		}
		require.NoError(t, ctx.Err())
		require.True(t, a.Channel(1).Stats().Refused)
		require.NoError(t, a.Channel(1).Close())
		require.ErrorIs(t, <-blocked, net.ErrClosed)
		require.NoError(t, a.Channel(2).SetWriteDeadline(time.Now()))
		require.ErrorIs(t, <-blocked, os.ErrDeadlineExceeded)
	})
}

// Who waits for room gets it when the time of what filled it is over, though
// nothing is acknowledged.
func TestRoomOfWhatIsOver(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, change := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, &Config{SendBuffer: 70_000, IdleTimeout: time.Hour})
		defer abort(a, b)
		require.NoError(t, a.Flush(t.Context()))
		change(simnet.Link{Blackout: true})
		over := time.Now().Add(10 * time.Second)
		var err error
		for err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = a.WriteMessageUntil(ctx, make([]byte, 1000), Unreliable, over)
			cancel()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = a.Write(make([]byte, 20_000))
		require.NoError(t, err)
		require.Less(t, time.Since(over), 5*time.Second)
	})
}

// The horrible link of the requirements, through connections and sockets.
func TestHorribleLink(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		link := simnet.Link{Latency: time.Second, Jitter: time.Second, Loss: 0.5, Duplicate: 0.5, Reorder: 1}
		const n = 10_000
		a, b, _ := pair(t, link, &Config{CloseTimeout: time.Hour})
		start := time.Now()
		done := make(chan error, 2)
		for _, c := range []*Conn{a, b} {
			go func() {
				msg := make([]byte, 100)
				for i := range n {
					binary.BigEndian.PutUint32(msg, uint32(i))
					if _, err := c.Write(msg); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			go func() {
				buf := make([]byte, 200)
				for i := range n {
					if m, err := c.Read(buf); err != nil || m != 100 || int(binary.BigEndian.Uint32(buf)) != i {
						done <- fmt.Errorf("message %d: %d bytes, %v: %d", i, m, err, binary.BigEndian.Uint32(buf))
						return
					}
				}
				done <- nil
			}()
		}
		for range 4 {
			require.NoError(t, <-done)
		}
		require.Less(t, time.Since(start), 4*time.Hour)
		t.Log(time.Since(start))
		abort(a, b)
	})
}

func TestConnBlackout(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, change := pair(t, simnet.Link{Latency: 25 * time.Millisecond}, nil)
		stopped := make(chan struct{})
		defer func() { abort(a, b); <-stopped }()
		go func() {
			defer close(stopped)
			for {
				if _, err := a.Write([]byte("tick")); err != nil {
					return
				}
				time.Sleep(16 * time.Millisecond)
			}
		}()
		time.Sleep(5 * time.Second)
		change(simnet.Link{Blackout: true})
		time.Sleep(15 * time.Second)
		require.Contains(t, a.Explain().String(), "acknowledges nothing")
		change(simnet.Link{Latency: 25 * time.Millisecond})
		before := b.Stats().MessagesReceived
		time.Sleep(2 * time.Second)
		require.Greater(t, b.Stats().MessagesReceived, before+100)
	})
}

func TestConfigErrors(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Channels":         {Channels: 257},
		"MaxMessageSize":   {MaxMessageSize: -1},
		"SendBuffer":       {SendBuffer: 100},
		"ReceiveBuffer":    {ReceiveBuffer: 65536},
		"KeepAlive":        {KeepAlive: -1},
		"IdleTimeout":      {IdleTimeout: -1},
		"HandshakeTimeout": {HandshakeTimeout: -1},
		"SendBandwidth":    {SendBandwidth: 1 << 32},
		"ReceiveBandwidth": {ReceiveBandwidth: -1},
		"Congestion":       {Congestion: "vegas"},
		"LowShare":         {LowShare: 0.51},
	} {
		var ce *ConfigError
		_, err := (&ListenConfig{Config: &cfg}).Listen(context.Background(), "udp", "127.0.0.1:0")
		require.ErrorAs(t, err, &ce, field)
		require.Equal(t, "Config."+field, ce.Field)
		_, err = (&Dialer{Config: &cfg}).Dial(t.Context(), "udp", "127.0.0.1:1")
		require.ErrorAs(t, err, &ce, field)
		require.Panics(t, func() { Pipe(&cfg) })
		_, err = NewListener(noListener{}, &cfg)
		require.ErrorAs(t, err, &ce, field)
	}
	_, err := new(Dialer).Dial(t.Context(), "tcp", "127.0.0.1:1")
	require.ErrorAs(t, err, new(net.UnknownNetworkError))
	x, y := net.Pipe()
	defer y.Close()
	_, err = NewConn(x, nil)
	require.ErrorAs(t, err, new(*ConfigError))
	require.NoError(t, x.SetDeadline(time.Now()), "it is still the caller's")
	for _, err := range []error{ErrRefused, ErrIdleTimeout, ErrHandshakeTimeout, errReplaced, errUnfinished} {
		require.False(t, errors.Is(err, net.ErrClosed), "this side has not closed")
	}
}

type noListener struct{ net.Listener }
