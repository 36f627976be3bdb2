package netcode

import (
	"crypto/cipher"
	"crypto/sha256"
	"math"
	"net"
	"reflect"
	"slices"
	"time"
)

// A TokenKey is a private key for the tokens of one period, see [Listener.SetKeys].
type TokenKey struct {
	// Key seals the tokens.
	Key Key
	// Until is the latest expiry of a token under Key, in whole seconds. The zero time
	// means no end, as for [ListenConfig.PrivateKey].
	Until time.Time
	// Fresh says that Key was made after the Listener was started, at random, and that
	// no other server has it. Then no token under Key was used before, so
	// [ListenConfig.TokenLifetime] does not count, and sessions need no random start.
	Fresh bool
}

// maxKeys is the largest number of keys, more than there are with a key for each second
// of the default lifetime.
const maxKeys = 64

// SetKeys sets the keys that open connect tokens, in place of [ListenConfig.PrivateKey]
// and of earlier keys, whose memory it overwrites. Sessions and handshakes live on.
//
// The keys are in the order of Until. A token is opened by the first key whose Until is
// not before the token's expiry, so that a forged request costs one attempt.
//
// A key that servers share with a backend is changed in two steps, around a time T:
//
//   - At T the servers set two keys: the old one, Until T plus the lifetime of tokens, and
//     the new one without an end.
//   - At T, or up to one lifetime later, the backend begins to use the new key. If it is
//     later, its last tokens under the old key expire after Until and are refused; clients
//     have to ask for others.
//
// The error is a *[ConfigError] for "keys", which are at most 64, or matches
// net.ErrClosed. Without keys the Listener accepts no tokens.
func (l *Listener) SetKeys(keys ...TokenKey) error {
	set, err := newKeyRing(keys)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		set.wipe()
		return &net.OpError{Op: "set", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed}
	}
	l.core.setKeys(set)
	return nil
}

// setKeys replaces the keys, and overwrites the former ones. A key that stays keeps what is
// known of its tokens.
func (s *server) setKeys(keys keyRing) {
	for i := range keys {
		if j := slices.IndexFunc(s.requests.keys, func(k ringKey) bool { return k.id == keys[i].id }); j >= 0 {
			keys[i].forgotten = s.requests.keys[j].forgotten
		}
	}
	s.requests.keys.wipe()
	s.requests.keys = keys
}

// A keyRing has the keys for tokens in the order of their ends.
type keyRing []ringKey

type ringKey struct {
	aead  cipher.AEAD
	id    [sha256.Size]byte // tells the key when it is given again
	until uint64            // the latest expiry, in unix seconds
	fresh bool
	// forgotten is the latest expiry of a forgotten token under a fresh key. Tokens under
	// it that expire by then may have been used, if the clock was set back.
	forgotten uint64
}

func newKeyRing(keys []TokenKey) (keyRing, error) {
	if len(keys) > maxKeys {
		return nil, configError("keys", "%d keys are more than %d", len(keys), maxKeys)
	}
	ring := make(keyRing, 0, len(keys))
	for i := range keys {
		k := ringKey{id: sha256.Sum256(keys[i].Key[:]), until: math.MaxUint64, fresh: keys[i].Fresh}
		if !keys[i].Until.IsZero() {
			k.until = unixSeconds(keys[i].Until)
		}
		switch {
		case keys[i].Key == (Key{}):
			ring.wipe()
			return nil, configError("keys", "the key at %d is missing", i)
		case i > 0 && k.until <= ring[i-1].until:
			ring.wipe()
			return nil, configError("keys", "the Until of the key at %d is not after the one before", i)
		}
		k.aead = newAEADX(&keys[i].Key)
		ring = append(ring, k)
	}
	return ring, nil
}

// ringOf returns a ring of one key without an end, or of none for the zero key.
func ringOf(key *Key) keyRing {
	if *key == (Key{}) {
		return nil
	}
	return keyRing{{aead: newAEADX(key), until: math.MaxUint64}}
}

// forget notes that a token that expires at the given time was forgotten.
func (r keyRing) forget(expires uint64) {
	if k := r.find(expires); k != nil {
		k.forgotten = max(k.forgotten, expires)
	}
}

// find returns the key for tokens that expire at the given time, nil if there is none.
func (r keyRing) find(expires uint64) *ringKey {
	i := slices.IndexFunc(r, func(k ringKey) bool { return expires <= k.until })
	if i < 0 {
		return nil
	}
	return &r[i]
}

func (r keyRing) wipe() {
	for i := range r {
		wipeCipher(r[i].aead)
	}
}

// wipeCipher overwrites the key in a cipher of package chacha20poly1305, which must not be
// used again.
func wipeCipher(aead cipher.AEAD) {
	if aead != nil {
		reflect.ValueOf(aead).Elem().SetZero()
	}
}
