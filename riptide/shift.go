package riptide

import "encoding/binary"

// shiftWords shifts n bytes that stand from b[1] on left by some bits, to b[0],
// in words of 8. It returns how many bytes it has done and the bits that belong
// to the next one.
func shiftWords(b []byte, n, shift int, carry byte) (done int, rest byte) {
	c := uint64(carry)
	for n-done >= 8 {
		w := binary.LittleEndian.Uint64(b[done+1:])
		binary.LittleEndian.PutUint64(b[done:], w<<shift|c)
		c = w >> (64 - shift)
		done += 8
	}
	return done, byte(c)
}
