package riptide

import "strconv"

// A Layout is one of the two encodings that carry the name Riptide. Nothing in
// a datagram tells them apart, so both ends must be configured alike.
type Layout uint8

const (
	// Packed is the stream of bits of every released C# and Unity library
	// from 2.1.0 to 2.2.1. It is the default.
	Packed Layout = iota
	// Notes is the layout of whole bytes that the notes on Riptide describe.
	// No released C# library speaks it; some ports do.
	Notes
)

func (l Layout) String() string {
	switch l {
	case Packed:
		return "packed"
	case Notes:
		return "notes"
	}
	return "Layout(" + strconv.Itoa(int(l)) + ")"
}

func (l Layout) valid() bool { return l <= Notes }

// A Version tells releases of the C# library apart by what they send. What is
// received is understood in all forms, whatever the Version. It has no meaning
// in the [Notes] layout.
type Version uint8

const (
	// V22 sends what 2.2.1 sends: acks of 5 or 7 bytes, and the bytes 55 00
	// when a server stops. Every release reads its acks. It is the default.
	V22 Version = iota
	// V21 sends what 2.1.0 to 2.1.2 send: acks of 7 bytes, and the bytes
	// 05 05 when a server stops.
	V21
)

func (v Version) String() string {
	switch v {
	case V22:
		return "2.2"
	case V21:
		return "2.1"
	}
	return "Version(" + strconv.Itoa(int(v)) + ")"
}

func (v Version) valid() bool { return v <= V21 }

// A Mode is a way to deliver a message.
type Mode uint8

const (
	// Unreliable messages arrive at most once if the network does not repeat
	// them, in any order, or never. They have no id on the wire, so one that the
	// network repeats cannot be told from an equal one that was sent later.
	Unreliable Mode = iota
	// Notify messages are unreliable, but those that arrive late or twice are
	// dropped, and the sender learns of each whether it is known to have
	// arrived, provided that the other side sends notify messages, too.
	Notify
	// Reliable messages arrive exactly once, in any order, or the connection
	// ends.
	Reliable

	numModes = 3
)

func (m Mode) String() string {
	switch m {
	case Unreliable:
		return "unreliable"
	case Notify:
		return "notify"
	case Reliable:
		return "reliable"
	}
	return "Mode(" + strconv.Itoa(int(m)) + ")"
}

func (m Mode) valid() bool { return m < numModes }

// DefaultMaxPayload is the largest payload in bytes by default. Both ends of a
// connection must use the same.
const DefaultMaxPayload = 1225

const (
	// maxHeaderSize is what the longest header takes, that of a notify
	// message, rounded up to bytes.
	maxHeaderSize = 6
	// maxMaxPayload leaves room for the headers in a UDP datagram.
	maxMaxPayload = 65000
)

// headerBits is the size of the header in bits, without the message id.
func (l Layout) headerBits(m Mode) int {
	switch {
	case l == Notes && m == Reliable:
		return 24
	case l == Notes:
		return 8
	case m == Notify:
		return 44
	case m == Reliable:
		return 20
	}
	return 4
}

// bodyStart is the bit at which the content starts in the first byte of a
// body: headers of the packed layout end in the middle of a byte, all of them.
func (l Layout) bodyStart() int {
	if l == Packed {
		return 4
	}
	return 0
}
