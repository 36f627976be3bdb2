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

// AppendMessage appends m.
func AppendMessage(b []byte, m *Message) []byte {
	var head [FragmentHeaderSize]byte
	n := m.putHeader(&head)
	if b = append(b, head[:n]...); n < FragmentHeaderSize {
		return b // only fragments have Data
	}
	return append(b, m.Data...)
}

// putHeader writes all of m but its Data, and returns how many bytes that are.
func (m *Message) putHeader(b *[FragmentHeaderSize]byte) int {
	b[0] = byte(m.Type)
	binary.BigEndian.PutUint32(b[1:], uint32(m.Channel)<<24|m.Packet&(packetIDs-1))
	if m.Type == MessageWindowAck {
		return WindowAckSize
	}
	binary.BigEndian.PutUint16(b[5:], m.Lead)
	if m.Type == MessageSentinel {
		return SentinelSize
	}
	binary.BigEndian.PutUint16(b[7:], m.Fragment)
	binary.BigEndian.PutUint16(b[9:], m.Last)
	binary.BigEndian.PutUint16(b[11:], uint16(len(m.Data)))
	return FragmentHeaderSize
}

// NextMessage takes the first message from the body of a data frame. Its Data is part of b.
func NextMessage(b []byte) (m Message, rest []byte, ok bool) {
	n := messageSize(b)
	if n == 0 {
		return m, nil, false
	}
	m.parse(b[:n:n])
	return m, b[n:], true
}

// messageSize returns the size of the first message of b, 0 if there is no whole one.
func messageSize(b []byte) (n int) {
	if len(b) < WindowAckSize {
		return 0
	}
	switch MessageType(b[0]) {
	case MessageFragment:
		if len(b) < FragmentHeaderSize {
			return 0
		}
		n = FragmentHeaderSize + int(binary.BigEndian.Uint16(b[11:]))
	case MessageSentinel:
		n = SentinelSize
	case MessageWindowAck:
		n = WindowAckSize
	}
	if len(b) < n {
		return 0
	}
	return n
}

// parse reads a message from exactly its bytes, by messageSize.
func (m *Message) parse(b []byte) {
	m.Type, m.Channel = MessageType(b[0]), b[1]
	m.Packet = binary.BigEndian.Uint32(b[1:]) & (packetIDs - 1)
	m.Lead, m.Fragment, m.Last, m.Data = 0, 0, 0, nil
	if m.Type == MessageWindowAck {
		return
	}
	m.Lead = binary.BigEndian.Uint16(b[5:])
	if m.Type == MessageSentinel {
		return
	}
	m.Fragment = binary.BigEndian.Uint16(b[7:])
	m.Last = binary.BigEndian.Uint16(b[9:])
	m.Data = b[FragmentHeaderSize:]
}
