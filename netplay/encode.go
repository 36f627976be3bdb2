package netplay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

const (
	nanBits   = 0x7fc00000 // how every NaN is written
	infBits   = 0x7f800000
	signMask  = 1<<31 - 1
	maxCount  = math.MaxUint16 // elements of an array, bytes of a string or nested struct
	hasObject = 1
)

var errUTF8 = errors.New("string is not valid UTF-8")

func tooLarge(what string, n int) error {
	return fmt.Errorf("%s of %d is more than %d, the most that the format can count", what, n, maxCount)
}

// appendStruct appends the properties of the struct at p, nested up to depth.
func appendStruct(dst []byte, p addr, pl *plan, depth int) (_ []byte, err error) {
	for i := range pl.ops {
		o := &pl.ops[i]
		q := fieldAt(p, o.offset)
		switch o.kind {
		case kindBool, kind8:
			dst = append(dst, get8(q))
			continue
		case kind16:
			dst = binary.BigEndian.AppendUint16(dst, get16(q))
			continue
		case kind32:
			dst = binary.BigEndian.AppendUint32(dst, get32(q))
			continue
		case kind64:
			dst = binary.BigEndian.AppendUint64(dst, get64(q))
			continue
		case kindFloat:
			dst = binary.BigEndian.AppendUint32(dst, canonical(get32(q)))
			continue
		case kindGroup:
			dst = appendGroup(dst, q, o.value, o.count)
			continue
		case kindString:
			dst, err = appendString(dst, getString(q))
		case kindPointer:
			if q = getPointer(q); q == nil {
				dst = append(dst, 0)
				continue
			}
			nested := o.value.plan
			if nested.flat >= 0 && depth > 0 { // as appendNested would, a call sooner
				dst = appendFlat(dst, q, nested)
				continue
			}
			dst, err = appendNested(dst, q, nested, depth)
		default:
			dst, err = appendValue(dst, q, o.value, depth)
		}
		if err != nil {
			return dst, within(pl.fields[o.first].name, err)
		}
	}
	return dst, nil
}

// appendGroup appends n numbers that lie side by side from q on.
func appendGroup(dst []byte, q addr, v *value, n int) []byte {
	start, size := len(dst), n*v.min
	if cap(dst)-start < size {
		dst = slices.Grow(dst, size)
	}
	dst = dst[:start+size]
	b := dst[start:]
	switch v.kind {
	case kindFloat:
		for _, v := range fields[uint32](q, n) {
			binary.BigEndian.PutUint32(b, canonical(v))
			b = b[4:]
		}
	case kind32:
		for _, v := range fields[uint32](q, n) {
			binary.BigEndian.PutUint32(b, v)
			b = b[4:]
		}
	case kind64:
		for _, v := range fields[uint64](q, n) {
			binary.BigEndian.PutUint64(b, v)
			b = b[8:]
		}
	case kind16:
		for _, v := range fields[uint16](q, n) {
			binary.BigEndian.PutUint16(b, v)
			b = b[2:]
		}
	default:
		copy(b, fields[uint8](q, n))
	}
	return dst
}

// canonical returns the bits of a float as they are written.
func canonical(bits uint32) uint32 {
	if bits&signMask > infBits {
		return nanBits
	}
	return bits
}

// appendString appends a string that may be too long or not valid.
func appendString(dst []byte, s string) ([]byte, error) {
	switch {
	case len(s) > maxCount:
		return dst, tooLarge("string with a byte count", len(s))
	case !validString(s):
		return dst, errUTF8
	}
	return append(append(dst, byte(len(s)>>8), byte(len(s))), s...), nil
}

// validString is utf8.ValidString, but faster for short ASCII strings.
func validString(s string) bool {
	if len(s) <= shortString {
		var all byte
		for i := range len(s) {
			all |= s[i]
		}
		if all < utf8.RuneSelf {
			return true
		}
	}
	return utf8.ValidString(s)
}

// shortString is the length up to which looking at each byte is faster.
const shortString = 16

// appendValue appends a value, except a pointer to a struct, which callers write themselves.
func appendValue(dst []byte, q addr, v *value, depth int) ([]byte, error) {
	switch v.kind {
	default:
		return appendGroup(dst, q, v, 1), nil
	case kindString:
		return appendString(dst, getString(q))
	case kindSlice:
		return appendSlice(dst, q, v.elem, depth)
	case kindStruct:
		return appendNested(dst, q, v.plan, depth)
	case kindBoxed:
		if q = getPointer(q); q == nil {
			return dst, errors.New("it is nil, which this dialect can write for structs only")
		}
		return appendValue(dst, q, v.elem, depth)
	}
}

// appendNested appends a struct with its presence byte and its length.
func appendNested(dst []byte, p addr, pl *plan, depth int) ([]byte, error) {
	if depth == 0 {
		return dst, errDepth
	}
	if pl.flat >= 0 {
		return appendFlat(dst, p, pl), nil
	}
	start := len(dst)
	dst, err := appendStruct(append(dst, hasObject, 0, 0), p, pl, depth-1)
	if err != nil {
		return dst, err
	}
	return dst, putLength(dst[start:])
}

// putLength fills in the length of a nested struct, which is all of b.
func putLength(b []byte) error {
	n := len(b) - 3
	if n > maxCount {
		return tooLarge("nested struct with a length", n)
	}
	binary.BigEndian.PutUint16(b[1:], uint16(n))
	return nil
}

// appendFlat is appendNested for a struct of numbers and bools.
func appendFlat(dst []byte, p addr, pl *plan) []byte {
	dst = append(dst, hasObject, byte(pl.flat>>8), byte(pl.flat))
	ops := pl.ops
	for i := range ops {
		o := &ops[i]
		q := fieldAt(p, o.offset)
		switch o.kind {
		case kindFloat:
			dst = binary.BigEndian.AppendUint32(dst, canonical(get32(q)))
		case kind32:
			dst = binary.BigEndian.AppendUint32(dst, get32(q))
		case kind64:
			dst = binary.BigEndian.AppendUint64(dst, get64(q))
		case kind16:
			dst = binary.BigEndian.AppendUint16(dst, get16(q))
		case kindGroup:
			dst = appendGroup(dst, q, o.value, o.count)
		default:
			dst = append(dst, get8(q))
		}
	}
	return dst
}

func appendSlice(dst []byte, q addr, elem *value, depth int) ([]byte, error) {
	data, n := getSlice(q)
	if n > maxCount {
		return dst, tooLarge("array with a count", n)
	}
	dst = append(dst, byte(n>>8), byte(n))
	if elem.kind <= kindFloat {
		return appendGroup(dst, data, elem, n), nil
	}
	var err error
	switch elem.kind {
	case kindString:
		for i, s := range getStrings(q) {
			if dst, err = appendString(dst, s); err != nil {
				return dst, withinElement(i, err)
			}
		}
	case kindPointer:
		for i := range n {
			p := getPointer(fieldAt(data, uintptr(i*elem.size)))
			if p == nil {
				dst = append(dst, 0)
			} else if dst, err = appendNested(dst, p, elem.plan, depth); err != nil {
				return dst, withinElement(i, err)
			}
		}
	default:
		for i := range n {
			if dst, err = appendValue(dst, fieldAt(data, uintptr(i*elem.size)), elem, depth); err != nil {
				return dst, withinElement(i, err)
			}
		}
	}
	return dst, nil
}
