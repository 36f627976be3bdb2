package netplay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// The release dialect: values one after another, a presence byte in front of
// nested structs only. The other dialects are in presence.go.

const (
	nanBits   = 0x7fc00000 // how every NaN is written
	infBits   = 0x7f800000
	signMask  = 1<<31 - 1
	maxCount  = math.MaxUint16 // elements of an array, bytes of a string or nested struct
	hasObject = 1
)

var errUTF8 = errors.New("string is not valid UTF-8")

func tooLarge(what string, n int) error {
	return fmt.Errorf("%s of %d, more than the %d that the format can count", what, n, maxCount)
}

// appendStruct appends the properties of the struct at p. The struct may hold
// others down to depth levels.
func appendStruct(dst []byte, p addr, pl *plan, depth int) ([]byte, error) {
	var err error
	for i := range pl.fields {
		f := &pl.fields[i]
		q := fieldAt(p, f.offset)
		switch f.kind {
		case kindBool, kind8:
			dst = append(dst, get8(q))
		case kind16:
			dst = binary.BigEndian.AppendUint16(dst, get16(q))
		case kind32:
			dst = binary.BigEndian.AppendUint32(dst, get32(q))
		case kind64:
			dst = binary.BigEndian.AppendUint64(dst, get64(q))
		case kindFloat:
			dst = binary.BigEndian.AppendUint32(dst, canonical(get32(q)))
		case kindString:
			s := getString(q)
			if len(s) > maxCount || !utf8.ValidString(s) {
				return dst, within(f.name, stringError(s))
			}
			dst = append(append(dst, byte(len(s)>>8), byte(len(s))), s...)
		default:
			if dst, err = appendValue(dst, q, &f.value, depth); err != nil {
				return dst, within(f.name, err)
			}
		}
	}
	return dst, nil
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
	if len(s) > maxCount || !utf8.ValidString(s) {
		return dst, stringError(s)
	}
	return append(append(dst, byte(len(s)>>8), byte(len(s))), s...), nil
}

func stringError(s string) error {
	if len(s) > maxCount {
		return tooLarge("string with a byte count", len(s))
	}
	return errUTF8
}

// appendValue appends one value of any kind.
func appendValue(dst []byte, q addr, v *value, depth int) ([]byte, error) {
	switch v.kind {
	case kindBool, kind8:
		return append(dst, get8(q)), nil
	case kind16:
		return binary.BigEndian.AppendUint16(dst, get16(q)), nil
	case kind32:
		return binary.BigEndian.AppendUint32(dst, get32(q)), nil
	case kind64:
		return binary.BigEndian.AppendUint64(dst, get64(q)), nil
	case kindFloat:
		return binary.BigEndian.AppendUint32(dst, canonical(get32(q))), nil
	case kindString:
		return appendString(dst, getString(q))
	case kindSlice:
		return appendSlice(dst, q, v.elem, depth)
	case kindStruct:
		return appendNested(dst, q, v.plan, depth)
	case kindPointer:
		if q = getPointer(q); q == nil {
			return append(dst, 0), nil
		}
		return appendNested(dst, q, v.plan, depth)
	case kindBoxed:
		if q = getPointer(q); q == nil {
			return dst, errors.New("nil, which this dialect can write for structs only")
		}
		return appendValue(dst, q, v.elem, depth)
	}
	panic("BUG: unknown kind")
}

// appendNested appends a struct with the byte that says it is there and its
// length.
func appendNested(dst []byte, p addr, pl *plan, depth int) ([]byte, error) {
	if depth == 0 {
		return dst, ErrDepth
	}
	start := len(dst)
	dst, err := appendStruct(append(dst, hasObject, 0, 0), p, pl, depth-1)
	if err != nil {
		return dst, err
	}
	n := len(dst) - start - 3
	if n > maxCount {
		return dst, tooLarge("nested struct with a length", n)
	}
	binary.BigEndian.PutUint16(dst[start+1:], uint16(n))
	return dst, nil
}

// appendSlice appends the count and the elements of the slice at q.
func appendSlice(dst []byte, q addr, elem *value, depth int) ([]byte, error) {
	data, n, _ := getSlice(q)
	if n > maxCount {
		return dst, tooLarge("array with a count", n)
	}
	dst = append(dst, byte(n>>8), byte(n))
	var err error
	switch elem.kind {
	case kindBool, kind8:
		return append(dst, view[uint8](q)...), nil
	case kind16:
		for _, v := range view[uint16](q) {
			dst = binary.BigEndian.AppendUint16(dst, v)
		}
	case kind32:
		for _, v := range view[uint32](q) {
			dst = binary.BigEndian.AppendUint32(dst, v)
		}
	case kind64:
		for _, v := range view[uint64](q) {
			dst = binary.BigEndian.AppendUint64(dst, v)
		}
	case kindFloat:
		for _, v := range view[uint32](q) {
			dst = binary.BigEndian.AppendUint32(dst, canonical(v))
		}
	case kindString:
		for i, s := range view[string](q) {
			if dst, err = appendString(dst, s); err != nil {
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
