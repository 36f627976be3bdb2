package core

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"
)

// A Cookie makes the ids of requests with which unknown addresses are answered, without
// keeping anything (R12): codes over the address and the present epoch. A peer that
// acknowledges its id receives at that address. Not safe for concurrent use.
type Cookie struct {
	mac hash.Hash
	msg [8 + len(Address{})]byte
	sum [sha256.Size]byte
}

// An Address is an IP address in 16 bytes and a port.
type Address [16 + 2]byte

// cookieEpoch is how long an id stays the same. It is valid for one epoch more.
const cookieEpoch = 10 * time.Second

// NewCookie returns a Cookie with a random secret of at least 16 bytes.
func NewCookie(secret []byte) *Cookie { return &Cookie{mac: hmac.New(sha256.New, secret)} }

func (c *Cookie) id(epoch uint64, from Address) uint32 {
	binary.BigEndian.PutUint64(c.msg[:], epoch)
	copy(c.msg[8:], from[:])
	c.mac.Reset()
	c.mac.Write(c.msg[:])
	return binary.BigEndian.Uint32(c.mac.Sum(c.sum[:0]))
}

// ID returns the id of the request for an address.
func (c *Cookie) ID(now Clock, from Address) uint32 { return c.id(uint64(now/cookieEpoch), from) }

// Check reports whether ID has returned an id in this epoch or the last.
func (c *Cookie) Check(now Clock, from Address, id uint32) bool {
	epoch := uint64(now / cookieEpoch)
	return id == c.id(epoch, from) || epoch > 0 && id == c.id(epoch-1, from)
}

// Other returns the other id that Check accepts beside id, or id if there is none.
func (c *Cookie) Other(now Clock, from Address, id uint32) uint32 {
	epoch := uint64(now / cookieEpoch)
	if this := c.id(epoch, from); this != id || epoch == 0 {
		return this
	}
	return c.id(epoch-1, from)
}
