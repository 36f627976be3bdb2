package core

import "time"

// A Config has the parameters of a Peer. All of them must be set;
// DefaultConfig has good ones. Peers may share a Config.
type Config struct {
	Version  uint8
	MTU      int // bytes of the largest frame
	Channels int // 1 to 256
	// MaxPacket is the largest packet in bytes that is sent or taken.
	MaxPacket int
	// SendBandwidth and ReceiveBandwidth limit each direction in bytes/s; the
	// peer is told the latter.
	SendBandwidth, ReceiveBandwidth uint32
	// SendBuffer limits the packets without a fate, ReceiveBuffer what the receiving half
	// holds, with what nobody has read, in bytes. Channels have shares.
	SendBuffer, ReceiveBuffer int

	// LowShare is the percentage of what is sent that channels of low priority
	// have when there is something of both (R10); 0: priority is strict.
	LowShare int

	// SendFrames and ReceiveFrames are N_P, SentinelFrames is S.
	SendFrames, ReceiveFrames, SentinelFrames uint32
	// Packets is N_Q; SendGroup and ReceiveGroup are M.
	Packets, SendGroup, ReceiveGroup uint32

	RequestInterval  time.Duration // between requests that nobody answers
	HandshakeTimeout time.Duration
	Watchdog         time.Duration // without a frame of the peer
	Linger           time.Duration // in the state disconnected, and most in disconnecting
	PingInterval     time.Duration // without a frame before a ping

	Step       time.Duration // T_step
	RTOFloor   time.Duration // R2; 0: none
	MaxTimeout time.Duration // limits the back-off of the timeout (R3)
	PaperRTT   bool          // the first sample is one like the others
	// TimeoutOnly is the paper's loss detection: nothing but the timeout.
	TimeoutOnly bool
	Controller  ControllerKind
	Redundancy  bool // small messages are repeated where loss was met (R9)
	AckRepeats  int  // batches in which an acknowledgement is repeated, 0 to 2

	// EagerRequest repeats a request as soon as the peer shows itself, because the peer
	// may keep nothing before it knows our address (R12).
	EagerRequest bool
	// AwaitAcks delays a disconnect request until all frames are acknowledged, or the
	// peer has had time to repeat it: acknowledgements may have been lost or overtaken.
	AwaitAcks bool
	// VerifyDisconnect answers an unexpected disconnect request with a ping, and ignores
	// it if that is answered.
	VerifyDisconnect bool
	// VerifyRequest checks a request to connect that is not for this connection by pings,
	// instead of acknowledging it (C12): a peer that has started again answers none.
	VerifyRequest bool

	// Reserve, if not nil, is asked before memory is taken for received packets and told
	// when it is given back. It gets the bytes, and how many count against the connection
	// where little is left for all: those that it has already, with unread packets. For the
	// packets that others wait for, these others do not count. For packets that wait for
	// others, it is more than any connection may have. If it refuses, the frame is refused.
	// The Handler counts the memory of packets that it keeps, see Peer.Keep.
	Reserve func(delta, own int) bool `json:"-"`
}

// bufferShare returns a channel's share: 2/3 of what others leave of 3/4, or part of the last 1/4.
func bufferShare(buffer, others, channels int) int {
	if channels == 1 {
		return buffer
	}
	return max((buffer-buffer/4-others)/3*2, buffer/4/channels)
}

// NoBandwidthLimit as a bandwidth is none: the most that a request can say.
const NoBandwidthLimit = 1<<32 - 1

// DefaultConfig returns the parameters for version 0 or 1.
func DefaultConfig(version uint8) Config {
	mtu := MTU0
	if version > 0 {
		mtu = MTU1
	}
	return Config{
		Version:          version,
		MTU:              mtu,
		Channels:         1,
		MaxPacket:        64 << 10,
		SendBandwidth:    NoBandwidthLimit,
		ReceiveBandwidth: 1<<32 - 1,
		SendBuffer:       4 << 20,
		ReceiveBuffer:    4 << 20,
		SendFrames:       32768,
		ReceiveFrames:    65536,
		SentinelFrames:   16384,
		Packets:          65536,
		SendGroup:        2048,
		ReceiveGroup:     8192,
		RequestInterval:  500 * time.Millisecond,
		HandshakeTimeout: 20 * time.Second,
		Watchdog:         20 * time.Second,
		Linger:           20 * time.Second,
		PingInterval:     5 * time.Second,
		RTOFloor:         25 * time.Millisecond,
		MaxTimeout:       time.Second,
		AckRepeats:       2,
	}
}
