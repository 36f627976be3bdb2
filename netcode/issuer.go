package netcode

import (
	"crypto/rand"
	"math"
	"net/netip"
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
	// ports. Required.
	Servers []netip.AddrPort
	// InternalServers are the addresses under which the servers know
	// themselves where those differ, as behind network address translation.
	// As many as Servers, or nil for the same.
	InternalServers []netip.AddrPort
	// Lifetime is how long a token can be used after its issue, in whole
	// seconds. It must equal the TokenLifetime of the servers: those refuse
	// a token with a shorter life for a while after their start, and cannot
	// tell whether one with a longer life was used before it. Zero: 30 s.
	// Negative: forever, which no server with that rule protects.
	Lifetime time.Duration
	// Timeout is the silence after which either side gives up a session, in
	// whole seconds. Zero: 10 s. Negative: never.
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
	if err := is.check(userData); err != nil {
		return nil, err
	}
	t := &Token{
		protocolID: is.ProtocolID,
		created:    uint64(max(now.Unix(), 0)),
		expires:    neverExpires,
		timeout:    wholeSeconds(is.Timeout, defaultTimeout),
		nonce:      nonce,
		servers:    append([]netip.AddrPort(nil), is.Servers...),
		clientKey:  clientKey,
		serverKey:  serverKey,
	}
	if is.Lifetime >= 0 {
		t.expires = t.created + uint64(wholeSeconds(is.Lifetime, defaultTokenLifetime))
	}
	p := privateToken{clientID: clientID, timeout: t.timeout, clientKey: clientKey, serverKey: serverKey}
	p.numServers = copy(p.servers[:], is.internal())
	copy(p.userData[:], userData)
	t.sealPrivate(&p, &is.PrivateKey)
	return t, nil
}

// internal returns the addresses for the private part.
func (is *Issuer) internal() []netip.AddrPort {
	if is.InternalServers == nil {
		return is.Servers
	}
	return is.InternalServers
}

// check returns an error that names the first field that is out of range.
func (is *Issuer) check(userData []byte) error {
	if err := checkCrypto(); err != nil {
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
	if err := checkServers("Issuer.Servers", is.Servers); err != nil {
		return err
	}
	return checkServers("Issuer.InternalServers", is.InternalServers)
}

func checkServers(field string, servers []netip.AddrPort) error {
	for _, ap := range servers {
		if !ap.IsValid() || ap.Addr().Zone() != "" {
			return configError(field, "%v is not an address without zone", ap)
		}
	}
	return nil
}

// wholeSeconds converts a duration for a field of the wire form: zero is def,
// negative is -1, and everything else is rounded up to whole seconds.
func wholeSeconds(d, def time.Duration) int32 {
	switch {
	case d < 0:
		return -1
	case d == 0:
		d = def
	}
	s := (d + time.Second - 1) / time.Second
	return int32(min(s, math.MaxInt32))
}
