package reliable

import (
	"encoding/binary"
	"math/bits"
)

// Sizes of the wire format in bytes.
const (
	// MinHeaderSize and MaxHeaderSize are the limits of a regular header.
	MinHeaderSize = 4
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

// noBits is an ack_bits field that takes no space on the wire: an absent byte
// means that all eight packets were received.
const noBits = 1<<32 - 1

// A Header is the header of a regular packet.
type Header struct {
	Sequence uint16 // number of this packet
	Ack      uint16 // newest sequence seen from the other side, 65535 if none
	AckBits  uint32 // bit n is set if packet Ack-n was received
}

// heardNothing reports whether the sender of h had seen no packet.
func (h Header) heardNothing() bool { return h.Ack == 65535 && h.AckBits == 0 }

// Size returns the number of bytes of h's encoding, 4 to 9.
func (h Header) Size() int {
	n := 5
	if h.Sequence-h.Ack <= 255 {
		n = 4
	}
	return n + ackBytes(h.AckBits)
}

// ackBytes returns how many bytes of ackBits are not 0xff.
func ackBytes(ackBits uint32) int {
	x := ^ackBits
	x |= x >> 4
	x |= x >> 2
	x |= x >> 1
	return bits.OnesCount32(x & 0x01010101)
}

// AppendHeader appends the encoding of h, the only one a sender may use, to
// dst.
func AppendHeader(dst []byte, h Header) []byte {
	var b [MaxHeaderSize]byte
	return append(dst, b[:h.put(b[:])]...)
}

// put writes h to b, which has room for it, and returns its size.
func (h Header) put(b []byte) int {
	prefix, n := byte(0), 5
	d := h.Sequence - h.Ack
	b[1], b[2], b[3] = byte(h.Sequence), byte(h.Sequence>>8), byte(h.Ack)
	if d <= 255 {
		prefix, n = prefixShortAck, 4
		b[3] = byte(d)
	} else {
		b[4] = byte(h.Ack >> 8)
	}
	if h.AckBits != noBits {
		for i := range 4 {
			if x := byte(h.AckBits >> (8 * i)); x != 0xff {
				prefix |= prefixAckByte0 << i
				b[n] = x
				n++
			}
		}
	}
	b[0] = prefix
	return n
}

// ParseHeader reads the header of the regular packet b and returns the number
// of bytes it takes; what follows is the payload. It accepts encodings that no
// sender uses, as the protocol demands. The error is a FormatError.
func ParseHeader(b []byte) (Header, int, error) {
	h, n, reason := parseHeader(b)
	if reason != 0 {
		return Header{}, 0, reason
	}
	return h, n, nil
}

func parseHeader(b []byte) (h Header, n int, reason FormatError) {
	if len(b) < 3 {
		return h, 0, ErrHeaderShort
	}
	prefix := b[0]
	if prefix&prefixFragment != 0 {
		return h, 0, ErrHeaderIsFragment
	}
	h.Sequence = uint16(b[1]) | uint16(b[2])<<8
	if prefix&prefixShortAck != 0 {
		if len(b) < 4 {
			return h, 0, ErrHeaderShortAck
		}
		h.Ack, n = h.Sequence-uint16(b[3]), 4
	} else {
		if len(b) < 5 {
			return h, 0, ErrHeaderShortAck
		}
		h.Ack, n = uint16(b[3])|uint16(b[4])<<8, 5
	}
	h.AckBits = noBits
	if prefix&prefixAckBytes == 0 {
		return h, n, 0
	}
	return h.parseAckBits(b, n)
}

// parseAckBits reads the present bytes of ack_bits from b[n:].
func (h Header) parseAckBits(b []byte, n int) (Header, int, FormatError) {
	if b[0]&prefixAckBytes == prefixAckBytes && len(b)-n >= 4 {
		h.AckBits = binary.LittleEndian.Uint32(b[n:])
		return h, n + 4, 0
	}
	if len(b)-n < bits.OnesCount8(b[0]&prefixAckBytes) {
		return h, 0, ErrHeaderShortAckBits
	}
	for i := range 4 {
		if b[0]&(prefixAckByte0<<i) != 0 {
			h.AckBits &^= uint32(^b[n]) << (8 * i)
			n++
		}
	}
	return h, n, 0
}
