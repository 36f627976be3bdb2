package netcode

import (
	"bytes"
	"context"
	"crypto/cipher"
	"math"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
	"volley/simnet"
)

// requestUnder returns a request of a token that was sealed under a key.
func requestUnder(t *testing.T, key Key, now time.Time, id uint64, life time.Duration) []byte {
	is := testIssuer()
	is.PrivateKey, is.Lifetime = key, life
	tok, err := is.issue(now, id, nil, GenerateKey(), GenerateKey(), randomNonce())
	require.NoError(t, err)
	return clientSends(newTestClient(now, tok), now)[0]
}

// The expiry of a token chooses the only key that is tried.
func TestKeysByExpiry(t *testing.T) {
	keys := []Key{GenerateKey(), GenerateKey(), GenerateKey()}
	ring, err := newKeyRing([]TokenKey{
		{Key: keys[0], Until: testStart.Add(10 * time.Second)},
		{Key: keys[1], Until: testStart.Add(20 * time.Second), Fresh: true},
		{Key: keys[2]},
	})
	require.NoError(t, err)
	s := newTestServer(nil)
	s.requests.keys, s.requests.minExpires = ring, 0
	id := uint64(0)
	for _, test := range []struct {
		life time.Duration
		key  int
	}{
		{time.Second, 0}, {10 * time.Second, 0},
		{11 * time.Second, 1}, {20 * time.Second, 1},
		{21 * time.Second, 2}, {time.Hour, 2}, {-1, 2},
	} {
		for i, key := range keys {
			id++
			want := dropTokenDecrypt
			if i == test.key {
				want = dropNone
			}
			var out wire.Batch
			_, reason := s.receive(testStart, clientAddr(int(id)), requestUnder(t, key, testStart, id, test.life), &out)
			require.Equal(t, want, reason, "a token of %v, and key %d", test.life, i)
		}
	}

	// Beyond the last key there is none.
	s.requests.keys = ring[:2]
	_, reason := s.receive(testStart, clientAddr(1), requestUnder(t, keys[2], testStart, 99, time.Hour), new(wire.Batch))
	require.Equal(t, dropTokenDecrypt, reason)
	require.Equal(t, uint64(math.MaxUint64), ring[2].until)
}

// A fresh key has no tokens from before the start. So they need not be old enough, and
// their sessions count from 0 although a restarted server may see them again.
func TestFreshKeys(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		ring, err := newKeyRing([]TokenKey{{Key: testKey, Fresh: fresh}})
		require.NoError(t, err)

		s := newServer(testStart, testServerConfig())
		s.requests.keys = ring
		_, reason := s.receive(testStart, clientAddr(1), requestUnder(t, testKey, testStart, 1, time.Second), new(wire.Batch))
		want := dropTokenTooOld
		if fresh {
			want = dropNone
		}
		require.Equal(t, want, reason)

		s = newTestServer(func(c *serverConfig) { c.lifetime = -1 })
		s.requests.keys = ring
		_, sess, _ := connectPair(t, s, testStart, clientAddr(1), issueAt(t, testStart, 1))
		require.Equal(t, !fresh, sess.send.start >= anywhereStart)
	}
}

func TestSetKeysErrors(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		end := time.Now().Add(time.Minute)
		for reason, keys := range map[string][]TokenKey{
			"the key at 1 is missing":                         {{Key: testKey, Until: end}, {}},
			"the Until of the key at 1 is not after":          {{Key: testKey, Until: end}, {Key: testKey, Until: end}},
			"the Until of the key at 2 is not after":          {{Key: testKey, Until: end}, {Key: testKey}, {Key: testKey}},
			"65 keys are more than 64":                        make([]TokenKey, maxKeys+1),
			"the Until of the key at 1 is not after the one ": {{Key: testKey}, {Key: testKey, Until: end}},
		} {
			err := l.SetKeys(keys...)
			var ce *ConfigError
			require.ErrorAs(t, err, &ce)
			require.Equal(t, "keys", ce.Field)
			require.ErrorContains(t, err, reason)
		}
		require.Len(t, l.core.requests.keys, 1, "an error changes nothing")
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.SetKeys(TokenKey{Key: testKey}), net.ErrClosed)
	})
}

// Keys change under a running server: sessions live on, and new tokens need the new key.
func TestSetKeysWhileServing(t *testing.T) {
	bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		defer l.Close()
		c1, s1 := simPair(t, n, l, 1)
		defer closeAll(c1, s1)

		next := GenerateKey()
		old := slices.Clone(l.core.requests.keys)
		require.NoError(t, l.SetKeys(TokenKey{Key: next, Fresh: true}))
		require.True(t, wiped(old[0].aead), "the former key")
		c1.Write([]byte("still here"))
		wantRead(t, s1, "still here")

		is := testIssuer()
		is.PrivateKey = next
		tok, err := is.Issue(2, nil)
		require.NoError(t, err)
		c2, err := simDial(t, n, tok)
		require.NoError(t, err)
		s2, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		closeAll(c2, s2)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		pc, err := n.Listen(":0")
		require.NoError(t, err)
		_, err = new(Dialer).DialOn(ctx, pc, simToken(t, 3))
		require.ErrorIs(t, err, context.DeadlineExceeded, "a token of the former key")

		require.NoError(t, l.SetKeys())
		require.Empty(t, l.core.requests.keys)
	})
}

func wiped(aead cipher.AEAD) bool { return reflect.ValueOf(aead).Elem().IsZero() }

// Once a session is over, no cipher holds its keys.
func TestSessionsForgetKeys(t *testing.T) {
	for name, end := range map[string]func(client, server *Conn){
		"the client closes": func(client, _ *Conn) { client.Close() },
		"the server closes": func(_, server *Conn) { server.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
				l := simListen(t, n, nil)
				defer l.Close()
				client, server := simPair(t, n, l, 1)
				var ciphers []cipher.AEAD
				for _, c := range []*Conn{client, server} {
					ciphers = append(ciphers, c.sess.send.cipher.aead, c.sess.recv.cipher.aead)
				}
				for _, a := range ciphers {
					require.False(t, wiped(a))
				}
				end(client, server)
				time.Sleep(time.Second)
				for i, a := range ciphers {
					require.True(t, wiped(a), "cipher %d", i)
				}
				closeAll(client, server)
			})
		})
	}
}

// The ciphers of package chacha20poly1305 hold the key in themselves, so that it is gone.
func TestWipeCipher(t *testing.T) {
	key := GenerateKey()
	for _, a := range []cipher.AEAD{newAEAD(&key), newAEADX(&key)} {
		require.False(t, wiped(a))
		wipeCipher(a)
		require.True(t, wiped(a))
		require.Equal(t, reflect.Struct, reflect.TypeOf(a).Elem().Kind())
	}
	wipeCipher(nil)
}

func TestServerStopWipesKeys(t *testing.T) {
	s := newTestServer(nil)
	aead, challenge := s.requests.keys[0].aead, s.challenges.aead
	s.stop()
	require.True(t, wiped(aead))
	require.True(t, wiped(challenge))
}

// A clock that is set back by an hour keeps nobody out whose token is under a key that came
// after that. A token that was used before stays used, also while its key is there.
func TestClockBackWithFreshKeys(t *testing.T) {
	first, second := GenerateKey(), GenerateKey()
	ring := func(keys ...TokenKey) keyRing {
		r, err := newKeyRing(keys)
		require.NoError(t, err)
		return r
	}
	end := testStart.Add(time.Minute)
	s := newTestServer(nil)
	s.setKeys(ring(TokenKey{Key: first, Until: end, Fresh: true}))
	used := requestUnder(t, first, testStart, 1, 30*time.Second)
	show := func(now time.Time, from int, b []byte) dropReason {
		_, reason := s.receive(now, clientAddr(from), bytes.Clone(b), new(wire.Batch))
		return reason
	}
	require.Equal(t, dropNone, show(testStart, 1, used))
	s.tick(testStart.Add(31 * time.Second)) // it has expired, and is forgotten
	require.Empty(t, s.history.entries)

	// Back by some seconds: its key is still there, also if the keys are given anew.
	for range 2 {
		require.Equal(t, dropTokenExpired, show(testStart.Add(5*time.Second), 2, used))
		require.Equal(t, dropTokenExpired, show(testStart.Add(5*time.Second), 1, used))
		s.setKeys(ring(TokenKey{Key: first, Until: end, Fresh: true}, TokenKey{Key: second, Fresh: true}))
	}

	// Back by an hour: there is another key for that time.
	early := testStart.Add(-time.Hour)
	s.setKeys(ring(TokenKey{Key: second, Until: early.Add(time.Minute), Fresh: true}, TokenKey{Key: first, Until: end, Fresh: true}))
	again := requestUnder(t, second, early, 2, 30*time.Second)
	require.Equal(t, dropNone, show(early, 3, again))
	s.tick(early.Add(31 * time.Second))
	require.Equal(t, dropTokenExpired, show(early, 3, again), "used under the new key, and forgotten")
	require.Equal(t, dropNone, show(early.Add(29*time.Second), 4, requestUnder(t, second, early.Add(29*time.Second), 3, 30*time.Second)))
	require.Equal(t, dropTokenExpired, show(testStart.Add(5*time.Second), 2, used), "and the clock is right again")
}
