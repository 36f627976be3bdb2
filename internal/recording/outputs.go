package recording

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"time"

	"volley/internal/wire"
)

// Kinds of outputs. A core's answer to a call is a sequence of them.
const (
	outDatagram  = 1 + iota // data
	outDelivered            // number, length, CRC-32C of the bytes (4, or 0 where payloads are omitted)
	outFate                 // id, fate, round-trip time (varint)
	outResult               // value (varint)
	outAsked                // bytes of memory asked for
)

// Outputs collects what a core answers to a call. A recording and a replay use the
// same methods, so they are the same if the bytes are. The zero value is empty and
// ready to use; a nil *Outputs keeps nothing.
type Outputs struct {
	buf  []byte
	omit bool
}

// Datagram adds a sent datagram, of which the first head bytes are no message.
func (o *Outputs) Datagram(b []byte, head int) {
	if o == nil {
		return
	}
	o.buf = appendData(append(o.buf, outDatagram), b, o.keep(b, head))
}

// Sent adds the datagrams of a batch from number n on, nil for none. See Datagram for head.
func (o *Outputs) Sent(b *wire.Batch, n int, head func([]byte) int) {
	if o == nil || b == nil {
		return
	}
	for ; n < b.Len(); n++ {
		o.Datagram(b.At(n), head(b.At(n)))
	}
}

// Reset makes o empty again.
func (o *Outputs) Reset(omit bool) { o.buf, o.omit = o.buf[:0], omit }

// Bytes returns what was added, valid until the next change.
func (o *Outputs) Bytes() []byte { return o.buf }

// Delivered adds a message for the application, with its number or its channel's.
func (o *Outputs) Delivered(number uint64, b []byte) {
	if o == nil {
		return
	}
	o.buf = binary.AppendUvarint(append(o.buf, outDelivered), number)
	o.buf = binary.AppendUvarint(o.buf, uint64(len(b)))
	sum := uint32(0)
	if !o.omit {
		sum = crc32.Checksum(b, crcTable)
	}
	o.buf = binary.LittleEndian.AppendUint32(o.buf, sum)
}

// Fate adds what became of a message.
func (o *Outputs) Fate(id uint64, fate uint8, rtt time.Duration) {
	if o == nil {
		return
	}
	o.buf = binary.AppendUvarint(append(o.buf, outFate), id)
	o.buf = binary.AppendVarint(append(o.buf, fate), int64(rtt))
}

// Result adds a number that the call returned, or a figure of the core.
func (o *Outputs) Result(v int64) {
	if o == nil {
		return
	}
	o.buf = binary.AppendVarint(append(o.buf, outResult), v)
}

// Asked adds that the core has asked for n bytes. The reply is an answer, see [Stream.Answer].
func (o *Outputs) Asked(n int) {
	if o == nil {
		return
	}
	o.buf = binary.AppendUvarint(append(o.buf, outAsked), uint64(n))
}

func (o *Outputs) keep(b []byte, head int) int {
	if o.omit {
		return min(head, len(b))
	}
	return len(b)
}

// An output is one of them, taken apart.
type output struct {
	what byte
	data []byte // of a datagram, as far as it is there
	size int    // of the datagram or message
	n    uint64 // number, id, bytes
	fate byte
	v    int64 // value, round-trip time
	sum  uint32
}

// outputs iterates over encoded outputs. A malformed one ends it, with kind 0.
func outputs(b []byte) iter.Seq[output] {
	return func(yield func(output) bool) {
		f := &fields{b: b}
		for len(f.b) > 0 {
			o := takeOutput(f)
			if f.bad {
				yield(output{})
				return
			}
			if !yield(o) {
				return
			}
		}
	}
}

func takeOutput(f *fields) output {
	o := output{what: f.byte()}
	switch o.what {
	case outDatagram:
		o.data, o.size = f.data()
	case outDelivered:
		o.n = f.uvarint()
		size := f.uvarint()
		if size > maxFrame || len(f.b) < 4 {
			f.fail()
			return o
		}
		o.size = int(size)
		o.sum = binary.LittleEndian.Uint32(f.b)
		f.b = f.b[4:]
	case outFate:
		o.n = f.uvarint()
		o.fate, o.v = f.byte(), f.varint()
	case outResult:
		o.v = f.varint()
	case outAsked:
		o.n = f.uvarint()
	default:
		f.fail()
	}
	return o
}

// String describes an output in words.
func (o output) String() string {
	switch o.what {
	case outDatagram:
		return fmt.Sprintf("sends %d bytes: %s", o.size, hexStart(o.data))
	case outDelivered:
		return fmt.Sprintf("delivers message %d of %d bytes, CRC-32C %08x", o.n, o.size, o.sum)
	case outFate:
		return fmt.Sprintf("decides message %d: fate %d, round-trip time %v", o.n, o.fate, time.Duration(o.v))
	case outResult:
		return fmt.Sprintf("returns %d", o.v)
	case outAsked:
		return fmt.Sprintf("asks for %d bytes of memory", o.n)
	}
	return "unreadable"
}

// hexStart returns the first bytes in hex.
func hexStart(b []byte) string {
	const most = 32
	if len(b) > most {
		return fmt.Sprintf("%x...", b[:most])
	}
	return fmt.Sprintf("%x", b)
}

// Count returns how many datagrams and messages there are in encoded outputs.
func Count(b []byte) (datagrams, messages int) {
	for o := range outputs(b) {
		switch o.what {
		case outDatagram:
			datagrams++
		case outDelivered:
			messages++
		}
	}
	return datagrams, messages
}

// Difference describes the first output in which two calls differ.
func Difference(recorded, replayed []byte) (was, is string) {
	next, stop := iter.Pull(outputs(replayed))
	defer stop()
	n := 0
	for a := range outputs(recorded) {
		n++
		b, ok := next()
		if !ok {
			return fmt.Sprintf("output %d: %v", n, a), "nothing more"
		}
		if was, is := a.String(), b.String(); was != is || string(a.data) != string(b.data) {
			return fmt.Sprintf("output %d: %s", n, was), is + firstByte(a.data, b.data)
		}
	}
	if b, ok := next(); ok {
		return fmt.Sprintf("output %d: nothing more", n+1), b.String()
	}
	return "other bytes", "the same outputs"
}

// firstByte tells where two datagrams differ.
func firstByte(a, b []byte) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf(" (byte %d: %#02x, was %#02x)", i, b[i], a[i])
		}
	}
	return ""
}
