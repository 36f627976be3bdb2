package netcode

import (
	"crypto/rand"
	"math"
	"net/netip"
	"slices"
	"time"
)

// An Issuer makes connect tokens. A backend keeps one per kind of server. It
// is safe for concurrent use as long as nobody changes its fields.
type Issuer struct {
	// PrivateKey is shared by the backend and its servers, and by nobody
	// else: it makes and opens every token. Required.
	PrivateKey Key
	// ProtocolID must equal that of the servers. It tells programs and
	// versions apart which share a private key.
	ProtocolID uint64
	// Servers are the addresses that clients try, in order: 1 to 32, with
	// ports. Unspecified, multicast and broadcast addresses are errors, and
	// without InternalServers so is one that stands in the list twice.
	// Required.
	Servers []netip.AddrPort
	// InternalServers are the addresses under which the servers know
	// themselves where those differ, as behind network address translation.
	// As many as Servers, or nil for the same. No two may be equal: a server
	// takes its share of the sequence numbers by its place in this list, so
	// that servers which share the keys of a token share no nonce. So an
	// address here has to be that of one server only.
	InternalServers []netip.AddrPort
	// Lifetime is how long a token can be used after its issue, in whole
	// seconds. It must equal the TokenLifetime of the servers: those refuse
	// a token with a shorter life for a while after their start, and cannot
	// tell whether one with a longer life was used before it. Zero: 30 s, at
	// most 2^31-1 s. Negative: forever, which no server with that rule
	// protects; and a server remembers such tokens until it stops, so it takes
	// a limited number of them (see [ListenConfig.MaxClients]).
	//
	// A client that uses a token twice seals packets twice with the same keys.
	// With one that lives for more than an hour, or forever, it begins to count
	// at random each time, so that it repeats no nonce; with others it begins at
	// 0, and whoever sees both sessions learns the XOR of their contents.
	Lifetime time.Duration
	// Timeout is the silence after which either side gives up a session, in
	// whole seconds. Zero: 10 s, at most 2^31-1 s. Negative: never.
	Timeout time.Duration
}

// Issue makes a token for the client with the given id, which the server
// learns together with userData, at most 256 bytes. The id is unique among the
// clients connected to a server. The error is a *[ConfigError] that names the
// field, or "userData".
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

// check returns the addresses for the public and the private part, or an error
// that names the first field that is out of range.
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
	case is.PrivateKey.IsZero():
		return configError("Issuer.PrivateKey", "it is missing")
	case n < 1 || n > MaxServers:
		return configError("Issuer.Servers", "%d addresses, not 1 to %d", n, MaxServers)
	case is.InternalServers != nil && len(is.InternalServers) != n:
		return configError("Issuer.InternalServers", "%d addresses, and Servers has %d", len(is.InternalServers), n)
	case len(userData) > UserDataSize:
		return configError("userData", "%d bytes, more than %d", len(userData), UserDataSize)
	}
	return nil
}

// checkDistinct refuses a list in which a server could not tell its place.
func checkDistinct(field string, servers []netip.AddrPort) error {
	for i, ap := range servers {
		if slices.Contains(servers[:i], ap) {
			return configError(field, "%v stands in it twice, so that its server could not tell its place", ap)
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

// wholeSeconds converts a duration for a field of the wire form: zero is def,
// negative is -1, and everything else, up to longest, is rounded up to whole
// seconds.
func wholeSeconds(d, def time.Duration) int32 {
	switch {
	case d < 0:
		return -1
	case d == 0:
		d = def
	}
	return int32((d + time.Second - 1) / time.Second)
}
