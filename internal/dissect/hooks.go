package dissect

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
)

// hooks are steps in both languages. They report whether the datagram can be read on.
var hooks map[string]func(d *decoder, args []any) bool

func init() { // they use what the formats are made of
	hooks = map[string]func(d *decoder, args []any) bool{
		"skip":   (*decoder).skip,
		"bits":   (*decoder).packedBytes,
		"varint": (*decoder).varint,
		"expand": (*decoder).expand,
		"unseal": (*decoder).unseal,
	}
}

// skip leaves out the bytes in front of the datagram.
func (d *decoder) skip(args []any) bool {
	d.base = num(args[0])
	d.b = d.b[d.base:]
	return true
}

// bitsAt returns n bits, at most 64, from bit at on, lowest first. Behind the end all are 0.
func bitsAt(b []byte, at, n int) (v uint64) {
	for i := range n {
		if p := at + i; p/8 < len(b) {
			v |= uint64(b[p/8]>>(p%8)&1) << i
		}
	}
	return v
}

// packedBytes adds all from a bit on, as bytes, with the last half of one unless it is zero.
func (d *decoder) packedBytes(args []any) bool {
	name, at := args[0].(string), num(args[1])
	n := (8*len(d.b) - at) / 8 // whole bytes
	if bitsAt(d.b, at+8*n, 4) != 0 {
		n++
	}
	if n <= 0 {
		return true
	}
	payload := make([]byte, n)
	for i := range payload {
		payload[i] = byte(bitsAt(d.b, at+8*i, 8))
	}
	d.addIn(name, payload)
	d.also(", %s", size(n))
	return true
}

// varint adds a message id that begins at a bit. The next one is at.
func (d *decoder) varint(args []any) bool {
	start := num(args[0])
	var id uint64
	at, group := start, uint64(0x80)
	for shift := 0; group >= 0x80; shift += 7 {
		if at+8 > 8*len(d.b) {
			d.problem("ends within the message id")
			return false
		}
		group = bitsAt(d.b, at, 8)
		at += 8
		id |= group & 0x7f << (shift & 63) // which begins again, as in C#
	}
	d.add("message", start/8, (at-1)/8-start/8+1, id&0xffff)
	d.also(", message %d", id&0xffff)
	d.vars["at"] = int64(at)
	return true
}

// maxExpanded is the most bytes that a payload of netplay is expanded to.
const maxExpanded = 1 << 20

// expand adds what n bytes at an offset are compressed from.
func (d *decoder) expand(args []any) bool {
	off := num(args[0])
	payload := d.b[off : off+num(args[1])]
	var r io.Reader
	var err error
	if bytes.HasPrefix(payload, []byte{0x1f, 0x8b}) {
		var g *gzip.Reader
		if g, err = gzip.NewReader(bytes.NewReader(payload)); err == nil {
			g.Multistream(false)
		}
		r = g
	} else {
		r, err = zlib.NewReader(bytes.NewReader(payload))
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(r, maxExpanded+1))
	}
	if err != nil || len(body) > maxExpanded {
		d.problem("the payload is no compressed stream")
		return true
	}
	d.also(", compressed from %s", size(len(body)))
	if len(body) > 0 {
		d.addIn("body", body)
	}
	return true
}
