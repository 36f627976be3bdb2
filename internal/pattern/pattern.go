// Package pattern makes messages that tests can tell apart and check.
package pattern

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// New returns a message of a size that begins with its number, from which the rest follows.
func New(number uint32, size int) []byte {
	b := make([]byte, size)
	Fill(b, number)
	return b
}

// Fill makes b the message with that number.
func Fill(b []byte, number uint32) {
	x := number
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	if len(b) >= 4 {
		binary.BigEndian.PutUint32(b, number)
	}
}

// Check returns the number of a message of at least four bytes, or an error if it is damaged.
func Check(b []byte) (uint32, error) {
	if len(b) < 4 {
		return 0, fmt.Errorf("message of %d bytes", len(b))
	}
	n := binary.BigEndian.Uint32(b)
	if !bytes.Equal(b, New(n, len(b))) {
		return n, fmt.Errorf("message %d of %d bytes is corrupt", n, len(b))
	}
	return n, nil
}
