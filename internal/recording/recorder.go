package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// A Config is a capture.Config whose values are possible.
type Config struct {
	MaxBytes    int64
	Ring        bool
	OmitPayload bool
	Output      io.Writer
}

// MinBytes is the least Config.MaxBytes.
const MinBytes = 64 << 10

const (
	defaultMaxBytes = 16 << 20
	maxWaiting      = 4 << 20 // bytes that may wait for Config.Output before one more record
	ringSegments    = 16      // of a recorder; a ring forgets by segments
)

// Why a Recorder has stopped, see package capture.
var (
	ErrLimit   = errors.New("capture: MaxBytes is reached")
	ErrTooSlow = errors.New("capture: the output is too slow")
)

// A Recorder is a capture.Recorder.
type Recorder struct {
	cfg     Config
	start   []byte      // of the capture
	stopped atomic.Bool // whether err is set, for those who only want to know that
	dropped atomic.Uint64

	mu       sync.Mutex
	err      error // why nothing is recorded any more
	budget   int64 // bytes that records may still take, of all segments
	segments []*segment
	spare    *segment
	number   uint64 // of the newest segment, so that connections know whether it names them
	size     int    // of a segment
	held     int64  // capacity of all segments
	stats    Stats
	nextID   uint64
	out      *sink
}

// A segment of the capture can be read by itself: it names its connections first.
type segment struct {
	b      []byte
	shared bool // WriteTo reads it, so that it is not used again
}

// Stats are a capture.Stats.
type Stats struct {
	Bytes       int64
	Calls       uint64
	Connections uint64
	Forgotten   int64
	Dropped     uint64
	Stopped     bool
}

// NewRecorder returns a Recorder.
func NewRecorder(cfg Config) *Recorder {
	r := &Recorder{cfg: cfg}
	c := &r.cfg
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultMaxBytes)
	h := newHeader(c)
	r.start = appendStart(nil, &h)
	r.budget = c.MaxBytes - int64(len(r.start)) - endSize
	r.size = int(min(r.budget/ringSegments, 1<<20))
	if c.Output != nil {
		r.out = newSink(c.Output, slices.Clone(r.start), r.fail)
	}
	return r
}

// Omitted reports whether the contents of messages are left out.
func (r *Recorder) Omitted() bool { return r != nil && r.cfg.OmitPayload }

// Err returns why nothing is recorded any more.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Stats returns the present figures.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Bytes += int64(len(r.start))
	for _, g := range r.segments {
		s.Bytes += int64(len(g.b))
	}
	s.Stopped, s.Dropped = r.err != nil, r.dropped.Load()
	if r.out == nil || s.Stopped {
		s.Bytes += int64(len(r.appendEnd(nil)))
	}
	return s
}

// WriteTo writes the capture as it stands to w, and goes on recording.
func (r *Recorder) WriteTo(w io.Writer) (n int64, err error) {
	if r.out != nil {
		return 0, errors.New("capture: WriteTo needs a Recorder without Output")
	}
	r.mu.Lock()
	pieces := [][]byte{r.start}
	for _, g := range r.segments {
		g.shared = true
		pieces = append(pieces, slices.Clip(g.b))
	}
	pieces = append(pieces, r.appendEnd(nil))
	r.mu.Unlock()
	for _, p := range pieces {
		m, err := w.Write(p)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Close stops recording, and waits until Config.Output has all.
func (r *Recorder) Close() error {
	r.fail(net.ErrClosed)
	if r.out == nil {
		return nil
	}
	return r.out.close()
}

// fail stops recording, once.
func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(err)
}

func (r *Recorder) failLocked(err error) {
	if r.err != nil {
		return
	}
	r.err = err
	r.stopped.Store(true)
	if r.out != nil {
		r.out.finish(r.appendEnd(nil))
	}
}

func (r *Recorder) appendEnd(dst []byte) []byte {
	var body [endSize]byte
	b := append(body[:0], recordEnd)
	b = appendUint32(b, r.dropped.Load())
	var reason byte
	switch {
	case r.err == nil, r.err == net.ErrClosed:
	case r.err == ErrLimit:
		reason = 1
	default:
		reason = 2
	}
	return appendFrame(dst, append(b, reason))
}

// Open begins to record a connection; nil, for Outputs only: there is nothing to record to.
func (r *Recorder) Open(info Connection) *Stream {
	if r == nil || r.stopped.Load() {
		return nil
	}
	info.Start = info.Start.Round(0)
	j, err := json.Marshal(info)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nextID++
	s := &Stream{r: r, id: r.nextID, info: j}
	b := append(s.opening(recordOpened), j...)
	switch {
	case r.err != nil: // since the look at stopped
		return nil
	case !r.put(b, nil):
		r.refuse()
		return nil
	}
	r.stats.Connections++
	s.segment = r.number
	return s
}

func (r *Recorder) commit(s *Stream, body []byte, call bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		r.dropped.Add(1)
	case !r.put(body, s):
		r.refuse()
	case call:
		r.stats.Calls++
	}
}

// refuse notes that a record did not fit. A ring begins a segment, which shows the gap.
func (r *Recorder) refuse() {
	r.dropped.Add(1)
	if r.cfg.Ring {
		r.number++
		return
	}
	if r.out != nil && r.err == nil && r.budget > 0 {
		r.failLocked(ErrTooSlow)
		return
	}
	r.failLocked(ErrLimit)
}

// put appends a record, behind its connection's name if need be. False: there is no room.
func (r *Recorder) put(body []byte, s *Stream) bool {
	if r.out != nil {
		return r.putOut(body)
	}
	need := frameSize(len(body))
	last := r.last()
	if last == nil || len(last.b)+need+s.naming(r.number) > cap(last.b) {
		need += s.naming(r.number + 1)
		if last = r.add(need); last == nil {
			return false
		}
	}
	if s.naming(r.number) > 0 {
		last.b = appendFrame(last.b, s.name())
		s.segment = r.number
	}
	last.b = appendFrame(last.b, body)
	return true
}

func (r *Recorder) putOut(body []byte) bool {
	need := int64(frameSize(len(body)))
	if need > r.budget {
		r.budget = 0
		return false
	}
	if !r.out.put(body) {
		return false
	}
	r.budget -= need
	r.stats.Bytes += need
	return true
}

// last returns the segment that is being filled, or nil.
func (r *Recorder) last() *segment {
	if n := len(r.segments); n > 0 {
		return r.segments[n-1]
	}
	return nil
}

// add begins a segment with room for n bytes. A ring makes room for it.
func (r *Recorder) add(n int) *segment {
	size := max(r.size, n)
	if int64(n) > r.budget {
		return nil
	}
	for r.cfg.Ring && r.held+int64(size) > r.budget {
		r.forget()
	}
	if free := r.budget - r.held; int64(size) > free {
		if int64(n) > free {
			return nil
		}
		size = int(free)
	}
	g := r.spare
	r.spare = nil // which is not counted in held
	if g == nil || size != r.size {
		g = &segment{b: make([]byte, 0, size)}
	}
	r.held += int64(cap(g.b))
	r.segments = append(r.segments, g)
	r.number++
	return g
}

// forget drops the oldest segment.
func (r *Recorder) forget() {
	g := r.segments[0]
	r.segments = slices.Delete(r.segments, 0, 1)
	r.held -= int64(cap(g.b))
	r.stats.Forgotten += int64(len(g.b))
	if !g.shared && cap(g.b) == r.size {
		g.b = g.b[:0]
		r.spare = g
	}
}
