package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// Messages begin with the number of the client and of the message, and the
// time of sending where latency is measured. The rest is the same in all.
const (
	headerSize  = 16
	helloNumber = 1<<48 - 1 // of a client's first message, which is sent back
	largestSize = 1 << 16
)

var content = func() []byte {
	b := make([]byte, largestSize)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}()

// newMessage returns a message of size bytes.
func newMessage(size int) []byte { return bytes.Clone(content[:size]) }

// number sets the header of a message.
func number(msg []byte, client int, n uint64) {
	binary.LittleEndian.PutUint64(msg, uint64(client)<<48|n)
	binary.LittleEndian.PutUint64(msg[8:], 0)
}

// stampAt makes a message carry a time.
func stampAt(msg []byte, t time.Time) {
	binary.LittleEndian.PutUint64(msg[8:], uint64(t.UnixNano()))
}

// stamp makes a message carry the present time.
func stamp(msg []byte) { stampAt(msg, time.Now()) }

// inspect returns the header of a message, and whether all of it is intact. A
// time of zero is none.
func inspect(msg []byte, size int) (client int, n, sent uint64, ok bool) {
	if len(msg) != size || !bytes.Equal(msg[headerSize:], content[headerSize:size]) {
		return 0, 0, 0, false
	}
	id := binary.LittleEndian.Uint64(msg)
	return int(id >> 48), id & helloNumber, binary.LittleEndian.Uint64(msg[8:]), true
}
