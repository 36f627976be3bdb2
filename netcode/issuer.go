package netcode

import (
	"crypto/rand"
	"math"
	"net/netip"
	"slices"
	"time"
)

// An Issuer makes connect tokens, for a backend. It is safe for concurrent use
// while nobody changes its fields.
type Issuer struct {
	// PrivateKey is shared by the backend and its servers only. It makes and opens
	// all tokens. Required.
	PrivateKey Key
	// ProtocolID must equal that of the servers. It separates programs, and versions
	// of a program, with the same private key.
	ProtocolID uint64
	// Servers are the addresses that clients try, in order, 1 to 32. Each has a
	// port, and none is unspecified, multicast or broadcast. Without InternalServers
	// all differ. Required.
	Servers []netip.AddrPort
	// InternalServers are the same servers as they know their own addresses, if
	// these differ, as behind network address translation. Nil: Servers. Each
	// address must belong to one server and be in the list once. From its place in
	// the list, a server takes its share of the sequence numbers, so that servers with
	// the same keys repeat no nonce.
	InternalServers []netip.AddrPort
	// Lifetime is how long a token can be used after its issue, rounded up to whole
	// seconds. It must equal the TokenLifetime of the servers. A server refuses
	// tokens with a shorter life for a while after its start. It cannot know whether
	// a token with a longer life was used before its start. Default 30 s, at most
	// 2^31-1 s. Negative: no limit. A server remembers tokens without a limit until
	// it stops, so it takes only some of them (see [ListenConfig.MaxClients]).
	//
	// A client that uses a token twice uses its keys twice. If the token lives for
	// more than an hour, the client begins to count at random each time, so that it
	// repeats no nonce. Otherwise it begins at 0, and an observer of both sessions
	// learns the XOR of their contents.
	Lifetime time.Duration
	// Timeout is the silence after which both sides give up a session, rounded up to
	// whole seconds. Default 10 s, at most 2^31-1 s. Negative: no timeout.
	Timeout time.Duration
}

// Issue makes a token for a client. The server learns the client's id and userData,
// at most 256 bytes. A server has one session for each id. The error is a
// *[ConfigError] for a field, or for "userData".
func (is *Issuer) Issue(clientID uint64, userData []byte) (*Token, error) {
	return is.issue(time.Now(), clientID, userData, GenerateKey(), GenerateKey(), randomNonce())
}

func randomNonce() (n [tokenNonceSize]byte) {
	rand.Read(n[:])
	return n
}

// issue is Issue with the clock and the random numbers as parameters.
func (is *Issuer) issue(now time.Time, clientID uint64, userData []byte, clientKey, serverKey Key, nonce [tokenNonceSize]byte) (*Token, error) {
	servers, internal, err := is.check(userData)
	if err != nil {
		return nil, err
	}
	t := &Token{
		protocolID: is.ProtocolID,
		created:    uint64(max(now.Unix(), 0)),
		expires:    neverExpires,
		timeout:    wholeSeconds(is.Timeout, defaultTimeout),
		nonce:      nonce,
		servers:    servers,
		clientKey:  clientKey,
		serverKey:  serverKey,
	}
	if is.Lifetime >= 0 {
		t.expires = t.created + uint64(wholeSeconds(is.Lifetime, defaultTokenLifetime))
	}
	p := &privateToken{clientID: clientID, timeout: t.timeout, clientKey: clientKey, serverKey: serverKey}
	p.numServers = copy(p.servers[:], internal)
	copy(p.userData[:], userData)
	t.sealPrivate(p, &is.PrivateKey)
	return t, nil
}

// check returns the addresses for the public and the private part.
func (is *Issuer) check(userData []byte) (servers, internal []netip.AddrPort, err error) {
	if err := checkCrypto(); err != nil {
		return nil, nil, err
	}
	if err := is.checkSizes(userData); err != nil {
		return nil, nil, err
	}
	if servers, err = serverList("Issuer.Servers", is.Servers); err != nil {
		return nil, nil, err
	}
	if is.InternalServers == nil {
		return servers, servers, checkDistinct("Issuer.Servers", servers)
	}
	if internal, err = serverList("Issuer.InternalServers", is.InternalServers); err != nil {
		return nil, nil, err
	}
	return servers, internal, checkDistinct("Issuer.InternalServers", internal)
}

func (is *Issuer) checkSizes(userData []byte) error {
	if err := checkSeconds("Issuer.Lifetime", is.Lifetime); err != nil {
		return err
	}
	if err := checkSeconds("Issuer.Timeout", is.Timeout); err != nil {
		return err
	}
	switch n := len(is.Servers); {
	case is.PrivateKey == (Key{}):
		return configError("Issuer.PrivateKey", "it is missing")
	case n < 1 || n > maxServers:
		return configError("Issuer.Servers", "the number of addresses, %d, is not from 1 to %d", n, maxServers)
	case is.InternalServers != nil && len(is.InternalServers) != n:
		return configError("Issuer.InternalServers", "it has %d addresses, but Servers has %d", len(is.InternalServers), n)
	case len(userData) > UserDataSize:
		return configError("userData", "its %d bytes are more than %d", len(userData), UserDataSize)
	}
	return nil
}

// checkDistinct refuses a list in which a server cannot know its place.
func checkDistinct(field string, servers []netip.AddrPort) error {
	for i, ap := range servers {
		if slices.Contains(servers[:i], ap) {
			return configError(field, "address %v is listed twice", ap)
		}
	}
	return nil
}

// checkSeconds refuses durations that do not fit the fields of a token.
func checkSeconds(field string, d time.Duration) error {
	if d > longest {
		return configError(field, "%v is more than %d s", d, int64(longest/time.Second))
	}
	return nil
}

// longest is the largest duration that a token holds.
const longest = math.MaxInt32 * time.Second

// wholeSeconds converts a duration for the wire: zero is def, and negative is -1.
func wholeSeconds(d, def time.Duration) int32 {
	switch {
	case d < 0:
		return -1
	case d == 0:
		d = def
	}
	return int32((d + time.Second - 1) / time.Second)
}
