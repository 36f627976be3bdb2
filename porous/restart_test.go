package porous

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/porous/internal/core"
	"volley/simnet"
)

// A peer that dies without a word and dials again from its port takes the place of
// the old connection within a few seconds, as often as it likes.
func TestPeerStartsAgain(t *testing.T) {
	for loss, within := range map[float64]time.Duration{0: 4 * time.Second, 0.2: 10 * time.Second} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := simnet.New(1)
				defer n.Close()
				n.SetDefault(simnet.Link{Latency: 20 * time.Millisecond, Loss: loss})
				l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
				defer l.Close()
				var old *Conn
				for i := range 5 {
					x, err := n.Dial("10.0.0.2:7", "10.0.0.1:7")
					require.NoError(t, err)
					start := time.Now()
					c := wrapped(x, nil)
					require.NoError(t, c.Flush(t.Context()))
					require.Less(t, time.Since(start), within)
					s, err := l.AcceptConn(context.Background())
					require.NoError(t, err)
					c.Write([]byte("who am I"))
					require.Equal(t, "who am I", readString(t, s))
					if i > 0 {
						require.Less(t, restartTime, time.Since(start))
						_, err := old.Read(make([]byte, 1))
						require.ErrorIs(t, err, ErrIdleTimeout)
						require.NotErrorIs(t, err, net.ErrClosed)
						require.ErrorContains(t, err, "started again")
						require.ErrorIs(t, old.Close(), ErrIdleTimeout) // for what was under way
					}
					require.Equal(t, 1, l.Stats().Conns)
					old = s
					s.Write(make([]byte, 10_000)) // under way when it dies
					require.NoError(t, x.Close()) // and nobody is told
				}
				require.NoError(t, old.Abort())
			})
		})
	}
}

// restartTime is for how long a peer that has started again is not believed.
const restartTime = 3 * time.Second

// The same for a Listener that dials: also if it has not died, but only forgotten,
// and asks with the same id again.
func TestListenerDialsAgain(t *testing.T) {
	for _, dies := range []bool{true, false} {
		t.Run(fmt.Sprint("dies ", dies), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := simnet.New(1)
				defer n.Close()
				n.SetDefault(simnet.Link{Latency: 20 * time.Millisecond})
				l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
				defer l.Close()
				pc, err := n.Listen("10.0.0.2:7")
				require.NoError(t, err)
				other, err := new(ListenConfig).ListenOn(pc)
				require.NoError(t, err)
				c, err := l.Dial(t.Context(), "10.0.0.2:7")
				require.NoError(t, err)
				time.Sleep(time.Second)
				if dies {
					require.NoError(t, pc.Close())
					other = simListener(t, n, "10.0.0.2:7", &ListenConfig{})
				} else {
					n.SetDefault(simnet.Link{Blackout: true})
					d, err := other.AcceptConn(context.Background())
					require.NoError(t, err)
					require.NoError(t, d.Abort())
					n.SetDefault(simnet.Link{Latency: 20 * time.Millisecond})
				}
				defer other.Close()
				start := time.Now()
				d, err := other.Dial(t.Context(), "10.0.0.1:7")
				require.NoError(t, err)
				require.Less(t, time.Since(start), 5*time.Second)
				_, err = c.Read(make([]byte, 1))
				require.ErrorIs(t, err, ErrIdleTimeout)
				s, err := l.AcceptConn(context.Background())
				require.NoError(t, err)
				d.Write([]byte("again"))
				require.Equal(t, "again", readString(t, s))
				abort(c, d, s)
			})
		})
	}
}

// Forged requests to connect, however many, and whatever they ask for, do not end
// a connection whose peer lives, be it idle on a link that loses a third.
func TestForgedRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		c, s := simAccept(t, n, l, "10.0.0.2:7")
		n.SetDefault(simnet.Link{Latency: 50 * time.Millisecond, Loss: 0.33})
		for i := range uint32(6000) {
			forged := core.Connect{Channels: 1 + int(i%3), Version: uint8(i % 2), ID: i % 7}
			(*handler)(s).HandleBatch(time.Now(), [][]byte{core.AppendConnect(nil, forged)}, nil)
			time.Sleep(10 * time.Millisecond)
		}
		c.Write([]byte("still here"))
		require.Equal(t, "still here", readString(t, s))
		s.Write([]byte("me, too"))
		require.Equal(t, "me, too", readString(t, c))
		abort(c, s)
	})
}

// Where a peer has fallen silent its address is open at once.
func TestAddressOpensAfterSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		x, err := n.Dial("10.0.0.2:7", "10.0.0.1:7")
		require.NoError(t, err)
		c := wrapped(x, nil)
		s, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		require.NoError(t, c.Flush(t.Context()))
		x.Close()
		_, err = s.Read(make([]byte, 1))
		require.ErrorIs(t, err, ErrIdleTimeout)
		start := time.Now()
		c, s = simAccept(t, n, l, "10.0.0.2:7")
		require.Less(t, time.Since(start), time.Second)
		require.NoError(t, s.Close())
		abort(c)
		c = simDial(t, n, "10.0.0.2:7", "10.0.0.1:7", nil)
		time.Sleep(10 * time.Second)
		require.Zero(t, l.Stats().Conns, "S4: after an end in order it is not")
		abort(c)
	})
}
