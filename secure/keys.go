package secure

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"volley/netcode"
)

const (
	tokenLifetime = 30 * time.Second  // in which a client has to join
	spareLifetime = 150 * time.Second // in which a session can move by a token
	keyPeriod     = time.Minute       // all tokens that expire in one have one key
)

// internalAddress is each Listener's own address in the sealed part of its tokens.
// It is the dummy address of RFC 7600: clients get the real one in the other part.
var internalAddress = netip.MustParseAddrPort("192.0.0.8:7777")

// keys are the keys that seal tokens. They are random and live in this process only,
// until the last token under them has expired. So whoever records a session and
// steals them later has nothing.
type keys struct {
	protocolID uint64
	set        func(...netcode.TokenKey) error // of the netcode.Listener

	mu     sync.Mutex
	closed bool
	all    []*periodKey // in order of their periods
}

// A periodKey seals the tokens that expire in a period.
type periodKey struct {
	period int64 // in units of keyPeriod since 1970
	key    netcode.Key
	timer  *time.Timer // at the end, or earlier if the clock is set back meanwhile
	over   bool
}

// end returns when no token under the key is left.
func (k *periodKey) end() time.Time {
	return time.Unix((k.period+1)*int64(keyPeriod/time.Second), 0)
}

// issue makes a token for a client that reaches the server at an address.
func (ks *keys) issue(t *ticket, public netip.AddrPort, lifetime time.Duration) (*netcode.Token, error) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if ks.closed {
		return nil, net.ErrClosed
	}
	is := netcode.Issuer{
		ProtocolID:      ks.protocolID,
		Servers:         []netip.AddrPort{public},
		InternalServers: []netip.AddrPort{internalAddress},
		Lifetime:        lifetime,
	}
	defer func() { is.PrivateKey = netcode.Key{} }()
	for {
		now := time.Now()
		k, err := ks.keyLocked(now, now.Add(lifetime))
		if err != nil {
			return nil, err
		}
		is.PrivateKey = k.key
		tok, err := is.Issue(randomID(), t.append(make([]byte, 0, netcode.UserDataSize)))
		if err != nil || periodOf(tok.Info().Expires) == k.period {
			return tok, err
		}
		*tok = netcode.Token{} // a period began meanwhile
	}
}

func periodOf(t time.Time) int64 { return t.Unix() / int64(keyPeriod/time.Second) }

// randomID returns a number that no session has. netcode refuses a second session
// with the number of one that lives, so it cannot be the client's.
func randomID() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// keyLocked returns the key for tokens that expire at a time, and makes it if need be.
func (ks *keys) keyLocked(now, expires time.Time) (*periodKey, error) {
	period := periodOf(expires)
	i := 0
	for ; i < len(ks.all) && ks.all[i].period <= period; i++ {
		if ks.all[i].period == period {
			return ks.all[i], nil
		}
	}
	k := &periodKey{period: period, key: netcode.GenerateKey()}
	// Tokens of the last second expire at its end, by the whole second.
	k.timer = time.AfterFunc(k.end().Sub(now), func() { ks.expire(k) })
	ks.all = append(ks.all[:i:i], append([]*periodKey{k}, ks.all[i:]...)...)
	if err := ks.setLocked(now); err != nil {
		return nil, err
	}
	return k, nil
}

// setLocked overwrites the keys that are over, and gives the others to the Listener.
func (ks *keys) setLocked(now time.Time) error {
	ks.all = slices.DeleteFunc(ks.all, func(k *periodKey) bool {
		over := ks.closed || k.over || !k.end().After(now)
		if over {
			k.key = netcode.Key{}
			k.timer.Stop()
		}
		return over
	})
	if ks.closed {
		return nil
	}
	set := make([]netcode.TokenKey, len(ks.all))
	for i, k := range ks.all {
		set[i] = netcode.TokenKey{Key: k.key, Until: k.end().Add(-time.Second), Fresh: true}
	}
	defer clear(set)
	return ks.set(set...)
}

// expire overwrites a key.
func (ks *keys) expire(k *periodKey) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	k.over = true
	ks.setLocked(time.Now())
}

// close overwrites all keys.
func (ks *keys) close() {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.closed = true
	ks.setLocked(time.Now())
}
