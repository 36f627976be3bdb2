package reliable

import (
	"fmt"
	"math"
	"time"
)

// The defaults of the reference.
const (
	defaultMaxPacketSize      = 16384
	defaultFragmentAbove      = 1024
	defaultFragmentSize       = 1024
	defaultMaxFragments       = 16
	defaultSentBuffer         = 256
	defaultReceivedBuffer     = 256
	defaultAckBuffer          = 256
	defaultReassemblyBuffer   = 64
	defaultRTTSmoothing       = 0.0025
	defaultLossSmoothing      = 0.1
	defaultBandwidthSmoothing = 0.1
	defaultRTTHistory         = 512
	defaultPacketHeaderSize   = 28
	defaultLostAfter          = 10 * time.Second
)

// Limits of a Config.
const (
	maxMaxFragments  = 256       // a fragment's count is one byte
	maxBuffer        = 1<<15 - 1 // beyond it the next sequence would be stale
	maxRTTHistory    = 1 << 20
	maxFragmentBytes = 65507 // largest UDP payload
	minMaxWindow     = 64
	maxMaxWindow     = 1 << 14
	datagramSlack    = 14 // bytes by which a datagram may exceed MaxPacketSize
)

// A Config holds the settings of an Endpoint. The zero value is the reference
// implementation's default. An Endpoint never changes its Config, and any
// number of endpoints may share one; it must not be changed while they do.
//
// Only FragmentSize must be equal at both ends.
type Config struct {
	// MaxPacketSize is the largest payload in bytes, sent or received. Default 16384.
	MaxPacketSize int
	// FragmentAbove is the payload size in bytes above which a packet is sent
	// in fragments. Default 1024.
	FragmentAbove int
	// FragmentSize is the number of payload bytes in each fragment but the
	// last; at most 65507. Default 1024.
	FragmentSize int
	// MaxFragments is the largest number of fragments of a packet, sent or
	// received; at most 256. Default 16.
	MaxFragments int

	// The next three work with any size, as the reference's do. Sizes that are
	// not powers of two are slower, and lose track of some sequences, so that
	// a duplicate may be delivered, each time the sequence wraps around.

	// SentBuffer is the number of sent packets remembered, at most 32767. An
	// ack for an older one is ignored. Default 256. Unused with MaxWindow.
	SentBuffer int
	// ReceivedBuffer is the number of received sequences remembered, at most
	// 32767. An older packet is stale. Default 256. Unused with MaxWindow.
	ReceivedBuffer int
	// AckBuffer is the number of acks that wait for ClearAcks. A packet whose
	// ack finds no room stays unacknowledged. Default 256. Negative: there is
	// no list, and acks are told to the FateHandler alone.
	AckBuffer int
	// ReassemblyBuffer is the number of sequences, up to the newest, whose
	// fragments are collected; at most 32767. Default 64.
	ReassemblyBuffer int

	// RTTSmoothing is the share of each new sample in Stats.RTT, 0 to 1.
	// Default 0.0025. Negative: 0, the first sample stays.
	RTTSmoothing float32
	// LossSmoothing is the share of the present loss in Stats.PacketLoss at
	// each Update, 0 to 1. Default 0.1. Negative: 0.
	LossSmoothing float32
	// BandwidthSmoothing is the like for the three bandwidths. Default 0.1. Negative: 0.
	BandwidthSmoothing float32
	// RTTHistory is the number of newest samples behind RTTMin, RTTMax, RTTAvg
	// and the jitter figures. Default 512.
	RTTHistory int
	// PacketHeaderSize is the number of bytes that the layers below add to a
	// packet, for the bandwidth figures only. Default 28, for IPv4 and UDP.
	// Negative: none.
	PacketHeaderSize int

	// What follows goes beyond the reference. All of it is off by default.

	// SmoothingInterval rescales LossSmoothing and BandwidthSmoothing to real
	// time: they then hold for an Update that comes this long after the one
	// before, whatever the true distance. Zero: they hold for every Update.
	SmoothingInterval time.Duration
	// AckDelay makes the endpoint ask for packets without a payload, see
	// ControlDue, and is the longest that a message received waits for one of
	// ours that acknowledges it along the way. With it, round-trip times leave
	// out how long acknowledgements waited, and lost packets are known in
	// about two round trips; both sides need it for that. Sizes of windows
	// must be powers of two. Zero: only Send makes packets.
	AckDelay time.Duration
	// MaxWindow makes the windows of sent and received packets start small,
	// grow as the rate needs it, and shrink on Compact. It is the largest
	// size of each: a power of two from 64 to 16384. Zero: the windows have
	// fixed sizes.
	MaxWindow int
	// LostAfter is the age at which a packet without an answer is presumed
	// lost by an Update, with MaxWindow. It bounds how long a fate stays open
	// when the other side falls silent. Default 10 s. Negative: age decides
	// nothing.
	LostAfter time.Duration
	// JumpGuard refuses the first packet that is further ahead than the window
	// of received packets is long, or than 4096 sequences, and believes the
	// second if it follows closely. Packets behind by up to half the range are
	// stale, whatever follows them, until no packet was accepted for 10 s.
	// Without it, one late duplicate or wrong sequence can make thousands of
	// good packets stale. The window must be a power of two.
	JumpGuard bool
	// MidStream is for sides that may forget each other and start anew at
	// sequence 0, each at a time of its own. The first packet is believed
	// whatever its sequence. The window begins again with a packet that it would
	// refuse, but that acknowledges something new, or, if nothing was accepted
	// for 10 s, that has heard nothing. If two fragments with the same sequence and
	// number differ, that packet is given up. It needs JumpGuard.
	MidStream bool
	// AckGuard ignores the acks of a header whose ack is of a packet that was
	// never sent, as that of a peer is who speaks of an endpoint that had this
	// address before. It counts them in AcksInvalid. Without it, the ack bits
	// of such a header may acknowledge packets that nobody received. So may the
	// headers of a peer that receives nothing while 65,536 packets are sent.
	AckGuard bool
	// AckRefused handles the acks that a refused packet carries, also one
	// refused for lack of memory, and makes ControlDue answer the first of them.
	AckRefused bool
	// ReassemblyTimeout is the age at which a packet that still lacks
	// fragments is given up, at the next Update. Zero: never.
	ReassemblyTimeout time.Duration
	// ReassemblyBytes limits the memory in bytes for packets that still lack
	// fragments and for the buffers kept for them. Fragments above it are
	// refused as FragmentsInvalid. Zero: no limit but that of the window.
	ReassemblyBytes int
	// Reserve, if not nil, is called with a positive delta before the endpoint
	// takes that many bytes, and may refuse: then the endpoint does without, as
	// far as it can. It is called with a negative delta when bytes are given
	// back. The memory of a fresh endpoint is not counted. With acked the other
	// side has acknowledged a packet since New or Reset, so that a budget can
	// keep a part for such endpoints.
	Reserve func(delta int, acked bool) bool `json:"-"`
}

// or returns v, or def where v is zero.
func or[T int | float32](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// orOff is or for a setting that is zero when negative.
func orOff[T int | float32](v, def T) T {
	return max(0, or(v, def))
}

// Validate returns a *ConfigError for the first field that is out of range or
// contradicts another one, and nil if there is none.
func (c *Config) Validate() error {
	if err := c.validateRanges(); err != nil {
		return err
	}
	size, count := or(c.FragmentSize, defaultFragmentSize), or(c.MaxFragments, defaultMaxFragments)
	if most := or(c.MaxPacketSize, defaultMaxPacketSize); most > size*count {
		return configError("MaxPacketSize", most, "exceeds MaxFragments * FragmentSize, %d", size*count)
	}
	if w := c.MaxWindow; w != 0 && (w < minMaxWindow || w > maxMaxWindow || w&(w-1) != 0) {
		return configError("MaxWindow", w, "is not a power of two from 64 to 16384")
	}
	if n := or(c.ReceivedBuffer, defaultReceivedBuffer); c.JumpGuard && c.MaxWindow == 0 && n&(n-1) != 0 {
		return configError("ReceivedBuffer", n, "is not a power of two, which JumpGuard needs")
	}
	if c.MidStream && !c.JumpGuard {
		return configError("MidStream", c.MidStream, "needs JumpGuard")
	}
	if err := c.validateAckDelay(); err != nil {
		return err
	}
	if c.SmoothingInterval < 0 {
		return configError("SmoothingInterval", c.SmoothingInterval, "is negative")
	}
	if c.ReassemblyTimeout < 0 {
		return configError("ReassemblyTimeout", c.ReassemblyTimeout, "is negative")
	}
	return nil
}

func (c *Config) validateAckDelay() error {
	if c.AckDelay < 0 {
		return configError("AckDelay", c.AckDelay, "is negative")
	}
	if c.AckDelay == 0 || c.MaxWindow > 0 {
		return nil
	}
	if n := or(c.ReceivedBuffer, defaultReceivedBuffer); n&(n-1) != 0 {
		return configError("ReceivedBuffer", n, "is not a power of two, which AckDelay needs")
	}
	if n := or(c.SentBuffer, defaultSentBuffer); n&(n-1) != 0 {
		return configError("SentBuffer", n, "is not a power of two, which AckDelay needs")
	}
	return nil
}

// validateRanges checks each number by itself.
func (c *Config) validateRanges() error {
	for _, f := range [...]struct {
		name     string
		value    int
		min, max int
	}{
		{"MaxPacketSize", c.MaxPacketSize, 0, maxMaxFragments * maxFragmentBytes},
		{"FragmentAbove", c.FragmentAbove, 0, maxMaxFragments * maxFragmentBytes},
		{"FragmentSize", c.FragmentSize, 0, maxFragmentBytes},
		{"MaxFragments", c.MaxFragments, 0, maxMaxFragments},
		{"SentBuffer", c.SentBuffer, 0, maxBuffer},
		{"ReceivedBuffer", c.ReceivedBuffer, 0, maxBuffer},
		{"AckBuffer", c.AckBuffer, math.MinInt, 1 << 20},
		{"ReassemblyBuffer", c.ReassemblyBuffer, 0, maxBuffer},
		{"RTTHistory", c.RTTHistory, 0, maxRTTHistory},
		{"PacketHeaderSize", c.PacketHeaderSize, math.MinInt, 1 << 16},
		{"ReassemblyBytes", c.ReassemblyBytes, 0, math.MaxInt},
	} {
		if f.value < f.min {
			return configError(f.name, f.value, "is negative")
		}
		if f.value > f.max {
			return configError(f.name, f.value, "is more than %d", f.max)
		}
	}
	for _, f := range [...]struct {
		name  string
		value float32
	}{
		{"RTTSmoothing", c.RTTSmoothing},
		{"LossSmoothing", c.LossSmoothing},
		{"BandwidthSmoothing", c.BandwidthSmoothing},
	} {
		if !(f.value <= 1) { // refuses NaN too
			return configError(f.name, f.value, "is not in the range 0 to 1")
		}
	}
	return nil
}

func configError(field string, value any, format string, args ...any) error {
	return &ConfigError{field, fmt.Sprintf("%v ", value) + fmt.Sprintf(format, args...)}
}
