package dissect

import (
	"encoding/binary"
	"fmt"
)

// maxRiptide is the longest datagram on a stream of Riptide that this package believes.
const maxRiptide = 65000 + 6

// Next returns the length of a stream's first datagram; 0: b is too short; error: none begins.
func Next(p Protocol, b []byte) (n int, err error) {
	var prefix int
	var length int64
	switch p {
	case Riptide:
		prefix = 4
	case RiptideNotes, Netplay:
		prefix = 2
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
	}
	if p.family() == "riptide" && (length <= 0 || length > maxRiptide) || p.family() == "netplay" && length < 3 {
		return 0, fmt.Errorf("a datagram of %d bytes is announced", length)
	}
	return prefix + int(length), nil
}
