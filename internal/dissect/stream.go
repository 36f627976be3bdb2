package dissect

import (
	"encoding/binary"
	"fmt"
)

// maxRiptide is the longest datagram that a stream of Riptide may hold, in
// bytes, as far as this package looks: applications may set a limit of their own.
const maxRiptide = 65000 + 6

// Next returns the length of the first datagram on a stream of the protocol,
// what is in front of it included, or 0 if b does not tell yet. The error says
// that no datagram begins there, after which nothing on the stream can be found.
func Next(p Protocol, b []byte) (n int, err error) {
	var prefix int
	var length int64
	switch p {
	case Riptide:
		prefix = 4
	case RiptideNotes, Netplay:
		prefix = 2
	case NetplayV4:
		prefix = 3
	default:
		return 0, fmt.Errorf("%s does not travel over TCP", p)
	}
	if len(b) < prefix {
		return 0, nil
	}
	switch p {
	case Riptide:
		length = int64(int32(binary.LittleEndian.Uint32(b)))
	case RiptideNotes:
		length = int64(binary.LittleEndian.Uint16(b))
	case Netplay:
		length = int64(binary.BigEndian.Uint16(b))
	case NetplayV4:
		length = int64(binary.BigEndian.Uint16(b[1:]))
		if h := b[0] & 0xc0; h != 0 && h != 0x40 {
			return 0, fmt.Errorf("a chunk continues (0x%02x) what has not begun", b[0])
		}
	}
	if p.family() == "riptide" && (length <= 0 || length > maxRiptide) || p.family() == "netplay" && length < 3 {
		return 0, fmt.Errorf("a datagram of %d bytes is announced", length)
	}
	n = prefix + int(length)
	if p == NetplayV4 {
		n = 2 + int(length) + (int(length)+1024)/1023
	}
	return n, nil
}
