package netcode

import (
	"crypto/cipher"
	"encoding/binary"
)

// A tokenID identifies a connect token: the tag of its sealed private part.
type tokenID [tagSize]byte

// A request is a connection request: the parts of a connect token that a
// client shows a server.
type request struct {
	expires uint64 // unix seconds
	id      tokenID
	token   privateToken
}

// Offsets in a request datagram.
const (
	requestProtocol = 1 + versionSize
	requestExpires  = requestProtocol + 8
	requestNonce    = requestExpires + 8
	requestPrivate  = requestNonce + tokenNonceSize
)

// putRequest writes the request datagram for token t.
func putRequest(b []byte, t *Token) {
	b[0] = byte(packetRequest)
	copy(b[1:], version)
	binary.LittleEndian.PutUint64(b[requestProtocol:], t.protocolID)
	binary.LittleEndian.PutUint64(b[requestExpires:], t.expires)
	copy(b[requestNonce:], t.nonce[:])
	copy(b[requestPrivate:], t.private[:])
}

// A requestReader holds what a server checks requests against.
type requestReader struct {
	aead       cipher.AEAD // for the private part; nil without a private key
	protocolID uint64
	minExpires uint64 // tokens that expire earlier may have been used before our start
}

// read makes the checks of a request that need no state, in the order of the standard.
// It opens the private part in place and then clears it, because it holds keys. now is in
// unix seconds.
func (rr *requestReader) read(b []byte, now uint64, r *request) dropReason {
	if len(b) != requestSize {
		return dropRequestLength
	}
	if rr.aead == nil {
		return dropNoPrivateKey
	}
	if string(b[1:requestProtocol]) != version {
		return dropVersion
	}
	if binary.LittleEndian.Uint64(b[requestProtocol:]) != rr.protocolID {
		return dropProtocolID
	}
	r.expires = binary.LittleEndian.Uint64(b[requestExpires:])
	if r.expires <= now {
		return dropTokenExpired
	}
	if r.expires < rr.minExpires {
		return dropTokenTooOld
	}
	private := b[requestPrivate:]
	r.id = tokenID(private[privateTokenSize-tagSize:])
	// The associated data are a part of the request.
	if !openPrivate(rr.aead, b[requestNonce:requestPrivate], b[1:requestNonce], private) {
		return dropTokenDecrypt
	}
	reason := r.token.parse(private)
	clear(private)
	return reason
}
