package netcode

import (
	"crypto/cipher"
	"encoding/binary"
	"math/bits"

	"golang.org/x/crypto/chacha20poly1305"

	"volley/internal/wire"
)

// A packetCipher is the cipher of one direction, with buffers, so that nothing allocates.
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

// wipe overwrites the key. The cipher must not be used again.
func (c *packetCipher) wipe() {
	wipeCipher(c.aead)
	*c = packetCipher{}
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

// checkCrypto returns an error if the ciphers are forbidden, as under FIPS 140.
func checkCrypto() error {
	_, err := chacha20poly1305.New(make([]byte, keySize))
	return err
}

// prepare sets nonce and associated data, which bind the sequence and the prefix.
func (c *packetCipher) prepare(prefix byte, seq uint64) {
	binary.LittleEndian.PutUint64(c.nonce[4:], seq)
	c.data[len(c.data)-1] = prefix
}

// sequenceSize returns the number of bytes that seq takes on the wire.
func sequenceSize(seq uint64) int { return max(1, (bits.Len64(seq)+7)/8) }

func (c *packetCipher) seal(out *wire.Batch, t packetType, seq uint64, body []byte) {
	n := sequenceSize(seq)
	pkt := out.Extend(1 + n + len(body) + tagSize)
	pkt[0] = byte(n)<<4 | byte(t)
	putSequence(pkt[1:1+n], seq)
	c.prepare(pkt[0], seq)
	c.aead.Seal(pkt[:1+n], c.nonce[:], body, c.data[:])
}

// sealBanded seals a payload packet whose body is a byte and b.
func (c *packetCipher) sealBanded(out *wire.Batch, seq uint64, band byte, b []byte) {
	n := 1 + sequenceSize(seq)
	pkt := out.Extend(n + 1 + len(b) + tagSize)
	pkt[0] = byte(n-1)<<4 | byte(packetPayload)
	putSequence(pkt[1:n], seq)
	body := pkt[n : n+1+len(b)]
	body[0] = band
	copy(body[1:], b)
	c.prepare(pkt[0], seq)
	c.aead.Seal(pkt[:n], c.nonce[:], body, c.data[:])
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

// open checks and decrypts the datagram b in place. On failure b is lost. The replay window
// w is checked before, and moved after; nil for a reader without protected types. A nil
// cipher: the address has no keys.
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

// parseHeader makes the checks before cryptography. n is the length of prefix and sequence.
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
