package datagram

import "volley/internal/deadline"

// Inline returns an InlineReader for a Mux of which one kind of readers takes
// what all Conns receive: whoever of them reads the socket finds what they wait
// for. The Inline of its Conns is not to be used then.
func (m *Mux) Inline() InlineReader { return (*inlineMux)(m) }

type inlineMux Mux

// ReadInline implements InlineReader.
func (m *inlineMux) ReadInline(d *deadline.Deadline, r Readers) bool {
	return m.turns.readInline(d, anyone, r)
}

// InterruptInline implements InlineReader.
func (m *inlineMux) InterruptInline(r Readers) { m.turns.interrupt(r) }
