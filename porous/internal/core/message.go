package core

import "encoding/binary"

// A MessageType is the first byte of a message in a data frame.
type MessageType byte

const (
	MessageFragment MessageType = iota
	MessageSentinel
	MessageWindowAck
)

// Sizes in bytes of messages; that of a fragment without its data.
const (
	FragmentHeaderSize = 13
	SentinelSize       = 7
	WindowAckSize      = 5
)

// MaxFragments is the most fragments of one packet.
const MaxFragments = 1 << 16

// FragmentSize returns the most data in bytes that a fragment carries.
func FragmentSize(mtu int) int { return mtu - DataHeaderSize - FragmentHeaderSize }

// A Message is part of a data frame.
type Message struct {
	Type     MessageType
	Channel  uint8
	Packet   uint32 // 24 bits
	Lead     uint16 // distance to the packet it depends on, 0: none; not of a window_ack
	Fragment uint16 // this and the next two: of a fragment only
	Last     uint16
	Data     []byte
}

// Size returns the bytes of m on the wire.
func (m *Message) Size() int {
	switch m.Type {
	case MessageFragment:
		return FragmentHeaderSize + len(m.Data)
	case MessageSentinel:
		return SentinelSize
	default:
		return WindowAckSize
	}
}

// AppendMessage appends m.
func AppendMessage(b []byte, m *Message) []byte {
	b = append(b, byte(m.Type), m.Channel, byte(m.Packet>>16), byte(m.Packet>>8), byte(m.Packet))
	if m.Type == MessageWindowAck {
		return b
	}
	b = binary.BigEndian.AppendUint16(b, m.Lead)
	if m.Type == MessageSentinel {
		return b
	}
	b = binary.BigEndian.AppendUint16(b, m.Fragment)
	b = binary.BigEndian.AppendUint16(b, m.Last)
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.Data)))
	return append(b, m.Data...)
}

// NextMessage takes the first message from the body of a data frame. Its Data
// is part of b.
func NextMessage(b []byte) (m Message, rest []byte, ok bool) {
	if len(b) < WindowAckSize {
		return m, nil, false
	}
	m.Type, m.Channel = MessageType(b[0]), b[1]
	m.Packet = uint32(b[2])<<16 | uint32(b[3])<<8 | uint32(b[4])
	switch {
	case m.Type == MessageWindowAck:
		return m, b[WindowAckSize:], true
	case m.Type > MessageWindowAck || len(b) < SentinelSize:
		return m, nil, false
	}
	m.Lead = binary.BigEndian.Uint16(b[5:])
	if m.Type == MessageSentinel {
		return m, b[SentinelSize:], true
	}
	if len(b) < FragmentHeaderSize {
		return m, nil, false
	}
	m.Fragment = binary.BigEndian.Uint16(b[7:])
	m.Last = binary.BigEndian.Uint16(b[9:])
	end := FragmentHeaderSize + int(binary.BigEndian.Uint16(b[11:]))
	if len(b) < end {
		return m, nil, false
	}
	m.Data = b[FragmentHeaderSize:end:end]
	return m, b[end:], true
}
