package netcode

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// A client that has ended, however far it had come, has no keys any more, and
// stays as it is: it sends nothing, wants no calls, and takes nothing for a failure
// that happens later.
func TestEndedClient(t *testing.T) {
	for _, connected := range []bool{false, true} {
		for _, end := range []state{stateDisconnected, stateTimedOut, stateDenied} {
			s := newTestServer(nil)
			tok := issueAt(t, testStart, 1)
			c := newTestClient(testStart, tok)
			if connected {
				c, _, _ = connectPair(t, s, testStart, clientAddr(1), tok)
			}
			c.end(testStart, end)
			require.Equal(t, end, c.state)
			require.Nil(t, c.send.cipher.aead)
			require.Nil(t, c.recv.cipher.aead)
			require.Zero(t, c.challenge)
			attempts := len(c.attempts)
			var out wire.Batch
			for _, at := range []time.Duration{0, time.Second, 10 * time.Second, time.Hour} {
				now := testStart.Add(at)
				require.Zero(t, c.advance(now, &out))
				require.Zero(t, c.next(now))
				require.Nil(t, c.receive(now, testServerAddr, make([]byte, 100)))
				c.abandon(now, errRefused)
				c.refuse(now)
				c.disconnect(now, &out)
			}
			require.Zero(t, out.Len())
			require.Equal(t, end, c.state)
			require.Len(t, c.attempts, attempts)
			require.Zero(t, c.recv.dropped())
		}
	}
}

// Each server of a token has a sequence of its own: what one has used is no replay
// at the next, and what it has said counts for nothing there.
func TestNextServerBeginsAnew(t *testing.T) {
	is := testIssuer()
	second := netip.MustParseAddrPort("10.0.0.2:7777")
	is.Servers = append(is.Servers, second)
	tok, err := is.issue(testStart, 1, nil, GenerateKey(), GenerateKey(), randomNonce())
	require.NoError(t, err)
	c := newTestClient(testStart, tok)
	var out wire.Batch
	c.advance(testStart, &out)
	c.recv.window.mark(5)
	c.state, c.challenge[0], c.leaving = stateResponding, 1, true
	c.refused = testStart
	c.tryNext(testStart.Add(time.Second), stateResponseTimedOut)
	require.True(t, c.recv.window.check(5))
	require.Equal(t, second, c.addr)
	require.Equal(t, stateRequesting, c.state)
	require.Zero(t, c.challenge)
	require.False(t, c.leaving)
	require.Zero(t, c.refused)
	require.Equal(t, testStart.Add(time.Second), c.recv.last)
	require.Equal(t, uint64(1), c.send.seq, "the keys are the same, so that the count goes on")
	require.Equal(t, testStart.Add(time.Second), c.next(testStart.Add(time.Second)), "the next request is due")
	require.Equal(t, []attempt{{server: testServerAddr, state: stateResponseTimedOut, elapsed: time.Second}}, c.attempts)
}
