package reliable

import (
	"encoding/binary"
	"math/bits"
)

// Sizes of the wire format in bytes.
const (
	// MaxHeaderSize is the most that a regular header takes, of 4 and more.
	MaxHeaderSize = 9
	// FragmentHeaderSize is the size of a fragment header. In fragment 0 a
	// regular header follows it.
	FragmentHeaderSize = 5
)

// The prefix byte of a regular packet.
const (
	prefixFragment = 1 << 0 // a fragment, not a regular packet
	prefixAckByte0 = 1 << 1 // byte 0 of ack_bits is present; bytes 1 to 3 follow
	prefixAckBytes = 0xf * prefixAckByte0
	prefixShortAck = 1 << 5 // ack is one byte: the distance from sequence
)

// noBits is an ack_bits field without bytes: all eight packets were received.
const noBits = 1<<32 - 1

// A Header is the header of a regular packet.
type Header struct {
	Sequence uint16 // number of this packet
	Ack      uint16 // newest sequence seen from the other side, 65535 if none
	AckBits  uint32 // bit n is set if packet Ack-n was received
}

// heardNothing reports whether the sender of h had seen no packet.
func (h Header) heardNothing() bool { return h.Ack == 65535 && h.AckBits == 0 }

// newestNamed returns the newest packet that h acknowledges, if it acknowledges any.
func (h Header) newestNamed() uint16 { return h.Ack - uint16(bits.TrailingZeros32(h.AckBits)) }

// size returns the number of bytes of h's encoding, 4 to 9.
func (h Header) size() int {
	n := 5
	if h.Sequence-h.Ack <= 255 {
		n = 4
	}
	return n + bits.OnesCount32(partial(h.AckBits))
}

// partial returns a value with bit 8*i set for each byte i of ackBits that is not 0xff.
func partial(ackBits uint32) uint32 {
	x := ^ackBits
	x |= x >> 4
	x |= x >> 2
	x |= x >> 1
	return x & 0x01010101
}

// prefix returns the first byte of h's only legal encoding.
func (h Header) prefix() byte {
	p := byte(partial(h.AckBits)*0x10204080>>28&0xf) << 1 // gathers the four bits
	if h.Sequence-h.Ack <= 255 {
		p |= prefixShortAck
	}
	return p
}

// AppendHeader appends the encoding of h, the only one a sender may use, to
// dst.
func AppendHeader(dst []byte, h Header) []byte {
	var b [MaxHeaderSize]byte
	return append(dst, b[:h.put(b[:])]...)
}

// put writes h to b, which has room for it, and returns its size.
func (h Header) put(b []byte) int {
	prefix := h.prefix()
	_ = b[3]
	b[0], b[1], b[2] = prefix, byte(h.Sequence), byte(h.Sequence>>8)
	n := 4
	if prefix&prefixShortAck != 0 {
		b[3] = byte(h.Sequence - h.Ack)
	} else {
		b[3], b[4] = byte(h.Ack), byte(h.Ack>>8)
		n = 5
	}
	if prefix&prefixAckBytes == 0 {
		return n
	}
	for i := range 4 {
		if prefix&(prefixAckByte0<<i) != 0 {
			b[n] = byte(h.AckBits >> (8 * i))
			n++
		}
	}
	return n
}

// ParseHeader reads the header of the regular packet b and returns the number
// of bytes it takes; what follows is the payload. It accepts encodings that no
// sender uses, as the protocol demands. The error is a FormatError.
func ParseHeader(b []byte) (Header, int, error) {
	h, n, reason := parseHeader(b)
	if reason != "" {
		return Header{}, 0, reason
	}
	return h, n, nil
}

func parseHeader(b []byte) (h Header, n int, reason FormatError) {
	if len(b) < 3 {
		return h, 0, errHeaderShort
	}
	prefix := b[0]
	if prefix&prefixFragment != 0 {
		return h, 0, errHeaderIsFragment
	}
	h.Sequence = uint16(b[1]) | uint16(b[2])<<8
	if prefix&prefixShortAck != 0 {
		if len(b) < 4 {
			return h, 0, errHeaderShortAck
		}
		h.Ack, n = h.Sequence-uint16(b[3]), 4
	} else {
		if len(b) < 5 {
			return h, 0, errHeaderShortAck
		}
		h.Ack, n = uint16(b[3])|uint16(b[4])<<8, 5
	}
	h.AckBits = noBits
	if prefix&prefixAckBytes == 0 {
		return h, n, ""
	}
	return h.parseAckBits(b, n)
}

// parseAckBits reads the present bytes of ack_bits from b[n:].
func (h Header) parseAckBits(b []byte, n int) (Header, int, FormatError) {
	if b[0]&prefixAckBytes == prefixAckBytes && len(b)-n >= 4 {
		h.AckBits = binary.LittleEndian.Uint32(b[n:])
		return h, n + 4, ""
	}
	if len(b)-n < bits.OnesCount8(b[0]&prefixAckBytes) {
		return h, 0, errHeaderShortAckBits
	}
	for i := range 4 {
		if b[0]&(prefixAckByte0<<i) != 0 {
			h.AckBits &^= uint32(^b[n]) << (8 * i)
			n++
		}
	}
	return h, n, ""
}

// patient returns the header of an empty packet that does not tell when Ack arrived.
func (h Header) patient() Header {
	if h.AckBits&1 != 0 {
		h.Ack++
		h.AckBits <<= 1
	}
	return h
}

// plain undoes patient.
func (h Header) plain() Header {
	if h.AckBits&3 == 2 {
		h.Ack--
		h.AckBits >>= 1
	}
	return h
}
