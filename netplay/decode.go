package netplay

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// A decoder reads one body. It never allocates more than what is left of the
// budget, and never for elements that the bytes left cannot hold.
type decoder struct {
	budget int // bytes that may still be allocated
	depth  int // levels of structs that may still be entered
}

// charge takes n bytes from the budget.
func (d *decoder) charge(n int) error {
	if n > d.budget {
		return ErrDecodedSize
	}
	d.budget -= n
	return nil
}

// structBody reads the properties of the struct at p from the front of b.
// What is left of b is not looked at.
func (d *decoder) structBody(b []byte, p addr, pl *plan) error {
	var err error
	for i := range pl.fields {
		f := &pl.fields[i]
		if len(b) < f.min {
			return within(f.name, ErrShortBody)
		}
		q := fieldAt(p, f.offset)
		switch f.kind {
		case kindBool:
			setBool(q, b[0] != 0)
			b = b[1:]
		case kind8:
			set8(q, b[0])
			b = b[1:]
		case kind16:
			set16(q, binary.BigEndian.Uint16(b))
			b = b[2:]
		case kind32, kindFloat:
			set32(q, binary.BigEndian.Uint32(b))
			b = b[4:]
		case kind64:
			set64(q, binary.BigEndian.Uint64(b))
			b = b[8:]
		case kindString:
			if b, err = d.string(b, q); err != nil {
				return within(f.name, err)
			}
		default:
			if b, err = d.value(b, q, &f.value); err != nil {
				return within(f.name, err)
			}
		}
	}
	return nil
}

// value reads one value of any kind and returns what follows it in b.
func (d *decoder) value(b []byte, q addr, v *value) ([]byte, error) {
	if len(b) < v.min {
		return nil, ErrShortBody
	}
	switch v.kind {
	case kindBool:
		setBool(q, b[0] != 0)
		return b[1:], nil
	case kind8:
		set8(q, b[0])
		return b[1:], nil
	case kind16:
		set16(q, binary.BigEndian.Uint16(b))
		return b[2:], nil
	case kind32, kindFloat:
		set32(q, binary.BigEndian.Uint32(b))
		return b[4:], nil
	case kind64:
		set64(q, binary.BigEndian.Uint64(b))
		return b[8:], nil
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
	panic("BUG: unknown kind")
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
		return nil, ErrShortBody
	}
	if err := d.charge(n); err != nil {
		return nil, err
	}
	s := string(b[:n])
	if !utf8.ValidString(s) {
		// At most three times as long: a byte that means nothing, alone.
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

// nested reads a struct that is there: a byte which says so, the length, and
// exactly as many bytes, of which the last may be of properties unknown here.
func (d *decoder) nested(b []byte, p addr, pl *plan) ([]byte, error) {
	if len(b) < 3 {
		return nil, ErrShortBody
	}
	n := int(binary.BigEndian.Uint16(b[1:]))
	if b = b[3:]; n > len(b) {
		return nil, ErrShortBody
	}
	if d.depth == 0 {
		return nil, ErrDepth
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
		return nil, ErrShortBody
	}
	if err := d.charge(n * elem.size); err != nil {
		return nil, err
	}
	switch elem.kind {
	case kindBool:
		for i, x := range makeBytes(b[:n], q) {
			if x > 1 {
				view[uint8](q)[i] = 1
			}
		}
	case kind8:
		makeBytes(b[:n], q)
	case kind16:
		for i, s := 0, makeSlice[uint16](q, n); i < n; i++ {
			s[i] = binary.BigEndian.Uint16(b[2*i:])
		}
	case kind32, kindFloat:
		for i, s := 0, makeSlice[uint32](q, n); i < n; i++ {
			s[i] = binary.BigEndian.Uint32(b[4*i:])
		}
	case kind64:
		for i, s := 0, makeSlice[uint64](q, n); i < n; i++ {
			s[i] = binary.BigEndian.Uint64(b[8*i:])
		}
	default:
		return d.elements(b, q, v, n)
	}
	return b[n*elem.min:], nil
}

func makeBytes(b []byte, q addr) []byte {
	s := makeSlice[uint8](q, len(b))
	copy(s, b)
	return s
}

// elements reads the n elements of an array one by one.
func (d *decoder) elements(b []byte, q addr, v *value, n int) (_ []byte, err error) {
	data := makeSliceOf(v.typ, q, n)
	for i := range n {
		if b, err = d.value(b, fieldAt(data, uintptr(i*v.elem.size)), v.elem); err != nil {
			return nil, withinElement(i, err)
		}
	}
	return b, nil
}
