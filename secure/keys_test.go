package secure

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
	"volley/simnet"
)

// live returns the keys of a Listener, and copies of their secrets.
func live(l *Listener) (all []*periodKey, secrets []netcode.Key) {
	l.keys.mu.Lock()
	defer l.keys.mu.Unlock()
	for _, k := range l.keys.all {
		secrets = append(secrets, k.key)
	}
	return slices.Clone(l.keys.all), secrets
}

// secret returns the secret of a key that may have been overwritten.
func (l *Listener) secret(k *periodKey) netcode.Key {
	l.keys.mu.Lock()
	defer l.keys.mu.Unlock()
	return k.key
}

// Keys change each minute, and each is overwritten when its last token has expired. The
// sessions of its tokens live on.
func TestKeysChange(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		all, _ := live(l)
		first := all[0]
		require.NotZero(t, l.secret(first))
		seen := map[netcode.Key]bool{}
		for range 60 {
			time.Sleep(10 * time.Second)
			c, s := w.connect(t, l)
			require.NoError(t, c.Close())
			require.NoError(t, s.Close())
			_, secrets := live(l)
			require.LessOrEqual(t, len(secrets), 4, "those of tokens to join, and of spare ones")
			for _, k := range secrets {
				seen[k] = true
			}
		}
		require.InDelta(t, 13, len(seen), 1, "one for each minute of ten, and those at the ends")
		require.Zero(t, l.secret(first), "the first key is overwritten")
		client.Write([]byte("x"))
		_, err := server.Read(make([]byte, 10))
		require.NoError(t, err)
		require.NoError(t, client.Close())
		synctest.Wait()

		// A key is gone at most a lifetime and a minute after its last token.
		all, _ = live(l)
		last := all[len(all)-1]
		time.Sleep(spareLifetime + keyPeriod)
		all, _ = live(l)
		require.Empty(t, all)
		require.Zero(t, l.secret(last))

		// After Close there is no key at all.
		c, s := w.connect(t, l)
		all, _ = live(l)
		last = all[0]
		require.NoError(t, l.Close())
		require.Zero(t, l.secret(last))
		require.False(t, last.timer.Stop(), "its timer is at rest")
		_, err = l.keys.issue(new(ticket), internalAddress, tokenLifetime)
		require.Error(t, err)
		for _, c := range []*Conn{client, server, c, s} {
			c.Close()
		}
	})
}

// A clock that is set back keeps no key alive: a key lives for a lifetime and a minute at most, as
// the time passes.
func TestKeysWhenClockIsSetBack(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		tomorrow := time.Now().Add(24 * time.Hour)
		l.keys.mu.Lock()
		key, err := l.keys.keyLocked(tomorrow, tomorrow.Add(tokenLifetime))
		l.keys.mu.Unlock()
		require.NoError(t, err)
		time.Sleep(tokenLifetime)
		client, server := w.connect(t, l) // today
		all, _ := live(l)
		require.Contains(t, all, key)
		time.Sleep(keyPeriod)
		require.Zero(t, l.secret(key))
		all, _ = live(l)
		require.NotContains(t, all, key)
		client.Close()
		server.Close()
		require.NoError(t, l.Close())
	})
}

// A token works until it expires, also across a change of keys, and not at another server.
func TestTokenUntilExpiry(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		a, err := parseURL(l.URL("10.0.0.1"))
		require.NoError(t, err)
		for wait := time.Duration(0); wait < 45*time.Second; wait += 4 * time.Second {
			tok, err := w.dialer().token(t.Context(), a)
			require.NoError(t, err)
			time.Sleep(wait)
			_, other := w.connect(t, l) // perhaps under another key
			require.NoError(t, other.Close())
			c, err := w.dialer().join(t.Context(), a, tok)
			if wait < tokenLifetime-time.Second {
				require.NoError(t, err, "after %v", wait)
				_, err := l.AcceptConn(t.Context())
				require.NoError(t, err)
				c.Close()
			} else if wait > tokenLifetime {
				var de *DialError
				require.ErrorAs(t, err, &de, "after %v", wait)
			}
		}
		require.NoError(t, l.Close())
	})
}
