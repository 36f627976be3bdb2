package riptide

import (
	"encoding/binary"

	"volley/internal/wire"
)

// The notes layout: a byte for the type, a sequence id in reliable types, and
// whole bytes.

func appendNotes(out *wire.Batch, t packetType, header, body []byte) {
	b := out.Extend(1 + len(header) + len(body))
	b[0] = byte(t)
	copy(b[1:], header)
	copy(b[1+len(header):], body)
}

const (
	notesPending = 2 // as a reason to reject: an attempt is waiting already
	// rejectPending is the same in the numbers of packet.reason.
	rejectPending = 0xff
)

// notesMinimum is the size in bytes of the shortest datagram of each type.
var notesMinimum = [numPacketTypes]int{
	typeUnreliable: 3, typeAck: 5, typeConnect: 1, typeReject: 2, typeHeartbeat: 2, typeDisconnect: 2,
	typeNotify: 3, typeReliable: 5, typeWelcome: 5, typeClientConnected: 5, typeClientDisconnected: 5,
}

// parseNotes implements codec.parse for the notes layout.
func parseNotes(b []byte) (p packet, ok bool) {
	if len(b) == 0 || packetType(b[0]) >= numPacketTypes || len(b) < notesMinimum[b[0]] {
		return p, false
	}
	p.typ = packetType(b[0])
	b = b[1:]
	if p.typ.reliable() {
		p.seq = binary.LittleEndian.Uint16(b)
		b = b[2:]
	}
	switch p.typ {
	case typeUnreliable, typeConnect, typeNotify, typeReliable:
		p.body = b
	case typeAck:
		p.ack = ack{newest: binary.LittleEndian.Uint16(b), bits: binary.LittleEndian.Uint16(b[2:])}
	case typeReject:
		p.reason, p.body = notesReject(b[0]), b[1:]
	case typeDisconnect:
		p.reason, p.body = b[0], b[1:]
	case typeHeartbeat:
		p.pingID, p.rtt = b[0], noRTT
		if len(b) >= 3 {
			p.rtt = int16(binary.LittleEndian.Uint16(b[1:]))
		}
	default:
		p.client = binary.LittleEndian.Uint16(b)
	}
	return p, true
}

// notesReject translates a reason to the numbers of the packed layout.
func notesReject(r uint8) uint8 {
	switch {
	case r == notesPending:
		return rejectPending
	case r > notesPending:
		return r - 1
	}
	return r
}
