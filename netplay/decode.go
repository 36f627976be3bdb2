package netplay

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// A decoder reads one body. It never allocates more than the rest of the budget, nor for
// elements that the remaining bytes cannot hold.
type decoder struct {
	budget int // bytes that may still be allocated
	depth  int // levels of structs that may still be entered
}

// charge takes n bytes from the budget.
func (d *decoder) charge(n int) error {
	if n > d.budget {
		return errDecodedSize
	}
	d.budget -= n
	return nil
}

// structBody reads the properties of the struct at p from the front of b.
func (d *decoder) structBody(b []byte, p addr, pl *plan) (err error) {
	for i := range pl.ops {
		o := &pl.ops[i]
		if len(b) < o.count*o.value.min {
			return within(pl.fields[o.first+len(b)/o.value.min].name, errShortBody)
		}
		q := fieldAt(p, o.offset)
		switch o.kind {
		case kindBool:
			setBool(q, b[0] != 0)
			b = b[1:]
			continue
		case kind8:
			set8(q, b[0])
			b = b[1:]
			continue
		case kind16:
			set16(q, binary.BigEndian.Uint16(b))
			b = b[2:]
			continue
		case kind32, kindFloat:
			set32(q, binary.BigEndian.Uint32(b))
			b = b[4:]
			continue
		case kind64:
			set64(q, binary.BigEndian.Uint64(b))
			b = b[8:]
			continue
		case kindGroup:
			getGroup(b, q, o.value.kind, o.count)
			b = b[o.count*o.value.min:]
			continue
		case kindString:
			b, err = d.string(b, q)
		case kindPointer:
			b, err = d.pointer(b, q, o.value.plan)
		default:
			b, err = d.value(b, q, o.value)
		}
		if err != nil {
			return within(pl.fields[o.first].name, err)
		}
	}
	return nil
}

// getGroup reads n numbers of a kind, which are in b, into the memory from q on.
func getGroup(b []byte, q addr, k kind, n int) {
	switch k {
	case kind32, kindFloat:
		vs := fields[uint32](q, n)
		for i := range vs {
			vs[i] = binary.BigEndian.Uint32(b)
			b = b[4:]
		}
	case kind64:
		vs := fields[uint64](q, n)
		for i := range vs {
			vs[i] = binary.BigEndian.Uint64(b)
			b = b[8:]
		}
	case kind16:
		vs := fields[uint16](q, n)
		for i := range vs {
			vs[i] = binary.BigEndian.Uint16(b)
			b = b[2:]
		}
	case kindBool:
		vs := fields[uint8](q, n)
		for i, x := range b[:n] {
			vs[i] = min(x, 1) // anything on the wire
		}
	default:
		copy(fields[uint8](q, n), b)
	}
}

// value reads one value of any kind and returns the rest of b.
func (d *decoder) value(b []byte, q addr, v *value) ([]byte, error) {
	if len(b) < v.min {
		return nil, errShortBody
	}
	switch v.kind {
	default:
		getGroup(b, q, v.kind, 1)
		return b[v.min:], nil
	case kindString:
		return d.string(b, q)
	case kindSlice:
		return d.slice(b, q, v)
	case kindStruct:
		if b[0] == 0 {
			setZero(v.typ, q)
			return b[1:], nil
		}
		return d.nested(b, q, v.plan)
	case kindPointer:
		return d.pointer(b, q, v.plan)
	case kindBoxed:
		p, err := d.box(q, v)
		if err != nil {
			return nil, err
		}
		return d.value(b, p, v.elem)
	}
}

// box makes the pointer at q point to a new scalar and returns its address.
func (d *decoder) box(q addr, v *value) (addr, error) {
	if err := d.charge(v.elem.size); err != nil {
		return nil, err
	}
	p := makeStruct(v.elem.typ)
	setPointer(q, p)
	return p, nil
}

// string reads a string of which b holds at least the length.
func (d *decoder) string(b []byte, q addr) ([]byte, error) {
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; n > len(b) {
		return nil, errShortBody
	}
	if err := d.charge(n); err != nil {
		return nil, err
	}
	s := string(b[:n])
	if !validString(s) {
		// At most three times as long, if each byte is invalid.
		if err := d.charge(2 * n); err != nil {
			return nil, err
		}
		s = strings.ToValidUTF8(s, string(utf8.RuneError))
	}
	setString(q, s)
	return b[n:], nil
}

// pointer reads a struct that may be absent.
func (d *decoder) pointer(b []byte, q addr, pl *plan) ([]byte, error) {
	if b[0] == 0 {
		setPointer(q, nil)
		return b[1:], nil
	}
	if err := d.charge(int(pl.typ.Size())); err != nil {
		return nil, err
	}
	p := makeStruct(pl.typ)
	setPointer(q, p)
	return d.nested(b, p, pl)
}

// nested reads presence, length, and that many bytes, the last perhaps of unknown properties.
func (d *decoder) nested(b []byte, p addr, pl *plan) ([]byte, error) {
	if len(b) < 3 {
		return nil, errShortBody
	}
	n := int(binary.BigEndian.Uint16(b[1:]))
	if b = b[3:]; n > len(b) {
		return nil, errShortBody
	}
	if d.depth == 0 {
		return nil, errDepth
	}
	d.depth--
	err := d.structBody(b[:n], p, pl)
	d.depth++
	return b[n:], err
}

// slice reads an array of which b holds at least the count.
func (d *decoder) slice(b []byte, q addr, v *value) ([]byte, error) {
	n := int(binary.BigEndian.Uint16(b))
	elem := v.elem
	if b = b[2:]; n*elem.min > len(b) {
		return nil, errShortBody
	}
	if err := d.charge(n * elem.size); err != nil {
		return nil, err
	}
	if elem.kind > kindFloat {
		return d.elements(b, q, v, n)
	}
	getGroup(b, makeNumbers(q, elem.size, n), elem.kind, n)
	return b[n*elem.min:], nil
}

func (d *decoder) elements(b []byte, q addr, v *value, n int) (_ []byte, err error) {
	data := makeSliceOf(v.typ, q, n)
	for i := range n {
		if b, err = d.value(b, fieldAt(data, uintptr(i*v.elem.size)), v.elem); err != nil {
			return nil, withinElement(i, err)
		}
	}
	return b, nil
}
