package dissect

import (
	"encoding/binary"
	"fmt"
)

// A decoder collects the fields of one datagram.
type decoder struct {
	Datagram
	b      []byte
	family string
	o      *Options
	base   int    // where b begins in the datagram
	in     string // or what b is
	says   string // the summary, without the problem
}

// finish returns what was found.
func (d *decoder) finish() Datagram {
	d.Summary = d.says
	switch {
	case d.Problem != "" && d.says == "":
		d.Summary = "malformed: " + d.Problem
	case d.Problem != "":
		d.Summary += ", malformed: " + d.Problem
	case d.Note != "":
		d.Summary += ", " + d.Note
	}
	return d.Datagram
}

// problem notes why a receiver refuses the datagram, if nothing is known yet.
func (d *decoder) problem(format string, args ...any) {
	if d.Problem == "" {
		d.Problem = fmt.Sprintf(format, args...)
	}
}

// say sets the summary.
func (d *decoder) say(format string, args ...any) { d.says = fmt.Sprintf(format, args...) }

// also adds to the summary.
func (d *decoder) also(format string, args ...any) { d.says += fmt.Sprintf(format, args...) }

// field makes a field of n bytes at off.
func (d *decoder) field(name string, off, n int, value any) Field {
	return Field{Name: "volley." + d.family + "." + name, Value: value, Offset: d.base + off, Length: n, In: d.in}
}

// add appends a field and returns it, until the next one is added.
func (d *decoder) add(name string, off, n int, value any) *Field {
	d.Fields = append(d.Fields, d.field(name, off, n, value))
	return &d.Fields[len(d.Fields)-1]
}

// bytes adds n bytes at off, unless there are none.
func (d *decoder) bytes(name string, off, n int) {
	if n > 0 {
		d.add(name, off, n, d.b[off:off+n])
	}
}

func (d *decoder) le16(off int) uint64 { return uint64(binary.LittleEndian.Uint16(d.b[off:])) }
func (d *decoder) le64(off int) uint64 { return binary.LittleEndian.Uint64(d.b[off:]) }
func (d *decoder) be16(off int) uint64 { return uint64(binary.BigEndian.Uint16(d.b[off:])) }
func (d *decoder) be32(off int) uint64 { return uint64(binary.BigEndian.Uint32(d.b[off:])) }

// count formats a number of things.
func count[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// size formats a number of bytes.
func size(n int) string { return count(n, "byte", "bytes") }

// name returns names[i], "" if there is none.
func name(names []string, i uint64) string {
	if i < uint64(len(names)) {
		return names[i]
	}
	return ""
}
