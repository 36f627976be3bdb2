package dissect

import (
	"fmt"
	"math/bits"
	"strings"

	"volley/reliable"
)

// The first bytes of the notices of section 1.4; other odd ones but 1 are those
// of nothing.
const (
	noticePrefix = 3
	askPrefix    = 5
	answerPrefix = 7
)

// maxFragments is what the format has room for.
const maxFragments = 256

func (d *decoder) reliable() {
	prefix := d.b[0]
	kind := "packet"
	switch {
	case prefix == noticePrefix:
		kind = "notice"
	case prefix == askPrefix:
		kind = "question"
	case prefix == answerPrefix:
		kind = "answer"
	case prefix&1 == 1:
		kind = "fragment"
	}
	d.say("%s", kind)
	d.add("type", 0, 1, kind)
	d.add("prefix", 0, 1, uint64(prefix)).Hex = true
	switch kind {
	case "packet":
		d.reliablePacket()
	case "fragment":
		d.reliableFragment()
	default:
		d.reliableNotice(kind)
	}
}

// formatProblem notes why package reliable refuses a packet or fragment.
func (d *decoder) formatProblem(err error) {
	d.problem("%s", strings.TrimPrefix(err.Error(), "reliable: "))
}

func (d *decoder) reliablePacket() {
	h, n, err := reliable.ParseHeader(d.b)
	if err != nil {
		if len(d.b) >= 3 {
			d.add("sequence", 1, 2, d.le16(1))
			d.also(" %d", d.le16(1))
		}
		d.formatProblem(err)
		return
	}
	d.add("sequence", 1, 2, uint64(h.Sequence))
	d.also(" %d", h.Sequence)
	d.Fields = d.ackFields(d.Fields, h, 0, n)
	d.bytes("payload", n, len(d.b)-n)
	d.also(", %s", ackText(h))
	if n == len(d.b) {
		d.also(", no payload")
	} else {
		d.also(", %s", size(len(d.b)-n))
	}
	if !canonical(h, d.b) {
		d.Note = "header in an encoding no sender uses"
	}
}

// canonical reports whether the header h is at the front of b in the one
// encoding that a sender may use.
func canonical(h reliable.Header, b []byte) bool {
	return strings.HasPrefix(string(b), string(reliable.AppendHeader(nil, h)))
}

// ackFields appends what the header of n bytes at off acknowledges.
func (d *decoder) ackFields(fields []Field, h reliable.Header, off, n int) []Field {
	size := 2
	if d.b[off]&0x20 != 0 {
		size = 1
	}
	ackBits := d.field("ack_bits", off+3+size, n-3-size, uint64(h.AckBits))
	ackBits.Hex = true
	if ackBits.Length == 0 { // all of them are set, which the prefix says
		ackBits.Offset, ackBits.Length = d.base+off, 1
	}
	return append(fields, d.field("ack", off+3, size, uint64(h.Ack)), ackBits)
}

// ackText says what a header acknowledges.
func ackText(h reliable.Header) string {
	if h.Ack == 65535 && h.AckBits == 0 {
		return "has heard nothing"
	}
	return fmt.Sprintf("ack %d, %d of 32 received", h.Ack, bits.OnesCount32(h.AckBits))
}

func (d *decoder) reliableFragment() {
	switch {
	case len(d.b) < reliable.FragmentHeaderSize:
		d.formatProblem(reliable.ErrFragmentShort)
		return
	case d.b[0] != 1:
		d.formatProblem(reliable.ErrFragmentPrefix)
		return
	}
	limit := d.o.MaxFragments
	if limit <= 0 || limit > maxFragments {
		limit = maxFragments
	}
	id, n := uint64(d.b[3]), uint64(d.b[4])+1
	d.add("sequence", 1, 2, d.le16(1))
	d.add("fragment", 3, 1, id)
	d.add("fragments", 4, 1, n)
	d.say("fragment %d of %d of packet %d", id+1, n, d.le16(1))

	// Of what size fragments are need not be known: then any is right.
	h, headerSize, err := reliable.ParseHeader(d.b[reliable.FragmentHeaderSize:])
	if id != 0 || err != nil || n > uint64(limit) {
		headerSize = 0
	}
	start := reliable.FragmentHeaderSize + headerSize
	_, err = reliable.ParseFragment(d.b, limit, len(d.b)-start)
	if headerSize > 0 {
		d.reliableHeader(h, headerSize)
	}
	if err != nil {
		d.formatProblem(err)
		return
	}
	d.bytes("data", start, len(d.b)-start)
	d.also(", %s", size(len(d.b)-start))
	if d.o.FragmentSize > 0 {
		if _, err = reliable.ParseFragment(d.b, limit, d.o.FragmentSize); err != nil {
			d.formatProblem(err)
		}
	}
}

// reliableHeader adds the header of n bytes that is inside fragment 0.
func (d *decoder) reliableHeader(h reliable.Header, n int) {
	const off = reliable.FragmentHeaderSize
	prefix := d.field("header.prefix", off, 1, uint64(d.b[off]))
	prefix.Hex = true
	fields := []Field{prefix, d.field("header.sequence", off+1, 2, uint64(h.Sequence))}
	d.add("header", off, n, nil).Fields = d.ackFields(fields, h, off, n)
	d.also(", %s", ackText(h))
}

// reliableNotice is about the datagrams of section 1.4.
func (d *decoder) reliableNotice(kind string) {
	want := 1 + 8
	if kind == "notice" {
		want = 1 + 2
	}
	if len(d.b) != want {
		d.problem("a datagram of this type has %d bytes, not %d", want, len(d.b))
		return
	}
	if kind == "notice" {
		d.add("sequence", 1, 2, d.le16(1))
		d.also(": packet %d belongs to no connection", d.le16(1))
		return
	}
	d.add("token", 1, 8, d.le64(1)).Hex = true
	d.also(" with token %#x", d.le64(1))
}
