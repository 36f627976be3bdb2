package volley

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A peer with acknowledgements of the reference's kind understands those of one with
// the defaults: none is taken for an ack of what was never sent, each message is
// Delivered, and no keepalive leaves in haste for want of an acknowledgement.
func TestAckDelayOnOneSideOnly(t *testing.T) {
	reference := ReferenceConfig()
	reference.KeepAlive, reference.IdleTimeout = 5*time.Second, 30*time.Second
	for name, cfg := range map[string]*Config{
		"off":             {AckDelay: -1},
		"off, no windows": {AckDelay: -1, MaxWindow: -1},
		"reference":       reference,
	} {
		for _, echo := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				testAckDelayOnOneSide(t, fmt.Sprintf("%s, echo %v", name, echo), cfg, echo)
			})
		}
	}
}

func testAckDelayOnOneSide(t *testing.T, what string, cfg *Config, echo bool) {
	link := simnet.Link{Latency: 20 * time.Millisecond}
	x, y := simnet.Pair(1, link, link)
	a, b := mustConn(x, cfg), mustConn(y, nil)
	defer b.Close()
	defer a.Close()
	go func() {
		for {
			m, err := b.ReadMessage(context.Background(), nil)
			if err != nil {
				return
			}
			if echo {
				b.Write(m)
			}
		}
	}()
	const messages = 100
	a.AppendReceipts(nil)
	for range messages {
		a.Write([]byte("message"))
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(time.Minute)
	require.Zero(t, a.Stats().AcksInvalid, what)
	require.EqualValues(t, messages, a.Stats().MessagesDelivered, what)
	before := a.Stats().KeepAlivesSent
	time.Sleep(10 * time.Minute)
	require.LessOrEqual(t, a.Stats().KeepAlivesSent-before, uint64(130), "%s: keepalives", what)
}

// While so much waits to leave that no control packet may join it, a tick that is
// due to a keepalive, too, comes back later, and not at once.
func TestTickWhileCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := simnet.Pair(1, simnet.Link{}, simnet.Link{})
		a, b := mustConn(x, nil), mustConn(y, nil)
		defer b.Close()
		defer a.Close()
		a.Write([]byte("x"))
		b.Write([]byte("y"))
		time.Sleep(time.Second)
		a.mu.Lock()
		require.NoError(t, a.out.AcquireUnlocking(a.out.Patience())) // somebody waits for room in the socket
		for !a.out.Crowded() {
			a.out.Batch(a.now()).Extend(5)
		}
		a.mu.Unlock()
		b.Write([]byte("z")) // a owes an acknowledgement
		time.Sleep(6 * time.Second)
		for range 3 {
			require.True(t, (*handler)(a).HandleTick(time.Now(), nil).After(time.Now()))
			time.Sleep(time.Second)
		}
		a.mu.Lock()
		a.out.Batch(0).Reset()
		a.out.ReleaseUnlocking(a.out.Patience())
		a.mu.Unlock()
	})
}
