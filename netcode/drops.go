package netcode

// A dropReason says why a datagram was dropped or a token refused.
type dropReason uint8

// The reasons, in the order in which they are checked. dropNone is not a reason.
const (
	dropNone dropReason = iota

	// Any packet.

	dropTooSmall          // shorter than any packet of its kind
	dropNoKey             // no session key for this address
	dropTypeInvalid       // an unknown packet type
	dropTypeNotAllowed    // a type that only the other side receives
	dropSequenceBytes     // a sequence number of 0 or more than 8 bytes
	dropReplay            // seen before, or older than the replay window
	dropDecrypt           // not sealed with the session's key, or changed on the way
	dropBodySize          // authentic, but of the wrong size for its type
	dropPayloadSize       // authentic, but an empty or too large payload
	dropState             // authentic, but useless in the present state
	dropSource            // authentic, but from another address than the server's
	dropQueueFull         // the application has not read fast enough
	dropTokenLength       // a connect token of the wrong size
	dropServerCount       // a token with 0 or more than 32 servers
	dropAddressType       // a token with an address of unknown family
	dropCreateAfterExpire // a token that expires before it was created

	// Connection requests, at a server.

	dropRequestLength    // a request of the wrong size
	dropNoPrivateKey     // the server has no private key
	dropVersion          // another protocol version
	dropProtocolID       // another protocol id
	dropTokenExpired     // the connect token has expired by the server's clock
	dropTokenTooOld      // the token may have been used before the server's start
	dropTokenDecrypt     // not sealed with the server's private key, or changed
	dropNotListed        // the server's address is not in the token
	dropAddressConnected // the address has a session
	dropIDConnected      // the client id has a session
	dropTokenUsed        // the token belongs to another address, or had its session
	dropHistoryFull      // too many unexpired tokens to remember
	dropServerFull       // no slot is free; the client was told
	dropPendingFull      // too many unfinished handshakes

	// Connection responses, at a server.

	dropNoHandshake // neither a session nor a handshake for the address
	dropChallenge   // the challenge is not one of ours for this handshake

	// Datagrams of addresses without a session, at a server.

	dropFlood // not looked at, because there was no time for so many

	numDropReasons
)

// dropLabels are the keys of Stats.Drops.
var dropLabels = [numDropReasons]string{
	"none",
	"too_small", "no_packet_key", "type_invalid", "type_not_allowed", "sequence_bytes",
	"replay", "decrypt", "body_size", "payload_size", "state", "source", "queue_full",
	"length", "server_count", "address_type", "create_after_expire",
	"request_length", "no_private_key", "version_mismatch", "protocol_id",
	"token_expired", "token_too_old", "token_decrypt", "server_not_listed",
	"address_connected", "client_id_connected", "token_used", "history_full",
	"server_full", "handshakes_full",
	"no_handshake", "challenge",
	"flood",
}

func (r dropReason) String() string { return dropLabels[r] }

// dropCounts counts dropped datagrams by reason.
type dropCounts [numDropReasons]uint64

// labeled returns the counts above zero by label. A nil d has none.
func (d *dropCounts) labeled() (m map[string]uint64) {
	if d == nil {
		return nil
	}
	for r, n := range d {
		if n == 0 {
			continue
		}
		if m == nil {
			m = make(map[string]uint64)
		}
		m[dropLabels[r]] = n
	}
	return m
}

func total(drops map[string]uint64) (n uint64) {
	for _, c := range drops {
		n += c
	}
	return n
}
