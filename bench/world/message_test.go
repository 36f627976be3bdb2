package world

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
)

// A message says which flow it belongs to, its number there, and what it asks of its reader.
type message struct {
	flow, n uint32
	size    int // in bytes, with the header
	answer  int // the size of the message that the reader sends back; 0: none
}

const (
	headerSize  = 20
	largestSize = 16384
	shifts      = 256 // how many texts there are
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	text       = func() []byte {
		b := make([]byte, largestSize+shifts)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}()
)

// appendTo appends the bytes of the message: a checksum of all behind it, the header, and text.
func (m message) appendTo(b []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, m.flow)
	b = binary.LittleEndian.AppendUint32(b, m.n)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.size))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.answer))
	shift := int(m.n % shifts)
	b = append(b, text[shift:shift+m.size-headerSize]...)
	binary.LittleEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli))
	return b
}

// parseMessage returns the message that b is, or false if b is not as it was written.
func parseMessage(b []byte) (m message, intact bool) {
	if len(b) < headerSize || len(b) > largestSize || binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return message{}, false
	}
	m = message{
		flow: binary.LittleEndian.Uint32(b[4:]), n: binary.LittleEndian.Uint32(b[8:]),
		size: int(binary.LittleEndian.Uint32(b[12:])), answer: int(binary.LittleEndian.Uint32(b[16:])),
	}
	shift := int(m.n % shifts)
	return m, m.size == len(b) && bytes.Equal(b[headerSize:], text[shift:shift+len(b)-headerSize])
}
