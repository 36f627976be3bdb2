package capture

import (
	"encoding/binary"
	"math"
	"time"
)

// A Stream records one connection, for implementations of protocols: whoever owns
// its core calls Begin, what the call is given and answers, and End. It must be
// used by one goroutine at a time. It allocates nothing once its buffers have
// grown.
type Stream struct {
	r       *Recorder
	id      uint64
	info    []byte // in JSON
	segment uint64 // the newest that names it, guarded by Recorder.mu
	calls   uint64
	last    time.Duration // of the call before

	open    bool
	kind    Kind
	at      time.Duration
	args    []byte
	data    []byte
	answers []byte
	out     Outputs
	body    []byte
}

// opening returns the beginning of a record that names s.
func (s *Stream) opening(record byte) []byte {
	return binary.AppendUvarint([]byte{record}, s.id)
}

// name returns the body of the record that names s in a segment.
func (s *Stream) name() []byte {
	b := binary.AppendUvarint(s.opening(recordContinued), s.calls)
	b = binary.AppendUvarint(b, uint64(s.last))
	return append(b, s.info...)
}

// naming returns how many bytes the name of s takes in a segment; 0 if it is there,
// or with a nil s.
func (s *Stream) naming(segment uint64) int {
	if s == nil || s.segment == segment {
		return 0
	}
	return frameSize(1 + uvarintSize(s.id) + uvarintSize(s.calls) + uvarintSize(uint64(s.last)) + len(s.info))
}

// Begin begins a call of the core, at a time since Info.Start. The time must be the
// one that the core goes by, and not run backwards.
func (s *Stream) Begin(kind Kind, at time.Duration) {
	s.open = !s.r.stopped.Load()
	s.kind, s.at = kind, at
	s.args, s.data, s.answers, s.out.buf = s.args[:0], s.data[:0], s.answers[:0], s.out.buf[:0]
}

// Arg adds an argument of the call.
func (s *Stream) Arg(v int64) {
	if s.open {
		s.args = binary.AppendVarint(s.args, v)
	}
}

// Data adds the datagram or message that the call was given, once, of which the
// first head bytes are no message.
func (s *Stream) Data(b []byte, head int) {
	if s.open {
		s.data = appendData(s.data, b, s.out.keep(b, head))
	}
}

// Answer adds what the core was told when it asked something: whether a message
// was taken, or memory granted.
func (s *Stream) Answer(ok bool) bool {
	if s.open {
		s.answers = append(s.answers, btoi(ok))
	}
	return ok
}

// AnswerNumber is Answer for a number that is not negative.
func (s *Stream) AnswerNumber(n int) {
	if s.open {
		s.answers = binary.AppendUvarint(s.answers, uint64(n))
	}
}

// Outputs returns where the core's answers go, or nil if nothing is recorded now.
func (s *Stream) Outputs() *Outputs {
	if s == nil || !s.open {
		return nil
	}
	return &s.out
}

// End ends the call.
func (s *Stream) End() {
	if !s.open {
		s.r.dropped.Add(1)
		return
	}
	s.open = false
	b := binary.AppendUvarint(append(s.body[:0], recordCall), s.id)
	b = append(b, byte(s.kind))
	b = binary.AppendVarint(b, int64(s.at-s.last))
	b = appendBlob(b, s.args)
	if len(s.data) == 0 {
		b = append(b, 0, 0)
	}
	b = append(b, s.data...)
	b = appendBlob(b, s.answers)
	s.body = append(b, s.out.buf...)
	if len(s.body) > maxFrame || s.at < 0 || int64(s.at) > maxElapsed {
		s.r.dropped.Add(1)
		return
	}
	s.r.commit(s, s.body, true)
	s.last = s.at
	s.calls++
	s.trim()
}

// trim gives up buffers that a large message has made.
func (s *Stream) trim() {
	const most = 64 << 10
	if cap(s.body) > most {
		s.body, s.data, s.out.buf = nil, nil, nil
	}
}

// Close ends the recording of the connection.
func (s *Stream) Close() {
	if !s.r.stopped.Load() {
		s.r.commit(s, s.opening(recordClosed), false)
	}
}

func btoi(ok bool) byte {
	if ok {
		return 1
	}
	return 0
}

func appendUint32(dst []byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint32(dst, uint32(min(v, math.MaxUint32)))
}
