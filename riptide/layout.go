package riptide

import "strconv"

// A layout is one of the two encodings of Riptide. Nothing in a datagram tells which.
type layout uint8

const (
	// packed is the stream of bits of the C# library from 2.1.0 to 2.2.1.
	packed layout = iota
	// notes is the layout of whole bytes: Config.NotesLayout.
	notes
)

// A Mode is a way to deliver a message. The zero Mode is that of messages of
// [NewData], which cannot be sent by themselves.
type Mode uint8

const (
	// Unreliable messages may get lost, and arrive in any order. They have no
	// id on the wire: a copy that the network makes arrives, too.
	Unreliable Mode = 1 + iota
	// Notify messages are unreliable, but late ones and copies are dropped.
	// The sender learns which have arrived if the other side sends notify
	// messages, too.
	Notify
	// Reliable messages arrive exactly once, in any order, or the connection ends.
	Reliable

	numModes
)

func (m Mode) String() string {
	return enumName("Mode", int(m), "data", "unreliable", "notify", "reliable")
}

func (m Mode) valid() bool { return m != 0 && m < numModes }

// enumName returns the name of a value, or its number if it has none.
func enumName(typ string, v int, names ...string) string {
	if v < len(names) {
		return names[v]
	}
	return typ + "(" + strconv.Itoa(v) + ")"
}

const (
	// defaultMaxPayload is the largest payload in bytes by default.
	defaultMaxPayload = 1225
	// maxHeaderSize is the size of the longest header, that of a notify message,
	// rounded up to bytes.
	maxHeaderSize = 6
	// maxMaxPayload leaves room for the headers in a UDP datagram.
	maxMaxPayload = 65000
)

// headerBits is the size of the header in bits, without the message id.
func (l layout) headerBits(m Mode) int {
	switch {
	case l == notes && m == Reliable:
		return 24
	case l == notes:
		return 8
	case m == Notify:
		return 44
	case m == Reliable:
		return 20
	}
	return 4
}

// bodyStart is the bit at which a body begins in its first byte: packed headers end within.
func (l layout) bodyStart() int {
	if l == packed {
		return 4
	}
	return 0
}
