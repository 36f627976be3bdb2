package netcode

import "time"

// Sizes in bytes and limits of the NETCODE 1.02 wire format.
const (
	// MaxMessageSize is the largest message, the payload of one packet.
	MaxMessageSize = 1200
	// UserDataSize is the size of the user data in a connect token.
	UserDataSize = 256

	maxServers         = 32 // in a connect token
	tokenSize          = 2048
	keySize            = 32
	tagSize            = 16
	tokenNonceSize     = 24
	privateTokenSize   = 1024
	challengeTokenSize = 300
	requestSize        = 1 + versionSize + 8 + 8 + tokenNonceSize + privateTokenSize
	challengeBodySize  = 8 + challengeTokenSize
	keepAliveBodySize  = 8
	maxSequenceSize    = 8
	minPacketSize      = 1 + 1 + tagSize
	maxPacketSize      = 1 + maxSequenceSize + MaxMessageSize + tagSize
)

const (
	versionSize = 13
	version     = "NETCODE 1.02\x00"
)

// Times that the standard fixes or the reference uses.
const (
	// sendInterval is the time between requests, between responses, and between keep
	// alives until both sides know that there is a session.
	sendInterval = 100 * time.Millisecond
	// quietInterval is the longest time between keep alives of an idle session.
	quietInterval = time.Second
	// defaultTokenLifetime is how long tokens are valid, for the issuer and for the
	// restart rule of a server.
	defaultTokenLifetime = 30 * time.Second
	// defaultTimeout is the timeout written into tokens.
	defaultTimeout = 10 * time.Second
	// disconnectPackets is how often a disconnect is sent, because the peer does not
	// acknowledge it.
	disconnectPackets = 10
	// defaultWindow suits faster senders: 2048 packets are 20 ms at 100,000
	// packets a second.
	defaultWindow = 2048
)

const (
	// anywhereStart is the least sequence of sessions with a random start. They have
	// maxServers shares, up to globalSequenceStart.
	anywhereStart = 1 << 62
	// globalSequenceStart is the least sequence of challenge and denied packets, so
	// that their nonces are never those of a session.
	globalSequenceStart = 1 << 63
)

// A packetType is the low nibble of a packet's first byte.
type packetType uint8

const (
	packetRequest packetType = iota
	packetDenied
	packetChallenge
	packetResponse
	packetKeepAlive
	packetPayload
	packetDisconnect

	numPacketTypes
)

func (t packetType) replayProtected() bool { return t >= packetKeepAlive }

// A packetSet is a set of packet types.
type packetSet uint8

func setOf(types ...packetType) (s packetSet) {
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

func (s packetSet) has(t packetType) bool { return s>>t&1 != 0 }

// The types that a client takes, and a session. A server also takes requests, in the clear.
var (
	clientTakes  = setOf(packetDenied, packetChallenge, packetKeepAlive, packetPayload, packetDisconnect)
	sessionTakes = setOf(packetKeepAlive, packetPayload, packetDisconnect)
)
