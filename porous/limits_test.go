package porous

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/inbox"
	"volley/porous/internal/core"
	"volley/simnet"
)

// A overuser is a peer that begins packets and finishes none: it sends the second of
// two fragments of each.
type overuser struct {
	conn      net.Conn
	id        uint32 // of the next data frame
	packet    uint32
	connected chan struct{}
}

func newOveruser(t *testing.T, n *simnet.Network, to string) *overuser {
	conn, err := n.Dial("10.0.0.9:0", to)
	require.NoError(t, err)
	h := &overuser{conn: conn, connected: make(chan struct{})}
	go h.listen()
	connect := core.AppendConnect(nil, core.Connect{Channels: 1, ID: 7, Bandwidth: core.NoBandwidthLimit})
	for {
		conn.Write(connect)
		select {
		case <-h.connected:
			return h
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// listen takes part in the handshake, and answers nothing else.
func (h *overuser) listen() {
	buf := make([]byte, 2000)
	for connected := false; ; {
		n, err := h.conn.Read(buf)
		if err != nil {
			return
		}
		if c, ok := core.ParseConnect(buf[:n]); ok {
			if !connected {
				h.id = c.ID
			}
			h.conn.Write(core.AppendConnectAck(nil, c.ID))
		}
		if _, ok := core.ParseConnectAck(buf[:n]); ok && !connected {
			connected = true
			close(h.connected)
		}
	}
}

// overuse sends some frames of unfinished packets.
func (h *overuser) overuse(frames int) {
	for range frames {
		b := core.AppendDataHeader(nil, h.id, 1)
		b = core.AppendMessage(b, &core.Message{Packet: h.packet + 1, Last: 1, Fragment: 1, Data: make([]byte, 700)})
		h.conn.Write(b)
		h.id++
		h.packet++
	}
}

// Peers that finish nothing take three quarters of MaxMemory and their shares of the
// rest. Others go on meanwhile, and after a while have all of it again.
func TestOverusersStarveNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 2 << 20
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: time.Millisecond})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{MaxMemory: limit})
		defer l.Close()
		overusers := make([]*overuser, 3)
		for i := range overusers {
			overusers[i] = newOveruser(t, n, "10.0.0.1:7")
			defer overusers[i].conn.Close()
		}
		for range 40 {
			for _, h := range overusers {
				h.overuse(50)
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Greater(t, l.Stats().Memory, int64(limit)*7/10)

		a := simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil)
		var b *Conn
		for b == nil || b.RemoteAddr().String() != a.LocalAddr().String() {
			c, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			b = c
		}
		say := func(size int, within time.Duration) {
			t.Helper()
			_, err := a.Write(make([]byte, size))
			require.NoError(t, err)
			b.SetReadDeadline(time.Now().Add(within))
			m, err := b.ReadMessage(context.Background(), nil)
			require.NoError(t, err, "%d bytes", size)
			require.Len(t, m, size)
			require.LessOrEqual(t, l.Stats().Memory, int64(limit))
		}
		for range 100 {
			say(4, time.Second)
			say(40_000, 2*time.Second)
		}
		require.Equal(t, 4, l.Stats().Conns)
		for range 15 {
			for _, h := range overusers {
				h.overuse(20)
			}
			say(40_000, 2*time.Second)
			time.Sleep(time.Second)
		}
		require.Less(t, l.Stats().Conns, 4, "of those that finish nothing as many end as make room")
		require.Less(t, l.Stats().Memory, int64(limit)*3/4)
		say(65_536, 2*time.Second)
		abort(a, b)
		time.Sleep(time.Minute)
		require.Zero(t, l.Stats().Memory)
	})
}

// Unfinished messages end no connection if they keep nobody from receiving: a
// connection is alone, or there is memory left.
func TestOverusersMayHold(t *testing.T) {
	for _, test := range []struct {
		limit         int64
		conns, frames int
	}{{1 << 20, 1, 2000}, {4 << 20, 3, 900}} {
		bubble(t, func(t *testing.T) {
			n := simnet.New(1)
			defer n.Close()
			n.SetDefault(simnet.Link{Latency: time.Millisecond})
			l := simListener(t, n, "10.0.0.1:7", &ListenConfig{MaxMemory: test.limit})
			defer l.Close()
			overusers := make([]*overuser, test.conns)
			for i := range overusers {
				overusers[i] = newOveruser(t, n, "10.0.0.1:7")
				defer overusers[i].conn.Close()
			}
			for range test.frames / 50 {
				for _, h := range overusers {
					h.overuse(50)
				}
				time.Sleep(10 * time.Millisecond)
			}
			for range 60 {
				for _, h := range overusers {
					h.overuse(1)
				}
				time.Sleep(250 * time.Millisecond)
			}
			require.Greater(t, l.Stats().Memory, test.limit/2)
			require.Equal(t, test.conns, l.Stats().Conns)
		})
	}
}

// Messages of so many connections at once that MaxMemory holds none of them whole: some
// connections end, and all others go on.
func TestUnfinishedMessagesEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const conns, messages = 40, 4
		cfg := &Config{MaxMessageSize: 16384, ReceiveBuffer: 256 << 10}
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Jitter: 3 * time.Millisecond})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{Config: cfg, MaxMemory: 256 << 10})
		defer l.Close()
		var dialed, accepted []*Conn
		for i := range conns {
			dialed = append(dialed, simDial(t, n, fmt.Sprintf("10.0.0.%d:0", 2+i), "10.0.0.1:7", cfg))
			b, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			accepted = append(accepted, b)
		}
		for range messages {
			for _, c := range dialed {
				_, err := c.Write(make([]byte, 16384))
				require.NoError(t, err)
			}
		}
		time.Sleep(5 * time.Second)
		require.Greater(t, l.Stats().Memory, int64(240<<10))
		var readers sync.WaitGroup
		var whole, ended atomic.Int64
		for _, c := range accepted {
			readers.Go(func() {
				for range messages {
					if _, err := c.ReadMessage(context.Background(), nil); err != nil {
						ended.Add(1)
						return
					}
				}
				whole.Add(1)
			})
		}
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, conns, whole.Load()+ended.Load())
		require.GreaterOrEqual(t, whole.Load(), int64(conns/8), "as many connections remain as have room")
		require.Zero(t, l.Stats().Memory)
		for i, c := range dialed {
			abort(c, accepted[i])
		}
		readers.Wait()
	})
	var l limits
	l.budget.Init(256 << 10)
	l.conns = func() int { return 4 }
	require.Equal(t, 32<<10, l.part())
}

// Messages that wait for others leave memory for those that others wait for. So no connection
// ends because many have lost some of their small messages.
func TestWaitingMessagesLeaveMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const conns, messages = 60, 100
		cfg := &Config{MaxMessageSize: 1000}
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Jitter: 3 * time.Millisecond, Loss: 0.01})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{Config: cfg, MaxMemory: 128 << 10})
		defer l.Close()
		var dialed, accepted []*Conn
		for i := range conns {
			dialed = append(dialed, simDial(t, n, fmt.Sprintf("10.0.0.%d:0", 2+i), "10.0.0.1:7", cfg))
			b, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			accepted = append(accepted, b)
		}
		for _, c := range dialed {
			for range messages {
				_, err := c.Write(make([]byte, 1000))
				require.NoError(t, err)
			}
		}
		var readers sync.WaitGroup
		for _, c := range accepted {
			readers.Go(func() {
				c.SetReadDeadline(time.Now().Add(time.Minute))
				for i := range messages {
					if _, err := c.ReadMessage(context.Background(), nil); err != nil {
						t.Errorf("message %d: %v", i, err)
						return
					}
				}
			})
		}
		readers.Wait()
		require.Zero(t, l.Stats().Memory)
		for i, c := range dialed {
			abort(c, accepted[i])
		}
	})
}

// Memory of messages that wait for Read is counted as it is held, and given back
// with them. Where there is little left, no message that was acknowledged is lost.
func TestUnreadMemoryIsCounted(t *testing.T) {
	for _, limit := range []int64{1 << 30, 400_000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const channels = 64
				cfg := &Config{Channels: channels, MaxMessageSize: 2000}
				n := simnet.New(1)
				defer n.Close()
				n.SetDefault(simnet.Link{Latency: time.Millisecond})
				l := simListener(t, n, "10.0.0.1:7", &ListenConfig{Config: cfg, MaxMemory: limit})
				defer l.Close()
				a := simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", cfg)
				b, err := l.AcceptConn(context.Background())
				require.NoError(t, err)
				const rounds = 30
				go func() {
					for i := range channels * rounds {
						if _, err := a.Channel(i % channels).Write(make([]byte, 500)); err != nil {
							t.Error(err)
							return
						}
					}
				}()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				held := l.Stats().Memory
				require.LessOrEqual(t, held, limit)
				b.mu.Lock()
				require.LessOrEqual(t, b.chunks.Load(), held, "all chunks are counted")
				require.GreaterOrEqual(t, b.chunks.Load(), int64(b.unreadLocked()))
				b.mu.Unlock()
				if limit == 1<<30 {
					require.GreaterOrEqual(t, held, int64(channels*(9<<10)), "pieces of 1 and of 8 KiB")
				}
				var readers sync.WaitGroup
				for i := range channels {
					readers.Go(func() {
						ch := b.Channel(i)
						ch.SetReadDeadline(time.Now().Add(time.Minute))
						for range rounds {
							if m, err := ch.ReadMessage(context.Background(), nil); err != nil || len(m) != 500 {
								t.Errorf("channel %d: a message of %d bytes, %v", i, len(m), err)
								return
							}
						}
					})
				}
				readers.Wait()
				require.NoError(t, a.Flush(t.Context()))
				require.Zero(t, b.Stats().MessagesDropped)
				require.Zero(t, b.chunks.Load())
				abort(a, b)
				time.Sleep(time.Minute)
				require.Zero(t, l.Stats().Memory)
			})
		})
	}
}

// An inbox keeps a message in memory that was granted for the message itself.
func TestTightMemoryIsGranted(t *testing.T) {
	set, err := newSettings(nil, 65507)
	require.NoError(t, err)
	for _, size := range []int{0, 1, 64, 65, 256, 257, 736, 737, 1400, 1401, 5000, 65536} {
		require.LessOrEqual(t, size+inbox.TightOverhead-8, core.MessageCost(&set.core, size), "a message of %d bytes", size)
	}
}
