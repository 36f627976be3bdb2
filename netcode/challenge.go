package netcode

import (
	"crypto/cipher"
	"encoding/binary"

	"golang.org/x/crypto/chacha20poly1305"
)

// A challengeToken goes to the address that a client claims and comes back in its
// response. The client cannot read it, so the server need not remember the client.
type challengeToken struct {
	clientID uint64
	userData [UserDataSize]byte
	// token is the connect token of the handshake, so that a response belongs to one
	// request. It is in the padding of the standard. Zero with other servers.
	token tokenID
}

// challengePlain is the size of a challenge token without its tag.
const challengePlain = challengeTokenSize - tagSize

// put writes the plain form into the first bytes of b.
func (t *challengeToken) put(b []byte) {
	binary.LittleEndian.PutUint64(b, t.clientID)
	n := 8 + copy(b[8:], t.userData[:])
	n += copy(b[n:], t.token[:])
	clear(b[n:challengeTokenSize])
}

func (t *challengeToken) parse(b []byte) {
	t.clientID = binary.LittleEndian.Uint64(b)
	n := 8 + copy(t.userData[:], b[8:])
	copy(t.token[:], b[n:])
}

// A challengeCipher seals and opens challenge tokens. Its key is new at each start.
type challengeCipher struct {
	aead  cipher.AEAD
	nonce [chacha20poly1305.NonceSize]byte
}

func newChallengeCipher(key *Key) challengeCipher {
	return challengeCipher{aead: newAEAD(key)}
}

func (c *challengeCipher) seal(b []byte, seq uint64, t *challengeToken) {
	t.put(b)
	binary.LittleEndian.PutUint64(c.nonce[4:], seq)
	c.aead.Seal(b[:0], c.nonce[:], b[:challengePlain], nil)
}

func (c *challengeCipher) open(b []byte, seq uint64, t *challengeToken) bool {
	binary.LittleEndian.PutUint64(c.nonce[4:], seq)
	plain, err := c.aead.Open(b[:0], c.nonce[:], b, nil)
	if err != nil {
		return false
	}
	t.parse(plain)
	return true
}
