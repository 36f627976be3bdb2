package datagram

import "volley/internal/deadline"

// Inline returns an InlineReader for a Mux of which one kind of readers takes
// what all Conns receive: whoever of them reads the socket finds what they wait
// for. The Inline of its Conns is not to be used then.
func (m *Mux) Inline() InlineReader { return (*muxSeat)(m) }

// A muxSeat is a Mux as the seat of its readers.
type muxSeat Mux

var _ seat = (*muxSeat)(nil)

func (s *muxSeat) mayRead() bool { return true }

// ReadInline implements InlineReader.
func (s *muxSeat) ReadInline(d *deadline.Deadline, r Readers) bool {
	return s.turns.readInline(d, s, r)
}

// InterruptInline implements InlineReader.
func (s *muxSeat) InterruptInline(r Readers) { s.turns.interrupt(r) }
