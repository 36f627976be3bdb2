package riptide

import "volley/internal/wire"

// A packetType is the kind of a datagram, by its number in both layouts.
type packetType uint8

const (
	typeUnreliable packetType = iota
	typeAck
	typeConnect
	typeReject
	typeHeartbeat
	typeDisconnect
	typeNotify
	typeReliable
	typeWelcome
	typeClientConnected
	typeClientDisconnected

	numPacketTypes
)

// reliable reports whether datagrams of the type have a sequence id and are acknowledged.
func (t packetType) reliable() bool { return t >= typeReliable && t < numPacketTypes }

// typeOf returns the type of user messages of a mode.
func typeOf(m Mode) packetType {
	switch m {
	case Notify:
		return typeNotify
	case Reliable:
		return typeReliable
	}
	return typeUnreliable
}

// modeOf returns the mode of user messages of a type.
func modeOf(typ packetType) Mode {
	switch typ {
	case typeNotify:
		return Notify
	case typeReliable:
		return Reliable
	}
	return Unreliable
}

// An ack says which messages have been received: the newest id, and in bit i
// newest-1-i. Acks of reliable messages have 16 bits, of notify messages 8.
type ack struct {
	newest uint16
	bits   uint16
	// id is a message acknowledged beside these, if has is set.
	id  uint16
	has bool
}

// noRTT says in a heartbeat that no round-trip time is known yet.
const noRTT = -1

// A packet is a parsed datagram. Which fields are set depends on the type.
type packet struct {
	typ    packetType
	reason uint8  // in numbers of the packed layout
	pingID uint8  // heartbeat
	seq    uint16 // reliable types and notify
	client uint16 // welcome, client connected, client disconnected
	rtt    int16  // of the heartbeat's sender in ms, or noRTT
	ack    ack    // ack and notify
	// body is the user's part: message id and payload, or data. In the packed
	// layout it starts at bit 4 of its first byte, whose low bits are not its
	// own.
	body []byte
}

// A side is one end of a connection.
type side uint8

const (
	clientSide side = iota
	serverSide
)

// A codec appends and parses datagrams of one layout.
type codec struct {
	layout layout
	v21    bool // send what 2.1.0 to 2.1.2 send
}

// parse takes apart a datagram of the given side, or reports false.
func (c codec) parse(from side, b []byte) (packet, bool) {
	if c.layout == notes {
		return parseNotes(b)
	}
	return parsePacked(from, b)
}

func (c codec) appendReliable(out *wire.Batch, t packetType, seq uint16, body []byte) {
	if c.layout == notes {
		appendNotes(out, t, []byte{byte(seq), byte(seq >> 8)}, body)
		return
	}
	appendPacked(out, uint64(t)|uint64(seq)<<4, 2, body)
}

// appendNotify appends a notify message. The notes layout has neither sequence id nor acks.
func (c codec) appendNotify(out *wire.Batch, seq uint16, a ack, body []byte) {
	if c.layout == notes {
		appendNotes(out, typeNotify, nil, body)
		return
	}
	h := uint64(typeNotify) | uint64(a.newest)<<4 | uint64(a.bits&0xff)<<20 | uint64(seq)<<28
	appendPacked(out, h, 5, body)
}

// idBody returns the body of a datagram that names a client.
func (c codec) idBody(client uint16) [3]byte {
	if c.layout == notes {
		return [3]byte{byte(client), byte(client >> 8)}
	}
	return [3]byte{byte(client << 4), byte(client >> 4), byte(client >> 12)}
}

// idBodySize returns the size of the body of a datagram that names a client.
func (c codec) idBodySize() int {
	if c.layout == notes {
		return 2
	}
	return 3
}

// appendAck appends an acknowledgement of reliable messages.
func (c codec) appendAck(out *wire.Batch, a ack) {
	if c.layout == notes {
		appendNotes(out, typeAck, []byte{byte(a.newest), byte(a.newest >> 8), byte(a.bits), byte(a.bits >> 8)}, nil)
		return
	}
	h := uint64(typeAck) | uint64(a.newest)<<4 | uint64(a.bits)<<20
	switch {
	case a.has:
		appendBytes(out, h|1<<36|uint64(a.id)<<37, 7)
	case c.v21:
		appendBytes(out, h|uint64(a.newest)<<37, 7)
	default:
		appendBytes(out, h, 5)
	}
}

// appendConnect appends a connect. A server's, "pending", has no data.
func (c codec) appendConnect(out *wire.Batch, data []byte) { c.appendBody(out, typeConnect, data) }

func (c codec) appendUnreliable(out *wire.Batch, body []byte) {
	c.appendBody(out, typeUnreliable, body)
}

func (c codec) appendBody(out *wire.Batch, t packetType, body []byte) {
	if c.layout == notes {
		appendNotes(out, t, nil, body)
		return
	}
	appendPacked(out, uint64(t), 0, body)
}

func (c codec) appendReject(out *wire.Batch, r rejectReason, data []byte) {
	if c.layout == notes {
		if r >= rejectFull {
			r++ // the notes have one more, pending
		}
		appendNotes(out, typeReject, []byte{byte(r)}, data)
		return
	}
	appendPacked(out, uint64(typeReject)|uint64(r)<<4, 1, data)
}

// appendDisconnect appends a disconnect by the server, with data if there is any.
func (c codec) appendDisconnect(out *wire.Batch, r endReason, data []byte) {
	switch {
	case c.layout == notes:
		appendNotes(out, typeDisconnect, []byte{byte(r)}, data)
	case r == endStopped && c.v21:
		out.Append([]byte{byte(typeDisconnect), byte(endStopped)})
	default:
		appendPacked(out, uint64(typeDisconnect)|uint64(r)<<4, 1, data)
	}
}

func (c codec) appendLeave(out *wire.Batch) {
	if c.layout == notes {
		appendNotes(out, typeDisconnect, []byte{byte(endLeft)}, nil)
		return
	}
	appendBytes(out, uint64(typeDisconnect), 1)
}

// appendHeartbeat appends a heartbeat. A server's has no round-trip time if packed.
func (c codec) appendHeartbeat(out *wire.Batch, from side, ping uint8, rtt int16) {
	switch {
	case c.layout == notes:
		appendNotes(out, typeHeartbeat, []byte{ping, byte(rtt), byte(uint16(rtt) >> 8)}, nil)
	case from == serverSide:
		appendBytes(out, uint64(typeHeartbeat)|uint64(ping)<<4, 2)
	default:
		appendBytes(out, uint64(typeHeartbeat)|uint64(ping)<<4|uint64(uint16(rtt))<<12, 4)
	}
}
