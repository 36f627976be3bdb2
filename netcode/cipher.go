package netcode

import (
	"crypto/cipher"
	"encoding/binary"
	"math/bits"

	"golang.org/x/crypto/chacha20poly1305"

	"volley/internal/wire"
)

// A packetCipher is the cipher of one direction of a session, with its buffers, so that
// no packet allocates.
type packetCipher struct {
	aead  cipher.AEAD
	nonce [chacha20poly1305.NonceSize]byte // four zeros, the sequence
	data  [versionSize + 8 + 1]byte        // version, protocol id, prefix byte
}

func newPacketCipher(key *Key, protocolID uint64) packetCipher {
	c := packetCipher{aead: newAEAD(key)}
	copy(c.data[:], version)
	binary.LittleEndian.PutUint64(c.data[versionSize:], protocolID)
	return c
}

// newAEAD returns the IETF construction with its nonce of 12 bytes.
func newAEAD(key *Key) cipher.AEAD { return must(chacha20poly1305.New(key[:])) }

// newAEADX returns the construction with a nonce of 24 bytes.
func newAEADX(key *Key) cipher.AEAD { return must(chacha20poly1305.NewX(key[:])) }

func must(aead cipher.AEAD, err error) cipher.AEAD {
	if err != nil {
		panic("BUG: " + err.Error()) // checkCrypto has tried
	}
	return aead
}

// checkCrypto returns an error if the ciphers must not be used, as in a program that is
// restricted to FIPS 140.
func checkCrypto() error {
	_, err := chacha20poly1305.New(make([]byte, keySize))
	return err
}

// prepare sets nonce and associated data. The nonce binds the sequence, and the prefix
// its width on the wire.
func (c *packetCipher) prepare(prefix byte, seq uint64) {
	binary.LittleEndian.PutUint64(c.nonce[4:], seq)
	c.data[len(c.data)-1] = prefix
}

// sequenceSize returns the number of bytes that seq takes on the wire.
func sequenceSize(seq uint64) int { return max(1, (bits.Len64(seq)+7)/8) }

// seal appends the packet with the given body to out.
func (c *packetCipher) seal(out *wire.Batch, t packetType, seq uint64, body []byte) {
	n := sequenceSize(seq)
	pkt := out.Extend(1 + n + len(body) + tagSize)
	pkt[0] = byte(n)<<4 | byte(t)
	putSequence(pkt[1:1+n], seq)
	c.prepare(pkt[0], seq)
	c.aead.Seal(pkt[:1+n], c.nonce[:], body, c.data[:])
}

func putSequence(b []byte, seq uint64) {
	for i := range b {
		b[i] = byte(seq >> (8 * i))
	}
}

func sequence(b []byte) (seq uint64) {
	for i := range b {
		seq |= uint64(b[i]) << (8 * i)
	}
	return seq
}

// A packet is a sealed packet after reading.
type packet struct {
	typ  packetType
	seq  uint64
	body []byte // part of the datagram
}

// open checks the datagram b and decrypts it in place. On failure b is lost. For the
// types that it protects, the replay window w is checked before decryption and moved
// after. It may be nil for a reader that takes none of them. A nil cipher means that the
// address has no keys.
func (c *packetCipher) open(b []byte, takes packetSet, w *replayWindow) (packet, dropReason) {
	p, n, reason := parseHeader(b, takes, c != nil)
	if reason != dropNone {
		return packet{}, reason
	}
	if p.typ.replayProtected() && !w.check(p.seq) {
		return packet{}, dropReplay
	}
	c.prepare(b[0], p.seq)
	body, err := c.aead.Open(b[n:n], c.nonce[:], b[n:], c.data[:])
	if err != nil {
		return packet{}, dropDecrypt
	}
	p.body = body
	if p.typ.replayProtected() {
		w.mark(p.seq)
	}
	return p, checkBody(p)
}

// parseHeader makes the checks before any cryptography, in the order of the standard. n
// is the length of the prefix and the sequence, if there is no reason.
func parseHeader(b []byte, takes packetSet, key bool) (p packet, n int, reason dropReason) {
	if len(b) == 0 {
		return p, n, dropTooSmall
	}
	if b[0] == byte(packetRequest) {
		return p, n, dropTypeNotAllowed // requests have a reader of their own
	}
	if !key {
		return p, n, dropNoKey
	}
	if len(b) < minPacketSize {
		return p, n, dropTooSmall
	}
	p.typ = packetType(b[0] & 0xf)
	if p.typ >= numPacketTypes || p.typ == packetRequest {
		return p, n, dropTypeInvalid
	}
	if !takes.has(p.typ) {
		return p, n, dropTypeNotAllowed
	}
	n = 1 + int(b[0]>>4)
	if n < 2 || n > 1+maxSequenceSize {
		return p, n, dropSequenceBytes
	}
	if len(b) < n+tagSize {
		return p, n, dropTooSmall
	}
	p.seq = sequence(b[1:n])
	return p, n, dropNone
}

// checkBody checks the size of an authentic packet's body.
func checkBody(p packet) dropReason {
	ok := false
	switch n := len(p.body); p.typ {
	case packetDenied, packetDisconnect:
		ok = n == 0
	case packetChallenge, packetResponse:
		ok = n == challengeBodySize
	case packetKeepAlive:
		ok = n == keepAliveBodySize
	case packetPayload:
		if n < 1 || n > MaxMessageSize {
			return dropPayloadSize
		}
		ok = true
	}
	if !ok {
		return dropBodySize
	}
	return dropNone
}
