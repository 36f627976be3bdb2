package netcode

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// A Token is a connect token: a permission to open one session, with the keys
// of it. Anybody who holds it can use it, once, so send it over secure channels
// only. An [Issuer] makes tokens, [Dial] uses them. Dial refuses a Token that has
// been used, but not another Token with the same bytes. A Token must not be copied
// after first use; pass a pointer.
type Token struct {
	protocolID uint64
	created    uint64 // unix seconds
	expires    uint64 // unix seconds; never: all ones
	timeout    int32  // seconds
	nonce      [tokenNonceSize]byte
	private    [privateTokenSize]byte // sealed
	servers    []netip.AddrPort
	clientKey  Key // client to server
	serverKey  Key // server to client

	used atomic.Bool // a session has begun with it
}

const neverExpires = math.MaxUint64

// TokenInfo is the public part of a connect token, which clients read.
type TokenInfo struct {
	ProtocolID uint64           // the number of the program and its version
	Created    time.Time        // when the token was issued
	Expires    time.Time        // from when on servers refuse the token; zero: never
	Timeout    time.Duration    // silence after which both sides give up the session; zero: none
	Servers    []netip.AddrPort // the addresses to try, in order
}

// Info returns the public part.
func (t *Token) Info() TokenInfo {
	return TokenInfo{
		ProtocolID: t.protocolID,
		Created:    unixTime(t.created),
		Expires:    t.end(),
		Timeout:    secondsToTimeout(t.timeout),
		Servers:    slices.Clone(t.servers),
	}
}

// end returns when the token expires; the zero time: never.
func (t *Token) end() time.Time {
	if t.expires == neverExpires {
		return time.Time{}
	}
	return unixTime(t.expires)
}

// usable returns an error for a token that nothing was read into.
func (t *Token) usable() error {
	switch {
	case t == nil:
		return tokenError(dropNone)
	case len(t.servers) == 0:
		return tokenError(dropServerCount)
	}
	return nil
}

// lifetime returns how long a client may try to connect, zero for forever.
func (t *Token) lifetime() time.Duration {
	s := t.expires - t.created
	if s > math.MaxInt64/uint64(time.Second) {
		return 0
	}
	return max(1, time.Duration(s)*time.Second) // never the zero that means forever
}

// maxOnce is the longest life of a token that a client takes to be used once. A longer one
// may be admitted again by a restarted server.
const maxOnce = time.Hour

// lasts reports whether the token is likely to be used again.
func (t *Token) lasts() bool {
	life := t.lifetime()
	return life == 0 || life > maxOnce
}

// unixTime converts a timestamp. It limits those that are too large for package time.
func unixTime(s uint64) time.Time { return time.Unix(int64(min(s, math.MaxInt32<<8)), 0) }

// String describes the public part, without any secret.
func (t *Token) String() string {
	expires := "never"
	if t.expires != neverExpires {
		expires = t.end().UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("netcode.Token(protocol %#x, expires %s, servers %v)", t.protocolID, expires, t.servers)
}

// Format writes what String returns for every verb, so that none shows the keys.
func (t *Token) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// LogValue returns what String returns.
func (t *Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalBinary returns the 2048 bytes that every implementation of NETCODE 1.02
// reads. They hold the keys of a session. The error is a *[TokenError] for a nil
// or zero Token.
func (t *Token) MarshalBinary() ([]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	b := make([]byte, 0, tokenSize)
	b = append(b, version...)
	b = binary.LittleEndian.AppendUint64(b, t.protocolID)
	b = binary.LittleEndian.AppendUint64(b, t.created)
	b = binary.LittleEndian.AppendUint64(b, t.expires)
	b = append(b, t.nonce[:]...)
	b = append(b, t.private[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(t.timeout))
	b = appendAddrs(b, t.servers)
	b = append(b, t.clientKey[:]...)
	b = append(b, t.serverKey[:]...)
	return b[:tokenSize], nil
}

// Offsets in the wire form.
const (
	tokenProtocol = versionSize
	tokenCreated  = tokenProtocol + 8
	tokenExpires  = tokenCreated + 8
	tokenNonce    = tokenExpires + 8
	tokenPrivate  = tokenNonce + tokenNonceSize
	tokenTimeout  = tokenPrivate + privateTokenSize
	tokenServers  = tokenTimeout + 4
)

// UnmarshalBinary reads what MarshalBinary returned. It does not check the time.
// The error is a *[TokenError].
func (t *Token) UnmarshalBinary(b []byte) error {
	if len(b) != tokenSize {
		return tokenError(dropTokenLength)
	}
	if string(b[:versionSize]) != version {
		return tokenError(dropVersion)
	}
	t.protocolID = binary.LittleEndian.Uint64(b[tokenProtocol:])
	t.created = binary.LittleEndian.Uint64(b[tokenCreated:])
	t.expires = binary.LittleEndian.Uint64(b[tokenExpires:])
	if t.created > t.expires {
		return tokenError(dropCreateAfterExpire)
	}
	copy(t.nonce[:], b[tokenNonce:])
	copy(t.private[:], b[tokenPrivate:])
	t.timeout = int32(binary.LittleEndian.Uint32(b[tokenTimeout:]))
	var servers [maxServers]netip.AddrPort
	count, n, reason := consumeAddrs(b[tokenServers:], &servers)
	if reason != dropNone {
		return tokenError(reason)
	}
	t.servers = append([]netip.AddrPort(nil), servers[:count]...)
	n = tokenServers + n
	n += copy(t.clientKey[:], b[n:])
	copy(t.serverKey[:], b[n:])
	t.used.Store(false)
	return nil
}

// MarshalText returns the wire form in base64, as for JSON.
func (t *Token) MarshalText() ([]byte, error) {
	b, err := t.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText reads what MarshalText returned. The error is a *[TokenError], or
// wraps one of package base64.
func (t *Token) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("netcode: invalid connect token: %w", err)
	}
	return t.UnmarshalBinary(b)
}

// sealPrivate makes the private part from p, which it wipes.
func (t *Token) sealPrivate(p *privateToken, key *Key) {
	defer p.wipe()
	p.put(&t.private)
	d := newPrivateData(version, t.protocolID, t.expires)
	aead := newAEADX(key)
	defer wipeCipher(aead)
	sealPrivate(aead, &t.nonce, &d, &t.private)
}

// Claims is the private part of a connect token, which servers read.
type Claims struct {
	ClientID uint64             // the backend's number for the client
	UserData [UserDataSize]byte // from the backend
	Timeout  time.Duration      // as TokenInfo.Timeout
	Servers  []netip.AddrPort   // as the servers know their addresses
}

// Claims opens the private part with the key shared by backend and servers.
// The error is a *[TokenError].
func (t *Token) Claims(privateKey Key) (*Claims, error) {
	b := t.private
	return t.claims(&privateKey, &b, new(privateToken))
}

// claims is Claims in the memory of the caller. b has the sealed part. It wipes b and p.
func (t *Token) claims(key *Key, b *[privateTokenSize]byte, p *privateToken) (*Claims, error) {
	defer clear(b[:])
	defer p.wipe()
	d := newPrivateData(version, t.protocolID, t.expires)
	aead := newAEADX(key)
	defer wipeCipher(aead)
	if !openPrivate(aead, t.nonce[:], d[:], b[:]) {
		return nil, tokenError(dropTokenDecrypt)
	}
	if reason := p.parse(b[:]); reason != dropNone {
		return nil, tokenError(reason)
	}
	return &Claims{
		ClientID: p.clientID,
		UserData: p.userData,
		Timeout:  p.idleTimeout(),
		Servers:  slices.Clone(p.servers[:p.numServers]),
	}, nil
}
