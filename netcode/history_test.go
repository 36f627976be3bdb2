package netcode

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClockStepsBack: what the server has forgotten because it had expired does
// not come back when the clock is set back, be it by a little or after a moment
// in which it was far ahead.
func TestClockStepsBack(t *testing.T) {
	for name, forgetAt := range map[string]time.Duration{
		"after the token's expiry":      31 * time.Second,
		"from a time far in the future": 1000 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(nil)
			_, sess, rec := connectPair(t, s, testStart, clientAddr(1), issueAt(t, testStart, 1))
			s.remove(sess)
			s.tick(testStart.Add(forgetAt))
			require.Empty(t, s.history.entries)
			now := testStart.Add(21 * time.Second)
			for _, from := range []int{1, 2} {
				for _, b := range rec.toServer {
					again, answers := serverHandles(s, now, clientAddr(from), b)
					require.Nil(t, again)
					require.Empty(t, answers)
				}
			}
			require.NotZero(t, s.counts.drops[dropTokenExpired])
			// New tokens are not concerned.
			connectPair(t, s, now, clientAddr(3), issueAt(t, now, 3))
		})
	}
}

// TestClockStepsBackAfterTwo: of tokens that were forgotten together, the one that
// expired last decides, whichever the server came across last.
func TestClockStepsBackAfterTwo(t *testing.T) {
	for range 30 { // the order is that of a map
		s := newTestServer(func(c *serverConfig) { c.lifetime = 25 * time.Second })
		is := testIssuer()
		is.Lifetime = 25 * time.Second
		short, err := is.issue(testStart, 2, nil, GenerateKey(), GenerateKey(), randomNonce())
		require.NoError(t, err)
		_, one, rec := connectPair(t, s, testStart, clientAddr(1), issueAt(t, testStart, 1))
		_, two, _ := connectPair(t, s, testStart, clientAddr(2), short)
		s.remove(one)
		s.remove(two)
		s.tick(testStart.Add(31 * time.Second))
		require.Empty(t, s.history.entries)
		sess, answers := serverHandles(s, testStart.Add(26*time.Second), clientAddr(1), rec.toServer[0])
		require.Nil(t, sess)
		require.Empty(t, answers)
		require.Equal(t, uint64(1), s.counts.drops[dropTokenExpired])
	}
}

// TestSmallServerNotStarved: those who find a small server full do not keep
// others from a slot that becomes free.
func TestSmallServerNotStarved(t *testing.T) {
	s := newTestServer(func(c *serverConfig) { c.maxClients = 4 })
	now := testStart
	var sessions []*session
	for i := range 4 {
		_, sess, _ := connectPair(t, s, now, clientAddr(i), issueAt(t, now, uint64(i)))
		sessions = append(sessions, sess)
	}
	for i := range 500 {
		req := clientSends(newTestClient(now, issueAt(t, now, uint64(100+i))), now)[0]
		_, answers := serverHandles(s, now, clientAddr(100+i), req)
		require.Len(t, answers, 1, "denied join %d", i)
	}
	require.Equal(t, uint64(500), s.counts.denied)
	s.remove(sessions[0])
	now = now.Add(time.Second)
	connectPair(t, s, now, clientAddr(1000), issueAt(t, now, 1000))
}

// TestSmallServerHandshakes: nor do those who never answer their challenge.
func TestSmallServerHandshakes(t *testing.T) {
	s := newTestServer(func(c *serverConfig) { c.maxClients = 4 })
	for i := range 500 {
		req := clientSends(newTestClient(testStart, issueAt(t, testStart, uint64(100+i))), testStart)[0]
		serverHandles(s, testStart, clientAddr(100+i), req)
	}
	connectPair(t, s, testStart, clientAddr(1), issueAt(t, testStart, 1))
}

// TestLastingTokens: tokens that never expire, or not for long, take half of
// the history and no more, and give it back when they do expire.
func TestLastingTokens(t *testing.T) {
	for name, lifetime := range map[string]time.Duration{"never": -1, "in two days": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(nil)
			now := testStart
			request := func(i int, lifetime time.Duration) int {
				is := testIssuer()
				is.Lifetime = lifetime
				tok, err := is.issue(now, uint64(i), nil, GenerateKey(), GenerateKey(), randomNonce())
				require.NoError(t, err)
				delete(s.handshakes.entries, clientAddr(i-1)) // not what this is about
				_, answers := serverHandles(s, now, clientAddr(i), clientSends(newTestClient(now, tok), now)[0])
				return len(answers)
			}
			for i := range minTokens / 2 {
				require.Equal(t, 1, request(i, lifetime), "token %d", i)
			}
			require.Zero(t, request(5000, lifetime))
			require.Equal(t, uint64(1), s.counts.drops[dropHistoryFull])
			for i := range minTokens / 2 {
				require.Equal(t, 1, request(6000+i, 30*time.Second), "short token %d", i)
			}
			require.Zero(t, request(9000, 30*time.Second))
			now = now.Add(49 * time.Hour)
			s.history.sweep(unixSeconds(now))
			want := 0
			if lifetime < 0 {
				want = minTokens / 2
			}
			require.Len(t, s.history.entries, want)
			require.Equal(t, want, s.history.lasting)
		})
	}
}

// TestTokenLifetimeSetsLasting: where tokens live for days, they are not the
// exception.
func TestTokenLifetimeSetsLasting(t *testing.T) {
	s := newTestServer(func(c *serverConfig) { c.lifetime = 72 * time.Hour })
	for i := range minTokens {
		_, reason := s.history.admit(testStart, 1000, tokenID{byte(i), byte(i >> 8)}, netip.AddrPort{}, 1000+72*3600, 0, 0)
		require.Equal(t, dropNone, reason)
	}
}

// TestWhichTokensLast: tokens that expire within a day, or within twice the lifetime
// of tokens if that is more, are no exception.
func TestWhichTokensLast(t *testing.T) {
	const hour = 3600
	for lifetime, most := range map[time.Duration]uint64{
		0: 24 * hour, 30 * time.Second: 24 * hour, 12 * time.Hour: 24 * hour, 12*time.Hour + time.Second: 24*hour + 2, 72 * time.Hour: 144 * hour,
	} {
		s := newTestServer(func(c *serverConfig) { c.lifetime = lifetime })
		s.history.admit(testStart, 1000, tokenID{1}, netip.AddrPort{}, 1000+most, 0, 0)
		require.Zero(t, s.history.lasting, "lifetime %v", lifetime)
		s.history.admit(testStart, 1000, tokenID{2}, netip.AddrPort{}, 1000+most+1, 0, 0)
		require.Equal(t, 1, s.history.lasting, "lifetime %v", lifetime)
	}
}
