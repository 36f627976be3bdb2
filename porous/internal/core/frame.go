package core

import (
	"encoding/binary"
)

// The wire format: one frame a datagram, big-endian, the type in the first
// byte. A frame must be consumed exactly.

// A FrameType is the first byte of a datagram. Types above TypeDataAck are
// reserved and ignored.
type FrameType byte

const (
	TypeConnect FrameType = iota
	TypeConnectAck
	TypeDisconnect
	TypeDisconnectAck
	TypePing
	TypePingAck
	TypeData
	TypeDataAck
)

// Sizes in bytes of whole frames, or of what comes before their lists.
const (
	ConnectSize       = 11
	ConnectAckSize    = 5
	DisconnectSize    = 1
	DisconnectAckSize = 1
	PingSize          = 3
	DataHeaderSize    = 7
	DataAckHeaderSize = 3
	frameIDSize       = 4
)

// MTUs in bytes of UDP payload.
const (
	MTU0 = 1472 // of version 0: a packet of 1500 bytes with IPv4
	MTU1 = 1200 // of version 1: through tunnels, IPv6 and a layer that seals

	MTUSecure = 1199 // of version 1 on a session of package secure, which has a byte of its own
)

// A Connect is a connection request.
type Connect struct {
	Version   uint8
	Channels  int    // 1 to 256
	Bandwidth uint32 // the most that the sender wants to receive, in bytes/s
	ID        uint32
}

// AppendConnect appends the frame of a request.
func AppendConnect(b []byte, c Connect) []byte {
	b = append(b, byte(TypeConnect), c.Version, byte(c.Channels-1))
	b = binary.BigEndian.AppendUint32(b, c.Bandwidth)
	return binary.BigEndian.AppendUint32(b, c.ID)
}

// ParseConnect parses a connect frame.
func ParseConnect(b []byte) (c Connect, ok bool) {
	if len(b) != ConnectSize || FrameType(b[0]) != TypeConnect {
		return c, false
	}
	return Connect{
		Version:   b[1],
		Channels:  int(b[2]) + 1,
		Bandwidth: binary.BigEndian.Uint32(b[3:]),
		ID:        binary.BigEndian.Uint32(b[7:]),
	}, true
}

// AppendConnectAck appends the acknowledgement of the request id.
func AppendConnectAck(b []byte, id uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, byte(TypeConnectAck)), id)
}

// ParseConnectAck parses a connect_ack frame.
func ParseConnectAck(b []byte) (id uint32, ok bool) {
	if len(b) != ConnectAckSize || FrameType(b[0]) != TypeConnectAck {
		return 0, false
	}
	return binary.BigEndian.Uint32(b[1:]), true
}

// AppendDisconnect appends a request to end.
func AppendDisconnect(b []byte) []byte { return append(b, byte(TypeDisconnect)) }

// AppendDisconnectAck appends its acknowledgement.
func AppendDisconnectAck(b []byte) []byte { return append(b, byte(TypeDisconnectAck)) }

// ParseBare reports whether b is the frame of a type without content.
func ParseBare(b []byte, t FrameType) bool { return len(b) == 1 && FrameType(b[0]) == t }

// AppendPing appends a ping, or its answer with the type TypePingAck.
func AppendPing(b []byte, t FrameType, id uint16) []byte {
	return binary.BigEndian.AppendUint16(append(b, byte(t)), id)
}

// ParsePing parses a frame of type TypePing or TypePingAck.
func ParsePing(b []byte, t FrameType) (id uint16, ok bool) {
	if len(b) != PingSize || FrameType(b[0]) != t {
		return 0, false
	}
	return binary.BigEndian.Uint16(b[1:]), true
}

// AppendDataHeader appends what comes before the messages of a data frame.
func AppendDataHeader(b []byte, id uint32, messages int) []byte {
	b = binary.BigEndian.AppendUint32(append(b, byte(TypeData)), id)
	return binary.BigEndian.AppendUint16(b, uint16(messages))
}

// ParseData parses a data frame, and checks all messages of body. See NextMessage.
func ParseData(b []byte) (id uint32, messages int, body []byte, ok bool) {
	if len(b) < DataHeaderSize || FrameType(b[0]) != TypeData {
		return 0, 0, nil, false
	}
	id = binary.BigEndian.Uint32(b[1:])
	messages = int(binary.BigEndian.Uint16(b[5:]))
	body = b[DataHeaderSize:]
	rest := body
	for range messages {
		n := messageSize(rest)
		if n == 0 {
			return 0, 0, nil, false
		}
		rest = rest[n:]
	}
	return id, messages, body, len(rest) == 0
}

// AppendDataAck appends the acknowledgement of frames.
func AppendDataAck(b []byte, ids []uint32) []byte {
	b = binary.BigEndian.AppendUint16(append(b, byte(TypeDataAck)), uint16(len(ids)))
	for _, id := range ids {
		b = binary.BigEndian.AppendUint32(b, id)
	}
	return b
}

// ParseDataAck parses a data_ack frame. FrameID takes the ids from list.
func ParseDataAck(b []byte) (list []byte, ok bool) {
	if len(b) < DataAckHeaderSize || FrameType(b[0]) != TypeDataAck {
		return nil, false
	}
	list = b[DataAckHeaderSize:]
	return list, len(list) == frameIDSize*int(binary.BigEndian.Uint16(b[1:]))
}

// FrameID returns the first id of a list that has one.
func FrameID(list []byte) (id uint32, rest []byte) {
	return binary.BigEndian.Uint32(list), list[frameIDSize:]
}

// Packet ids are numbers modulo 2^24, frame ids modulo 2^32. Distances are
// taken forwards and compared with a window's size.

const packetIDs = 1 << 24

// packetLead returns how far the packet id lies ahead of base.
func packetLead(id, base uint32) uint32 { return (id - base) & (packetIDs - 1) }

func nextPacket(id uint32) uint32 { return (id + 1) & (packetIDs - 1) }

// closes reports whether id is the last of its group of n.
func closes(id, n uint32) bool { return id%n == n-1 }
