package netcode

import "encoding/binary"

// A tokenID identifies a connect token: the tag of its sealed private part.
type tokenID [tagSize]byte

// A request is the parts of a connect token that a client shows a server.
type request struct {
	expires uint64 // unix seconds
	fresh   bool   // no token under this key was used before our start
	spent   uint64 // with fresh: tokens that expire by then may have been used
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
	keys       keyRing // for the private part
	protocolID uint64
	minExpires uint64 // tokens that expire earlier may have been used before our start
}

// check makes the stateless checks of a request that cost little, in the standard's order, and
// returns the key for the others. now is in unix seconds.
func (rr *requestReader) check(b []byte, now uint64, r *request) (*ringKey, dropReason) {
	if len(b) != requestSize {
		return nil, dropRequestLength
	}
	if len(rr.keys) == 0 {
		return nil, dropNoPrivateKey
	}
	if string(b[1:requestProtocol]) != version {
		return nil, dropVersion
	}
	if binary.LittleEndian.Uint64(b[requestProtocol:]) != rr.protocolID {
		return nil, dropProtocolID
	}
	r.expires = binary.LittleEndian.Uint64(b[requestExpires:])
	if r.expires <= now {
		return nil, dropTokenExpired
	}
	key := rr.keys.find(r.expires)
	if r.fresh = key != nil && key.fresh; r.fresh {
		r.spent = key.forgotten
	}
	if !r.fresh && r.expires < rr.minExpires {
		return nil, dropTokenTooOld
	}
	r.id = tokenID(b[requestSize-tagSize:])
	if key == nil {
		return nil, dropTokenDecrypt
	}
	return key, dropNone
}

// open opens the private part of a checked request in place, and clears it, because it
// holds keys.
func (r *request) open(key *ringKey, b []byte) dropReason {
	private := b[requestPrivate:]
	// The associated data are a part of the request.
	if !openPrivate(key.aead, b[requestNonce:requestPrivate], b[1:requestNonce], private) {
		return dropTokenDecrypt
	}
	reason := r.token.parse(private)
	clear(private)
	return reason
}
