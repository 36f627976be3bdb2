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
	// minExpires is the restart rule: tokens that expire earlier may have
	// been used before the server started.
	minExpires uint64
}

// read makes the checks of a request that need no state, in the order of the
// standard, those that cost nothing first. It opens the private part in place,
// and leaves zeros there, for it holds keys: the content of b is lost. now is in
// unix seconds.
func (rr *requestReader) read(b []byte, now uint64, r *request) DropReason {
	if len(b) != requestSize {
		return DropRequestLength
	}
	if rr.aead == nil {
		return DropNoPrivateKey
	}
	if string(b[1:requestProtocol]) != version {
		return DropVersion
	}
	if binary.LittleEndian.Uint64(b[requestProtocol:]) != rr.protocolID {
		return DropProtocolID
	}
	r.expires = binary.LittleEndian.Uint64(b[requestExpires:])
	if r.expires <= now {
		return DropTokenExpired
	}
	if r.expires < rr.minExpires {
		return DropTokenTooOld
	}
	private := b[requestPrivate:]
	r.id = tokenID(private[privateTokenSize-tagSize:])
	// Version, protocol id and expiry stand in the request as they do in the
	// associated data.
	if !openPrivate(rr.aead, b[requestNonce:requestPrivate], b[1:requestNonce], private) {
		return DropTokenDecrypt
	}
	reason := r.token.parse(private)
	clear(private)
	return reason
}
