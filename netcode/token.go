package netcode

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"sync/atomic"
	"time"
)

// A Token is a connect token: a permission to open one session, with the keys
// for it. Whoever holds it can use it, once, so it travels over secure
// channels only. An [Issuer] makes tokens; [Dial] uses them, and does not know
// what has been done with another Token that was read from the same bytes.
//
// A Token must not be copied after first use; pass a pointer.
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

// ProtocolID returns the number that tells programs and versions apart which
// share a private key.
func (t *Token) ProtocolID() uint64 { return t.protocolID }

// Created returns the time of issue, in whole seconds.
func (t *Token) Created() time.Time { return unixTime(t.created) }

// Expires returns the time from which on servers refuse the token, in whole
// seconds. It is the zero time for a token that never expires.
func (t *Token) Expires() time.Time {
	if t.expires == neverExpires {
		return time.Time{}
	}
	return unixTime(t.expires)
}

// Timeout returns the silence after which either side gives up a session.
// Zero: never.
func (t *Token) Timeout() time.Duration { return secondsToTimeout(t.timeout) }

// Servers returns the addresses to try, in order.
func (t *Token) Servers() []netip.AddrPort { return append([]netip.AddrPort(nil), t.servers...) }

// usable returns an error for a token that nothing was read into.
func (t *Token) usable() error {
	switch {
	case t == nil:
		return &TokenError{DropNone}
	case len(t.servers) == 0:
		return &TokenError{DropServerCount}
	}
	return nil
}

// server returns server i, the zero address if there is none.
func (t *Token) server(i int) netip.AddrPort {
	if i >= len(t.servers) {
		return netip.AddrPort{}
	}
	return t.servers[i]
}

// lifetime returns how long a client may try to connect, zero for forever.
func (t *Token) lifetime() time.Duration {
	s := t.expires - t.created
	if s > math.MaxInt64/uint64(time.Second) {
		return 0
	}
	return max(1, time.Duration(s)*time.Second) // never the zero that means forever
}

// maxOnce is the longest life of a token which a client takes to be used once.
// Longer ones are likely to be kept, and to be admitted again by servers that have
// started anew.
const maxOnce = time.Hour

// lasts reports whether the token is likely to be used again.
func (t *Token) lasts() bool {
	life := t.lifetime()
	return life == 0 || life > maxOnce
}

// unixTime converts a timestamp; what is too far away for the calendar's
// arithmetic becomes a time far away.
func unixTime(s uint64) time.Time { return time.Unix(int64(min(s, math.MaxInt32<<8)), 0) }

// String describes the public part, without any secret.
func (t *Token) String() string {
	expires := "never"
	if t.expires != neverExpires {
		expires = t.Expires().UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("netcode.Token(protocol %#x, expires %s, servers %v)", t.protocolID, expires, t.servers)
}

// GoString returns what String returns, so that no format shows the keys.
func (t *Token) GoString() string { return t.String() }

// LogValue describes the public part.
func (t *Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// AppendBinary appends the 2048 bytes of the token's wire form to b. The error is a
// *[TokenError] for a nil or zero Token, which has none.
func (t *Token) AppendBinary(b []byte) ([]byte, error) {
	if err := t.usable(); err != nil {
		return b, err
	}
	start := len(b)
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
	return append(b, make([]byte, start+TokenSize-len(b))...), nil
}

// MarshalBinary returns the 2048 bytes that every implementation of NETCODE
// 1.02 reads. They hold the keys of a session. Its error is that of AppendBinary.
func (t *Token) MarshalBinary() ([]byte, error) {
	b, err := t.AppendBinary(make([]byte, 0, TokenSize))
	if err != nil {
		return nil, err
	}
	return b, nil
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

// UnmarshalBinary reads the wire form. The error is a [*TokenError]. It does
// not look at the clock.
func (t *Token) UnmarshalBinary(b []byte) error {
	if len(b) != TokenSize {
		return &TokenError{DropTokenLength}
	}
	if string(b[:versionSize]) != version {
		return &TokenError{DropVersion}
	}
	t.protocolID = binary.LittleEndian.Uint64(b[tokenProtocol:])
	t.created = binary.LittleEndian.Uint64(b[tokenCreated:])
	t.expires = binary.LittleEndian.Uint64(b[tokenExpires:])
	if t.created > t.expires {
		return &TokenError{DropCreateAfterExpire}
	}
	copy(t.nonce[:], b[tokenNonce:])
	copy(t.private[:], b[tokenPrivate:])
	t.timeout = int32(binary.LittleEndian.Uint32(b[tokenTimeout:]))
	var servers [MaxServers]netip.AddrPort
	count, n, reason := consumeAddrs(b[tokenServers:], &servers)
	if reason != DropNone {
		return &TokenError{reason}
	}
	t.servers = append([]netip.AddrPort(nil), servers[:count]...)
	n = tokenServers + n
	n += copy(t.clientKey[:], b[n:])
	copy(t.serverKey[:], b[n:])
	t.used.Store(false)
	return nil
}

// ParseToken reads the wire form of a token. The error is a *[TokenError].
func ParseToken(b []byte) (*Token, error) {
	t := new(Token)
	if err := t.UnmarshalBinary(b); err != nil {
		return nil, err
	}
	return t, nil
}

// MarshalText returns the wire form in base64, for JSON and the like.
func (t *Token) MarshalText() ([]byte, error) {
	b, err := t.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText reads what MarshalText wrote. The error is a *[TokenError], or
// for text that is not base64 wraps one of package base64.
func (t *Token) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("netcode: invalid connect token: %w", err)
	}
	return t.UnmarshalBinary(b)
}

// sealPrivate makes the private part, and wipes p, in which it is open.
func (t *Token) sealPrivate(p *privateToken, key *Key) {
	defer p.wipe()
	p.put(&t.private)
	d := newPrivateData(version, t.protocolID, t.expires)
	sealPrivate(newAEADX(key), &t.nonce, &d, &t.private)
}

// Claims is what the private part of a connect token says to a server.
type Claims struct {
	// ClientID is the number under which the backend knows the client.
	ClientID uint64
	// UserData is at the backend's disposal.
	UserData [UserDataSize]byte
	// Timeout is the silence after which the server gives up the session.
	// Zero: never.
	Timeout time.Duration
	// Servers are the addresses under which the servers know themselves.
	Servers []netip.AddrPort
}

// Claims opens the private part with the key shared by backend and servers.
// The error is a [*TokenError].
func (t *Token) Claims(privateKey Key) (*Claims, error) {
	b := t.private
	return t.claims(&privateKey, &b, new(privateToken))
}

// claims is Claims in the memory given, b with the sealed part, which it wipes.
func (t *Token) claims(key *Key, b *[privateTokenSize]byte, p *privateToken) (*Claims, error) {
	defer clear(b[:])
	defer p.wipe()
	d := newPrivateData(version, t.protocolID, t.expires)
	if !openPrivate(newAEADX(key), t.nonce[:], d[:], b[:]) {
		return nil, &TokenError{DropTokenDecrypt}
	}
	if reason := p.parse(b[:]); reason != DropNone {
		return nil, &TokenError{reason}
	}
	return &Claims{
		ClientID: p.clientID,
		UserData: p.userData,
		Timeout:  p.idleTimeout(),
		Servers:  append([]netip.AddrPort(nil), p.servers[:p.numServers]...),
	}, nil
}
