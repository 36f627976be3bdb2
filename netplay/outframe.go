package netplay

import (
	"sync"
	"sync/atomic"
)

// An outFrame is an encoded message on its way out. A broadcast shares one
// among connections; who is the last to release it makes it free for another
// message.
type outFrame struct {
	b    []byte
	refs atomic.Int32
}

// frameOverhead is what a waiting frame counts beside its bytes.
const frameOverhead = 64

var outFrames = sync.Pool{New: func() any { return new(outFrame) }}

// encode returns the frame of v, held once.
func (c *Codec) encode(v any) (*outFrame, error) {
	f := outFrames.Get().(*outFrame)
	b, err := c.Append(f.b[:0], v)
	f.b = b
	f.refs.Store(1)
	if err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// hold makes one more release necessary.
func (f *outFrame) hold() { f.refs.Add(1) }

func (f *outFrame) release() {
	if f.refs.Add(-1) == 0 && cap(f.b) <= chunkedSize(maxFrame)*2 {
		outFrames.Put(f)
	}
}

// cost is what the frame counts while it waits.
func (f *outFrame) cost() int { return len(f.b) + frameOverhead }

// frame returns a copy of the frame in b, as it went on the wire.
func (s *settings) frame(b []byte) Frame {
	b = append([]byte(nil), b...)
	if s.dialect == V4 {
		b = joinChunks(b)
	}
	return frameAt(b)
}
