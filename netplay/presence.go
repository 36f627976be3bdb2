package netplay

import "encoding/binary"

// Dialects V3 and V4 write a byte before every value, and leave the value out
// if that byte is 0: 00 for null, 01 for a value that follows.

// appendPresent appends the properties of the struct at p.
func appendPresent(dst []byte, p addr, pl *plan, depth int) ([]byte, error) {
	var err error
	for i := range pl.fields {
		f := &pl.fields[i]
		if dst, err = appendPresence(dst, fieldAt(p, f.offset), &f.value, depth); err != nil {
			return dst, within(f.name, err)
		}
	}
	return dst, nil
}

// appendPresence appends one value with its presence byte.
func appendPresence(dst []byte, q addr, v *value, depth int) ([]byte, error) {
	switch v.kind {
	case kindPointer, kindBoxed:
		if q = getPointer(q); q == nil {
			return append(dst, 0), nil
		}
		if v.kind == kindBoxed {
			return appendValue(append(dst, hasObject), q, v.elem, depth)
		}
		return appendPresentNested(dst, q, v.plan, depth)
	case kindStruct:
		return appendPresentNested(dst, q, v.plan, depth)
	case kindSlice:
		return appendPresentSlice(dst, q, v.elem, depth)
	}
	return appendValue(append(dst, hasObject), q, v, depth)
}

func appendPresentNested(dst []byte, p addr, pl *plan, depth int) ([]byte, error) {
	if depth == 0 {
		return dst, errDepth
	}
	start := len(dst)
	dst, err := appendPresent(append(dst, hasObject, 0, 0), p, pl, depth-1)
	if err != nil {
		return dst, err
	}
	return dst, putLength(dst[start:])
}

func appendPresentSlice(dst []byte, q addr, elem *value, depth int) ([]byte, error) {
	data, n, isNil := getSlice(q)
	if isNil {
		return append(dst, 0), nil
	}
	if n > maxCount {
		return dst, tooLarge("array with a count", n)
	}
	dst = append(dst, hasObject, byte(n>>8), byte(n))
	var err error
	for i := range n {
		if dst, err = appendPresence(dst, fieldAt(data, uintptr(i*elem.size)), elem, depth); err != nil {
			return dst, withinElement(i, err)
		}
	}
	return dst, nil
}

// presentBody is body for V3 and V4.
func (d *decoder) presentBody(b []byte, p addr, pl *plan) error {
	var err error
	for i := range pl.fields {
		f := &pl.fields[i]
		if b, err = d.presence(b, fieldAt(p, f.offset), &f.value); err != nil {
			return within(f.name, err)
		}
	}
	return nil
}

// presence reads one value with its presence byte and returns the rest of b.
func (d *decoder) presence(b []byte, q addr, v *value) ([]byte, error) {
	if len(b) == 0 {
		return nil, errShortBody
	}
	if b[0] == 0 {
		return b[1:], d.null(q, v)
	}
	switch v.kind {
	case kindPointer:
		if err := d.charge(int(v.plan.typ.Size())); err != nil {
			return nil, err
		}
		p := makeStruct(v.plan.typ)
		setPointer(q, p)
		return d.nested(b, p, v.plan)
	case kindStruct:
		return d.nested(b, q, v.plan)
	case kindSlice:
		return d.presentSlice(b[1:], q, v)
	}
	return d.value(b[1:], q, v)
}

// null makes a value absent. A string, an array or a struct, which may be null in Java,
// becomes Go's zero value if the Go type has no nil.
func (d *decoder) null(q addr, v *value) error {
	switch v.kind {
	case kindPointer, kindBoxed, kindSlice, kindString, kindStruct:
		setZero(v.typ, q)
		return nil
	}
	return errNull
}

func (d *decoder) presentSlice(b []byte, q addr, v *value) (_ []byte, err error) {
	if len(b) < 2 {
		return nil, errShortBody
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; n > len(b) {
		return nil, errShortBody
	}
	if err := d.charge(n * v.elem.size); err != nil {
		return nil, err
	}
	data := makeSliceOf(v.typ, q, n)
	for i := range n {
		if b, err = d.presence(b, fieldAt(data, uintptr(i*v.elem.size)), v.elem); err != nil {
			return nil, withinElement(i, err)
		}
	}
	return b, nil
}
