package recording

import (
	"encoding/binary"
	"math"
	"sync"
	"time"
)

// A Stream records one connection. The owner of the core calls Begin, the methods
// for the call's input and answers, and End. One goroutine may use it at a time.
// Between End and Begin it keeps no buffers, because connections may be many and idle.
type Stream struct {
	r       *Recorder
	id      uint64
	info    []byte // in JSON
	segment uint64 // the newest that names it, guarded by Recorder.mu
	calls   uint64
	last    time.Duration // of the call before
	call    *call         // the present one; nil between calls, and if nothing is recorded
}

// A call is a call of a core that is being recorded.
type call struct {
	kind    Kind
	at      time.Duration
	args    []byte
	data    []byte
	answers []byte
	out     Outputs
	body    []byte // of the record
}

// calls are those that no Stream uses, with the buffers that they have grown.
var calls = sync.Pool{New: func() any { return new(call) }}

// maxKept is the size in bytes above which a call's buffers are not used again.
const maxKept = 64 << 10

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

// naming returns the size of the name of s in a segment; 0 if it is there, or s is nil.
func (s *Stream) naming(segment uint64) int {
	if s == nil || s.segment == segment {
		return 0
	}
	return frameSize(1 + uvarintSize(s.id) + uvarintSize(s.calls) + uvarintSize(uint64(s.last)) + len(s.info))
}

// Begin begins a call at the core's time since Start, which never runs backwards.
func (s *Stream) Begin(kind Kind, at time.Duration) {
	s.giveUp()
	if s.r.stopped.Load() {
		return
	}
	c := calls.Get().(*call)
	c.kind, c.at, c.out.omit = kind, at, s.r.cfg.OmitPayload
	s.call = c
}

// Arg adds an argument of the call.
func (s *Stream) Arg(v int64) {
	if c := s.call; c != nil {
		c.args = binary.AppendVarint(c.args, v)
	}
}

// Data adds the call's datagram or message, once. Its first head bytes are no message.
func (s *Stream) Data(b []byte, head int) {
	c := s.call
	if c == nil {
		return
	}
	keep, zeros := c.out.keep(b, head), 0
	if lacks := len(b) - keep; !mayLack(lacks, keep) {
		zeros = lacks/omittedShare - keep + 1
	}
	c.data = binary.AppendUvarint(c.data, uint64(len(b)))
	c.data = binary.AppendUvarint(c.data, uint64(keep+zeros))
	c.data = append(c.data, b[:keep]...)
	c.data = append(c.data, make([]byte, zeros)...)
}

// Answer adds the reply to the core: whether a message was taken, or memory granted.
func (s *Stream) Answer(ok bool) {
	if c := s.call; c != nil {
		var b byte
		if ok {
			b = 1
		}
		c.answers = append(c.answers, b)
	}
}

// Reserved adds a request for memory with its reply, which it returns.
func (s *Stream) Reserved(delta int, ok bool) bool {
	if delta > 0 && s.Outputs() != nil {
		s.Outputs().Asked(delta)
		s.Answer(ok)
	}
	return ok
}

// AnswerNumber is Answer for a number that is not negative.
func (s *Stream) AnswerNumber(n int) {
	if c := s.call; c != nil {
		c.answers = binary.AppendUvarint(c.answers, uint64(n))
	}
}

// Outputs returns where the core's answers go, or nil if nothing is recorded now.
func (s *Stream) Outputs() *Outputs {
	if s == nil || s.call == nil {
		return nil
	}
	return &s.call.out
}

// End ends the call.
func (s *Stream) End() {
	c := s.call
	if c == nil {
		s.r.dropped.Add(1)
		return
	}
	defer s.giveUp()
	s.encode(c)
	if len(c.body) > maxFrame || c.at < 0 || int64(c.at) > maxElapsed {
		s.r.dropped.Add(1)
		return
	}
	s.r.commit(s, c.body, true)
	s.last = c.at
	s.calls++
}

// encode puts the record of a call together.
func (s *Stream) encode(c *call) {
	b := binary.AppendUvarint(append(c.body[:0], recordCall), s.id)
	b = append(b, byte(c.kind))
	b = binary.AppendVarint(b, int64(c.at-s.last))
	b = appendBlob(b, c.args)
	if len(c.data) == 0 {
		b = append(b, 0, 0)
	}
	b = append(b, c.data...)
	b = appendBlob(b, c.answers)
	c.body = append(b, c.out.buf...)
}

// giveUp gives the present call's buffers to others.
func (s *Stream) giveUp() {
	c := s.call
	s.call = nil
	if c == nil || cap(c.body)+cap(c.data)+cap(c.out.buf) > 3*maxKept {
		return
	}
	c.args, c.data, c.answers, c.out.buf = c.args[:0], c.data[:0], c.answers[:0], c.out.buf[:0]
	calls.Put(c)
}

// Close ends the recording of the connection.
func (s *Stream) Close() {
	if !s.r.stopped.Load() {
		s.r.commit(s, s.opening(recordClosed), false)
	}
}

func appendUint32(dst []byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint32(dst, uint32(min(v, math.MaxUint32)))
}
