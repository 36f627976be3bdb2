package netcode

import (
	"crypto/cipher"
	"encoding/binary"
	"net/netip"
	"time"
)

// A privateToken is the part of a connect token that only backend and servers read.
type privateToken struct {
	clientID   uint64
	timeout    int32 // seconds; not positive: no timeouts
	numServers int
	servers    [maxServers]netip.AddrPort
	clientKey  Key // client to server
	serverKey  Key // server to client
	userData   [UserDataSize]byte
}

// privateData is the associated data of the sealed private part.
type privateData [versionSize + 8 + 8]byte

func newPrivateData(ver string, protocolID, expires uint64) (d privateData) {
	copy(d[:], ver)
	binary.LittleEndian.PutUint64(d[versionSize:], protocolID)
	binary.LittleEndian.PutUint64(d[versionSize+8:], expires)
	return d
}

// put writes the plain form into b, zeros behind it.
func (p *privateToken) put(b *[privateTokenSize]byte) {
	w := binary.LittleEndian.AppendUint64(b[:0], p.clientID)
	w = binary.LittleEndian.AppendUint32(w, uint32(p.timeout))
	w = appendAddrs(w, p.servers[:p.numServers])
	w = append(w, p.clientKey[:]...)
	w = append(w, p.serverKey[:]...)
	w = append(w, p.userData[:]...)
	clear(b[len(w):])
}

// parse reads the plain form.
func (p *privateToken) parse(b []byte) dropReason {
	if len(b) < privateTokenSize-tagSize {
		return dropTokenLength
	}
	p.clientID = binary.LittleEndian.Uint64(b)
	p.timeout = int32(binary.LittleEndian.Uint32(b[8:]))
	count, n, reason := consumeAddrs(b[12:], &p.servers)
	if reason != dropNone {
		return reason
	}
	p.numServers = count
	b = b[12+n:] // long enough even with 32 IPv6 addresses
	n = copy(p.clientKey[:], b)
	n += copy(p.serverKey[:], b[n:])
	copy(p.userData[:], b[n:])
	return dropNone
}

func (p *privateToken) wipe() { *p = privateToken{} }

func (p *privateToken) idleTimeout() time.Duration { return secondsToTimeout(p.timeout) }

// secondsToTimeout converts a token's timeout. Zero is none, or it would end all sessions.
func secondsToTimeout(s int32) time.Duration {
	return time.Duration(max(s, 0)) * time.Second
}

// sealPrivate seals the plain private part in place.
func sealPrivate(aead cipher.AEAD, nonce *[tokenNonceSize]byte, d *privateData, b *[privateTokenSize]byte) {
	plain := b[:privateTokenSize-tagSize]
	aead.Seal(plain[:0], nonce[:], plain, d[:])
}

// openPrivate opens the sealed private part b in place. If it is not authentic, b is lost.
func openPrivate(aead cipher.AEAD, nonce, d, b []byte) bool {
	_, err := aead.Open(b[:0], nonce, b, d)
	return err == nil
}
