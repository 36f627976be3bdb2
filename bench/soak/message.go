package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
)

// A side is one of the two ends of a connection.
type side uint8

const (
	client side = iota
	server
)

func (s side) String() string {
	if s == client {
		return "client"
	}
	return "server"
}

// A name says which connection a message is from: the place of the client among
// all clients, the side that writes, and which connection of that side it is.
type name struct {
	slot       int
	from       side
	generation uint32
}

// A message is a checksum of all behind it, the name, the length, the number of
// the message on its connection, and text that differs from number to number.
const (
	headerSize  = 4 + 2 + 1 + 1 + 4 + 4 + 8
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

// appendMessage appends message n of a connection, of the given size in bytes.
func appendMessage(b []byte, of name, n uint64, size int) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(of.slot))
	b = append(b, byte(of.from), 0)
	b = binary.LittleEndian.AppendUint32(b, of.generation)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint64(b, n)
	shift := int(n % shifts)
	b = append(b, text[shift:shift+size-headerSize]...)
	binary.LittleEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli))
	return b
}

// parseMessage returns whose message b is and its number, or false if it is not
// as it was written.
func parseMessage(b []byte) (of name, n uint64, intact bool) {
	if len(b) < headerSize || binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return name{}, 0, false
	}
	of = name{int(binary.LittleEndian.Uint16(b[4:])), side(b[6]), binary.LittleEndian.Uint32(b[8:])}
	n = binary.LittleEndian.Uint64(b[16:])
	shift := int(n % shifts)
	intact = of.from <= server && binary.LittleEndian.Uint32(b[12:]) == uint32(len(b)) &&
		bytes.Equal(b[headerSize:], text[shift:shift+len(b)-headerSize])
	return of, n, intact
}
