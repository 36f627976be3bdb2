package netcode

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
	"volley/simnet"
)

// Some tokens a server admits again once it has started anew, for it cannot know
// that they have been used.

// talkAnew connects a new client with a token read anew, has both sides send, and
// notes the nonces of both directions.
func talkAnew(t *testing.T, s *server, now time.Time, tok *Token, up, down nonces) {
	t.Helper()
	b, err := tok.MarshalBinary()
	require.NoError(t, err)
	tok, err = parseToken(b)
	require.NoError(t, err)
	c, sess, rec := connectPair(t, s, now, clientAddr(1), tok)
	up.add(t, rec.toServer[1:]...) // requests have no nonce of this key
	down.add(t, rec.toClient...)
	var out wire.Batch
	for range 100 {
		c.sendPayload(now, randomNonceBytes(), &out)
		up.add(t, take(&out)...)
		sess.sendPayload(now, randomNonceBytes(), &out)
		down.add(t, take(&out)...)
	}
	sess.send.disconnect(now, &out)
	down.add(t, take(&out)...)
	require.Equal(t, uint64(1+200+disconnectPackets), sess.send.packets())
	c.disconnect(now, &out)
	up.add(t, take(&out)...)
	s.remove(sess)
}

func randomNonceBytes() []byte {
	n := randomNonce()
	return n[:]
}

// TestRestartRepeatsNoNonce: a server that starts again, and admits a token that has
// had a session, begins that session at other sequences than the one before. So
// does a client with a token that lives for long.
func TestRestartRepeatsNoNonce(t *testing.T) {
	for name, test := range map[string]struct {
		rule, life time.Duration
		client     bool // it counts from elsewhere, too
	}{
		"a token that never expires":               {30 * time.Second, -1, true},
		"a token that never expires, without rule": {-1, -1, true},
		"a token of two hours":                     {30 * time.Second, 2 * time.Hour, true},
		"a token of a minute":                      {30 * time.Second, time.Minute, false},
		"without a rule":                           {-1, 30 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			is := testIssuer()
			is.Lifetime = test.life
			is.Servers = testServerAddrs
			tok, err := is.issue(testStart, 1, nil, GenerateKey(), GenerateKey(), randomNonce())
			require.NoError(t, err)
			down, up := nonces{}, nonces{}
			now := testStart
			for range 10 {
				cfg := testServerConfig()
				cfg.lifetime = test.rule
				if !test.client {
					up = nonces{}
				}
				talkAnew(t, newServer(now, cfg), now, tok, up, down)
				now = now.Add(2 * time.Second)
			}
			for seq := range down {
				require.GreaterOrEqual(t, seq, uint64(anywhereStart))
			}
		})
	}
}

// TestRestartRecordedSession: who has only recorded the session before gets none,
// for the challenge is another one.
func TestRestartRecordedSession(t *testing.T) {
	cfg := testServerConfig()
	cfg.lifetime = -1
	_, _, rec := connectPair(t, newServer(testStart, cfg), testStart, clientAddr(1), issueAt(t, testStart, 1))
	now := testStart.Add(time.Second)
	s := newServer(now, cfg)
	for _, b := range rec.toServer {
		sess, _ := serverHandles(s, now, clientAddr(1), b)
		require.Nil(t, sess)
	}
	require.Equal(t, uint64(1), s.counts.challenges)
	require.Equal(t, uint64(1), s.counts.drops[dropChallenge])
}

// TestWhichSessionsStartAnywhere: the others count from 0, with short sequences.
func TestWhichSessionsStartAnywhere(t *testing.T) {
	for _, test := range []struct {
		rule, life, age time.Duration
		server, client  bool
	}{
		{30 * time.Second, 30 * time.Second, 0, false, false},
		{30 * time.Second, 30 * time.Second, 29 * time.Second, false, false},
		{30 * time.Second, 31 * time.Second, 0, true, false},
		{30 * time.Second, 31 * time.Second, time.Second, false, false},
		{time.Hour, time.Hour, 0, false, false},
		{2 * time.Hour, time.Hour + time.Second, 0, false, true},
		{time.Hour, -1, 0, true, true},
		{-1, 30 * time.Second, 0, true, false},
		{0, time.Hour, 0, true, false},
	} {
		s := newTestServer(func(c *serverConfig) { c.lifetime = test.rule })
		s.requests.minExpires = 0 // it has run for a while
		is := testIssuer()
		is.Lifetime = test.life
		tok, err := is.issue(testStart, 1, nil, GenerateKey(), GenerateKey(), randomNonce())
		require.NoError(t, err)
		c, sess, _ := connectPair(t, s, testStart.Add(test.age), clientAddr(1), tok)
		require.Equal(t, test.server, sess.send.start >= anywhereStart, "server: %+v", test)
		require.Equal(t, test.client, c.send.start >= anywhereStart, "client: %+v", test)
		if !test.server {
			require.Zero(t, sess.send.start)
		}
		if !test.client {
			require.Zero(t, c.send.start)
		}
	}
}

// TestAnywhereShares: wherever the sessions of the servers in a list begin, they
// have 2^56 packets before they meet another's share, or the sequences of
// challenges, and none of those that others count from their place.
func TestAnywhereShares(t *testing.T) {
	var last sender
	last.startAt(maxServers-1, false)
	end := last.end
	for place := range maxServers {
		for _, random := range []uint64{0, randomUint64(), math.MaxUint64} {
			var s sender
			s.startAnywhere(place, random)
			require.Equal(t, s.start, s.seq)
			require.GreaterOrEqual(t, s.start, end)
			require.GreaterOrEqual(t, s.end-s.start, uint64(1)<<56)
			require.False(t, s.exhausted())
			last = s
		}
		end = last.end
	}
	require.Equal(t, uint64(globalSequenceStart), end)
	starts := make(map[uint64]bool)
	for range 100 {
		var s sender
		s.startAnywhere(0, randomUint64())
		starts[s.start>>32] = true
	}
	require.Greater(t, len(starts), 90, "of 24 random bits")
}

// TestLastingSession: a session with long sequences carries the largest payloads
// like another.
func TestLastingSession(t *testing.T) {
	bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		is := testIssuer()
		is.Lifetime = -1
		tok, err := is.Issue(1, nil)
		require.NoError(t, err)
		client, err := simDial(t, n, tok)
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		defer closeAll(client, server, l)
		for i := range 10 {
			text := string(bytes.Repeat([]byte{byte(i)}, MaxMessageSize))
			client.Write([]byte(text))
			wantRead(t, server, text)
			server.Write([]byte(text))
			wantRead(t, client, text)
		}
		for _, c := range []*Conn{client, server} {
			require.GreaterOrEqual(t, c.sess.send.start, uint64(anywhereStart))
			require.Less(t, c.Stats().PacketsSent, uint64(100))
		}
	})
}
