package dissect

import "fmt"

// A decoder collects the fields of one datagram.
type decoder struct {
	Datagram
	b      []byte
	family string
	o      *Options
	base   int    // where b begins in the datagram
	in     string // or what b is
	says   string // the summary, without the problem
	vars   map[string]any
}

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

func (d *decoder) also(format string, args ...any) { d.says += fmt.Sprintf(format, args...) }

// add appends a field of n bytes at off and returns it, until the next one is added.
func (d *decoder) add(name string, off, n int, value any) *Field {
	name = d.family + "." + name
	d.Fields = append(d.Fields, Field{
		Name: "volley." + name, Value: value, Hex: specs[name].names == "hex", Offset: d.base + off, Length: n, In: d.in,
	})
	return &d.Fields[len(d.Fields)-1]
}

// addIn adds bytes that are in no place of the datagram.
func (d *decoder) addIn(name string, b []byte) {
	f := d.add(name, 0, len(b), b)
	f.Offset, f.In = 0, name
}

// count formats a number of things.
func count[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func size(n int) string { return count(n, "byte", "bytes") }

// name returns names[i], "" if there is none.
func name(names []string, i uint64) string {
	if i < uint64(len(names)) {
		return names[i]
	}
	return ""
}
