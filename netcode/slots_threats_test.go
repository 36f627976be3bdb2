package netcode

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/internal/wire"
)

var (
	cycles  = flag.Int("cycles", 0, "how many sessions TestCyclesLeaveNothing makes; 0: 2,000, or 10^5 with -full")
	guesses = flag.Int("guesses", 0, "how many datagrams TestBlindGuesses sends; 0: 10^5, or 10^8 with -full")
)

// count returns a flag's number, or a test's size.
func count(flag, small, large int) int {
	if flag > 0 {
		return flag
	}
	return testenv.Sized(small, large)
}

// Of twice as many clients with valid tokens as there are slots, exactly as many as that get
// in, and the others are told. A slot that becomes free is taken at once.
func TestTwiceTheClients(t *testing.T) {
	const slots = 300
	s := newTestServer(func(c *serverConfig) { c.maxClients = slots })
	var first *session
	for i := range 2 * slots {
		c := newTestClient(testStart, issueAt(t, testStart, uint64(i)))
		var sess *session
		for range 2 { // request, response
			for _, b := range clientSends(c, testStart) {
				accepted, answers := serverHandles(s, testStart, clientAddr(i), b)
				if accepted != nil {
					sess = accepted
				}
				for _, a := range answers {
					c.receive(testStart, testServerAddr, a)
				}
			}
		}
		if i < slots {
			require.NotNil(t, sess, i)
			if first == nil {
				first = sess
			}
			continue
		}
		require.Nil(t, sess, i)
		require.EqualValues(t, i-slots+1, s.counts.denied)
	}
	require.Len(t, s.sessions, slots)
	s.remove(first)
	_, sess, _ := connectPair(t, s, testStart, clientAddr(2*slots), issueAt(t, testStart, 2*slots))
	require.NotNil(t, sess)
	require.Len(t, s.sessions, slots)
}

// Clients that connect and are gone leave no session, id, slot, handshake or token behind,
// and no memory.
func TestCyclesLeaveNothing(t *testing.T) {
	now := testStart
	s := newTestServer(func(c *serverConfig) { c.maxClients = 100 })
	n := count(*cycles, 2000, 100_000)
	cycle := func(n int) {
		for i := range n {
			_, sess, _ := connectPair(t, s, now, clientAddr(i), issueAt(t, now, uint64(i)))
			require.NotNil(t, sess)
			s.remove(sess)
			if i%100 == 99 {
				now = now.Add(2 * time.Second)
				s.tick(now)
			}
		}
		now = now.Add(time.Minute)
		s.tick(now)
		require.True(t, s.idle())
		require.Empty(t, s.sessions)
		require.Empty(t, s.ids)
		require.Empty(t, s.handshakes.entries)
		require.Empty(t, s.history.entries)
		require.False(t, s.slots.full(1))
	}
	cycle(500) // what is kept for ever is there
	before := testenv.Heap()
	cycle(n)
	require.Less(t, testenv.Heap()-before, int64(64<<10))
}

// Blind guesses at packets of a session, valid but for their tags, are none of them accepted,
// and change nothing: a tag has 128 bits, so the probability of one in n is n/2^128.
func TestBlindGuesses(t *testing.T) {
	s := newTestServer(nil)
	c, sess, _ := connectPair(t, s, testStart, clientAddr(1), issueAt(t, testStart, 1))
	r := rand.New(rand.NewPCG(1, 2))
	var out wire.Batch
	c.sendPayload(testStart, []byte("as long as the guesses"), &out)
	real := out.At(0)
	guess := make([]byte, len(real))
	before := sess.recv.window
	for range count(*guesses, 100_000, 100_000_000) {
		copy(guess, real) // which authenticates the first byte and the sequence
		for i := len(guess) - tagSize; i < len(guess); i++ {
			guess[i] = byte(r.Uint32())
		}
		_, reason := sess.receive(testStart, guess)
		require.Equal(t, dropDecrypt, reason)
	}
	require.Equal(t, before, sess.recv.window)
	_, reason := sess.receive(testStart, append([]byte(nil), real...))
	require.Equal(t, dropNone, reason)
}
