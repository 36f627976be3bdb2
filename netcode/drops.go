package netcode

// A DropReason says why a datagram was dropped or a token refused. Its String
// is a short label, fit for metrics.
type DropReason uint8

// The reasons, in the order in which they are checked.
const (
	// DropNone is not a reason.
	DropNone DropReason = iota

	// Any packet.

	DropTooSmall          // shorter than any packet of its kind
	DropNoKey             // no session key for this address
	DropTypeInvalid       // an unknown packet type
	DropTypeNotAllowed    // a type that only the other side receives
	DropSequenceBytes     // a sequence number of no or more than 8 bytes
	DropReplay            // seen before, or older than the replay window
	DropDecrypt           // not sealed with the session's key, or changed on the way
	DropBodySize          // authentic, but of the wrong size for its type
	DropPayloadSize       // authentic, but an empty or too large payload
	DropState             // authentic, but of no use in the present state
	DropSource            // authentic, but from another address than the server's
	DropQueueFull         // the application has not read fast enough
	DropTokenLength       // a connect token of the wrong size
	DropServerCount       // a token with no or more than 32 servers
	DropAddressType       // a token with an address of unknown family
	DropCreateAfterExpire // a token that expires before it was created

	// Connection requests, at a server.

	DropRequestLength    // a request of the wrong size
	DropNoPrivateKey     // the server has no private key
	DropVersion          // another protocol version
	DropProtocolID       // another protocol id
	DropTokenExpired     // the connect token has expired by the server's clock
	DropTokenTooOld      // the token may have been used before the server's start
	DropTokenDecrypt     // not sealed with the server's private key, or changed
	DropNotListed        // the server's address is not in the token
	DropAddressConnected // the address has a session
	DropIDConnected      // the client id has a session
	DropTokenUsed        // the token belongs to another address, or had its session
	DropHistoryFull      // too many unexpired tokens to remember
	DropServerFull       // no slot is free; the client was told
	DropPendingFull      // too many unfinished handshakes

	// Connection responses, at a server.

	DropNoHandshake // neither a session nor a handshake for the address
	DropChallenge   // the challenge is not one of ours for this handshake

	// Of addresses without a session, at a server.

	DropFlood // not looked at, since more of them came than there is time for

	// NumDropReasons is the number of reasons, DropNone included.
	NumDropReasons
)

var dropLabels = [NumDropReasons]string{
	DropNone:              "none",
	DropTooSmall:          "too_small",
	DropNoKey:             "no_packet_key",
	DropTypeInvalid:       "type_invalid",
	DropTypeNotAllowed:    "type_not_allowed",
	DropSequenceBytes:     "sequence_bytes",
	DropReplay:            "replay",
	DropDecrypt:           "decrypt",
	DropBodySize:          "body_size",
	DropPayloadSize:       "payload_size",
	DropState:             "state",
	DropSource:            "source",
	DropQueueFull:         "queue_full",
	DropTokenLength:       "length",
	DropServerCount:       "server_count",
	DropAddressType:       "address_type",
	DropCreateAfterExpire: "create_after_expire",
	DropRequestLength:     "request_length",
	DropNoPrivateKey:      "no_private_key",
	DropVersion:           "version_mismatch",
	DropProtocolID:        "protocol_id",
	DropTokenExpired:      "token_expired",
	DropTokenTooOld:       "token_too_old",
	DropTokenDecrypt:      "token_decrypt",
	DropNotListed:         "server_not_listed",
	DropAddressConnected:  "address_connected",
	DropIDConnected:       "client_id_connected",
	DropTokenUsed:         "token_used",
	DropHistoryFull:       "history_full",
	DropServerFull:        "server_full",
	DropPendingFull:       "handshakes_full",
	DropNoHandshake:       "no_handshake",
	DropChallenge:         "challenge",
	DropFlood:             "flood",
}

// String returns a label such as "replay" or "token_expired".
func (r DropReason) String() string {
	if r < NumDropReasons {
		return dropLabels[r]
	}
	return "unknown"
}

// Drops counts datagrams by the reason for which they were dropped; index it
// with a [DropReason].
type Drops [NumDropReasons]uint64

// Total returns the number of dropped datagrams.
func (d Drops) Total() (n uint64) {
	for _, c := range d {
		n += c
	}
	return n
}
