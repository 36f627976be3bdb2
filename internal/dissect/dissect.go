// Package dissect takes datagrams of every protocol of this module apart for
// people: into named fields with their values and places, and the reason why a
// receiver refuses a datagram, if one does.
//
// It is for tools. One table of fields (fields.go) and one description of the
// formats (formats.go) serve two dissectors: the decoder of this package walks
// over them, and Lua writes one for Wireshark. The decoder is tested against the
// parsers of the protocols, and Wireshark against the decoder.
package dissect

import "strings"

// A Protocol is one of the wire formats. Its value is the name by which the tools know it.
type Protocol string

const (
	Reliable     Protocol = "reliable"      // docs/reliable.md, section 1
	Netcode      Protocol = "netcode"       // NETCODE 1.02
	Porous       Protocol = "porous"        // versions 0 and 1
	Riptide      Protocol = "riptide"       // the packed layout, 2.1.0 to 2.2.1
	RiptideNotes Protocol = "riptide-notes" // the layout of whole bytes
	Netplay      Protocol = "netplay"
)

// Protocols are all of them.
var Protocols = []Protocol{Reliable, Netcode, Porous, Riptide, RiptideNotes, Netplay}

// Streams reports whether datagrams of the protocol also travel over TCP, or only over TCP.
func (p Protocol) Streams() (also, only bool) {
	switch p {
	case Riptide, RiptideNotes:
		return true, false
	case Netplay:
		return true, true
	}
	return false, false
}

// family is the first part of the names of the protocol's fields.
func (p Protocol) family() string {
	family, _, _ := strings.Cut(string(p), "-")
	return family
}

// A Field is one value in a datagram.
type Field struct {
	// Name is that of the field in a filter of Wireshark, such as
	// "volley.reliable.sequence".
	Name string
	// Value is a uint64, int64, bool, string or []byte, or nil where the field
	// only holds others.
	Value any
	// Text says in words what the value means, "" if it speaks for itself.
	Text string
	// Hex says that a number is better read in hexadecimal digits.
	Hex bool
	// Offset and Length are the place of the value in the datagram. If In is not
	// empty, they are the place in bytes that were made from the datagram. In
	// names these, such as "payload", a message of Riptide that begins in the
	// middle of a byte.
	Offset, Length int
	In             string
	// Fields are those inside this one.
	Fields []Field
}

// A Datagram is the contents of a datagram.
type Datagram struct {
	Protocol Protocol
	// Summary is one line.
	Summary string
	// Fields are the fields that could be read: up to the Problem, if there is one.
	Fields []Field
	// Problem says why every receiver refuses the datagram, whatever its state
	// or keys. It is "" if there is no such reason.
	Problem string
	// Note says why a valid datagram is unusual.
	Note string
}

// Options say what is known beside the bytes. A nil *Options is the zero value.
type Options struct {
	// Stream says that datagrams of Riptide have their length in front, as
	// over TCP. Those of Netplay always have.
	Stream bool
	// MaxFragments and FragmentSize are those of a receiver of reliable
	// packets. 0: 256, and any size.
	MaxFragments, FragmentSize int
	// Keys open datagrams of netcode.
	Keys []Keys
}

// Decode takes any datagram apart. Values of type []byte may be part of b.
func Decode(p Protocol, b []byte, o *Options) Datagram {
	if o == nil {
		o = &Options{}
	}
	d := &decoder{b: b, family: p.family(), o: o, vars: map[string]any{
		"stream": int64(0), "max_fragments": int64(o.MaxFragments), "fragment_size": int64(o.FragmentSize),
	}}
	if o.Stream {
		d.vars["stream"] = int64(1)
	}
	d.Protocol = p
	switch {
	case len(b) == 0:
		d.problem("empty datagram")
	case formats[p] == nil:
		d.problem("%s is no protocol", p)
	default:
		formats[p].run(d)
	}
	return d.finish()
}

// All calls f for each field of a datagram, those inside a field after it.
func (d *Datagram) All(f func(Field, int)) { each(d.Fields, 0, f) }

func each(fields []Field, depth int, f func(Field, int)) {
	for _, field := range fields {
		f(field, depth)
		each(field.Fields, depth+1, f)
	}
}
