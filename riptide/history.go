package riptide

import "volley/internal/seq"

// gap returns the signed distance from b to a. At 32768 the plain difference decides.
func gap(a, b uint16) int {
	d := int(a) - int(b)
	switch {
	case d > 1<<15:
		return d - 1<<16
	case d < -1<<15:
		return d + 1<<16
	}
	return d
}

// A history knows the received ones of the last 65536 reliable ids. In the zero value, id 0
// counts as received. It grows to 8 KiB.
type history struct {
	newest uint16
	span   int // number of ids known about, newest included; zero: nothing has come
	bits   seq.Bits
}

// firstHistory is the number of ids that a history has memory for at first.
const firstHistory = 64

// has reports whether id has been received, or is too old to tell.
func (h *history) has(id uint16) bool {
	d := gap(h.newest, id)
	if h.span == 0 {
		return d >= 0
	}
	return d >= h.span || d >= 0 && h.bits.Has(id)
}

func (h *history) add(id uint16) {
	if h.span == 0 {
		h.span = 1
		h.bits = seq.MakeBits(firstHistory)
		h.bits.Set(0)
	}
	if g := gap(id, h.newest); g > 0 {
		span := min(h.span+g, 1<<16)
		h.grow(span)
		h.bits.ClearRange(h.newest+1, g)
		h.newest, h.span = id, span
	}
	h.bits.Set(id)
}

func (h *history) grow(n int) {
	size := h.bits.Size()
	if n <= size {
		return
	}
	for size < n {
		size *= 2
	}
	h.bits = h.bits.Resize(size, h.newest, h.span)
}

// ack returns the acknowledgement for an id that has just arrived.
func (h *history) ack(id uint16) ack {
	a := ack{newest: h.newest, id: id, has: id != h.newest}
	if !a.has {
		a.id = 0
	}
	if h.span > 0 {
		a.bits = uint16(h.bits.Last32(h.newest) >> 1)
	}
	return a
}
