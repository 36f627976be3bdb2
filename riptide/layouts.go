package riptide

import (
	"encoding/binary"

	"volley/internal/wire"
)

// The packed layout: a header of 4 bits, and what follows from there on, lowest
// bit first. Bodies start at bit 4 of a byte, after 4, 12, 20 or 44 bits.

// appendPacked appends a datagram of a header, the low k bytes and a half of h, and a body.
func appendPacked(out *wire.Batch, h uint64, k int, body []byte) {
	if len(body) == 0 { // nothing behind the header, not even half a byte
		appendBytes(out, h, k+1)
		return
	}
	b := out.Extend(k + len(body))
	for i := range k {
		b[i] = byte(h >> (8 * i))
	}
	copy(b[k:], body)
	b[k] = b[k]&0xf0 | byte(h>>(8*k))
}

// appendBytes appends a datagram of the low n bytes of h, at most 8.
func appendBytes(out *wire.Batch, h uint64, n int) {
	b := out.Extend(n)
	for i := range b {
		b[i] = byte(h >> (8 * i))
	}
}

// headerWord returns the first 8 bytes of a datagram, zeros behind its end.
func headerWord(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var w uint64
	for i, c := range b {
		w |= uint64(c) << (8 * i)
	}
	return w
}

// parsePacked implements codec.parse for the packed layout.
func parsePacked(from side, b []byte) (p packet, ok bool) {
	if len(b) == 0 {
		return p, false
	}
	w := headerWord(b)
	p.typ = packetType(w & 0xf)
	if p.typ.reliable() {
		return p, p.parseReliable(w, b)
	}
	need := 1
	switch p.typ {
	case typeUnreliable:
		p.body, need = b, 2
	case typeAck:
		p.ack = ack{newest: uint16(w >> 4), bits: uint16(w >> 20), id: uint16(w >> 37), has: w>>36&1 == 1}
		need = 5
		if p.ack.has {
			need = 7
		} else {
			p.ack.id = 0 // 2.1 fills it, and it says nothing
		}
	case typeConnect:
		p.body = b
	case typeReject:
		p.reason, need = uint8(w>>4), 2
		p.body = after(b, 1)
	case typeHeartbeat:
		p.pingID, need = uint8(w>>4), 2
		p.rtt = noRTT
		if from == clientSide {
			p.rtt, need = int16(w>>12), 4
		}
	case typeDisconnect:
		if from == serverSide {
			p.parseDisconnect(w, b)
			need = 2
		}
	case typeNotify:
		p.ack = ack{newest: uint16(w >> 4), bits: uint16(w >> 20 & 0xff)}
		p.seq, need = uint16(w>>28), 6
		p.body = after(b, 5)
	default:
		return p, false
	}
	return p, len(b) >= need
}

// parseReliable parses what follows the header of a reliable type.
func (p *packet) parseReliable(w uint64, b []byte) bool {
	p.seq = uint16(w >> 4)
	if p.typ == typeReliable {
		p.body = after(b, 2)
		return len(b) >= 4
	}
	p.client = uint16(w >> 20)
	return len(b) >= 5
}

// parseDisconnect parses what a server says at the end.
func (p *packet) parseDisconnect(w uint64, b []byte) {
	p.reason = uint8(w >> 4)
	if len(b) == 2 && p.reason == byte(endStopped)<<4 {
		p.reason = byte(endStopped) // written past the packer of bits by 2.1.0 to 2.2.0
	}
	p.body = after(b, 1)
}

// after returns b from byte n on, nil if there is none.
func after(b []byte, n int) []byte {
	if len(b) <= n {
		return nil
	}
	return b[n:]
}

// The notes layout: a byte for the type, a sequence id in reliable types, and whole bytes.

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
