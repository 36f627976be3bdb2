package riptide

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// A stream is a transport on a connection without message boundaries: each datagram follows
// its length. Writing never waits, but beyond the queue's limit the stream ends.
type stream struct {
	c       net.Conn
	prefix  int // size of a length
	max     int // the longest datagram
	limit   int // of the queue
	handler datagram.Handler
	write   func()

	mu      sync.Mutex
	queue   []byte // framed, waits
	spare   []byte // to become queue again
	writing bool   // the goroutine is there
	closed  bool   // by Close: what waits is still written
	broken  bool   // nothing is written any more

	timer *time.Timer
	armed time.Time
}

const (
	// streamLinger is how long what waits may take to be written after Close.
	streamLinger = time.Second
	// streamRead is the least size of the read buffer.
	streamRead = 16 << 10
	// maxSpare is the largest queue that is kept for reuse.
	maxSpare = 64 << 10
)

var _ datagram.Conn = (*stream)(nil)

func newStream(c net.Conn, set *settings) *stream {
	s := &stream{c: c, prefix: set.lengthSize(), max: set.maxPayload + maxHeaderSize, limit: set.sendBuffer}
	s.write = s.writeQueue
	return s
}

// lengthSize is the number of bytes of the length of a datagram on a stream.
func (c codec) lengthSize() int {
	if c.layout == notes {
		return 2
	}
	return 4
}

func (s *stream) Attach(h datagram.Handler) error {
	s.handler = h
	go s.read()
	return nil
}

// A lengthError ends a stream on which a length cannot be that of a datagram.
type lengthError struct{ length int64 }

func (e *lengthError) Error() string {
	return fmt.Sprintf("riptide: a datagram of %d bytes is announced", e.length)
}

// read hands datagrams to the handler until the stream ends.
func (s *stream) read() {
	defer s.c.Close()
	buf := make([]byte, max(streamRead, s.prefix+s.max))
	var bufs [][]byte
	out := new(wire.Batch)
	n := 0
	for {
		k, err := s.c.Read(buf[n:])
		n += k
		rest := buf[:n]
		bufs = bufs[:0]
		var bad error
		for bad == nil {
			var d []byte
			if d, rest, bad = s.cut(rest); d == nil {
				break
			}
			bufs = append(bufs, d)
		}
		if len(bufs) > 0 {
			s.handler.HandleBatch(time.Now(), bufs, out)
			s.WriteBatch(out)
			out.Reset()
		}
		if err = errors.Join(bad, err); err != nil {
			s.fail(err)
			return
		}
		n = copy(buf, rest)
	}
}

// cut takes the first datagram off b; nil: it is not complete.
func (s *stream) cut(b []byte) (d, rest []byte, err error) {
	if len(b) < s.prefix {
		return nil, b, nil
	}
	var n int64
	if s.prefix == 2 {
		n = int64(binary.LittleEndian.Uint16(b))
	} else {
		n = int64(int32(binary.LittleEndian.Uint32(b)))
	}
	switch end := int64(s.prefix) + n; {
	case n <= 0 || n > int64(s.max):
		return nil, b, &lengthError{n}
	case int64(len(b)) < end:
		return nil, b, nil
	default:
		return b[s.prefix:end:end], b[end:], nil
	}
}

// fail ends the stream because of an error, and says so.
func (s *stream) fail(err error) {
	s.mu.Lock()
	told := s.closed || s.broken
	s.broken = true
	s.mu.Unlock()
	if !told {
		s.giveUp(err)
	}
}

func (s *stream) giveUp(err error) {
	s.c.Close()
	if errors.Is(err, io.EOF) {
		err = io.EOF
	}
	s.handler.HandleClose(err) // which closes
}

func (s *stream) WriteBatch(b *wire.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.broken {
		return net.ErrClosed
	}
	for i := range b.Len() {
		d := b.At(i)
		s.queue = append(s.queue, byte(len(d)), byte(len(d)>>8))
		if s.prefix == 4 {
			s.queue = append(s.queue, byte(len(d)>>16), byte(len(d)>>24))
		}
		s.queue = append(s.queue, d...)
	}
	if len(s.queue) > s.limit {
		s.queue, s.broken = nil, true
		go s.giveUp(errSlow) // not here: it may be the handler that writes
		return errSlow
	}
	if !s.writing {
		s.writing = true
		go s.write()
	}
	return nil
}

// writeQueue writes what waits until nothing does.
func (s *stream) writeQueue() {
	s.mu.Lock()
	for len(s.queue) > 0 && !s.broken {
		q := s.queue
		s.queue = s.spare[:0]
		s.spare = nil
		s.mu.Unlock()
		_, err := s.c.Write(q)
		if err != nil {
			s.fail(err)
		}
		s.mu.Lock()
		if cap(q) <= maxSpare {
			s.spare = q
		}
	}
	s.writing = false
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.c.Close()
	}
}

// Schedule implements datagram.Conn.
func (s *stream) Schedule(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.broken || at.IsZero() || !s.armed.IsZero() && !at.Before(s.armed) {
		return
	}
	s.armed = at
	if wait := time.Until(at); s.timer == nil {
		s.timer = time.AfterFunc(wait, s.tick)
	} else {
		s.timer.Reset(wait)
	}
}

func (s *stream) tick() {
	s.mu.Lock()
	now := time.Now()
	if s.closed || s.broken || s.armed.IsZero() {
		s.mu.Unlock()
		return
	}
	s.armed = time.Time{}
	s.mu.Unlock()
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	next := s.handler.HandleTick(now, out)
	s.WriteBatch(out)
	s.Schedule(next)
}

// Close closes the connection once what waits has been written, or after a second.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.writing && !s.broken {
		return s.c.SetDeadline(time.Now().Add(streamLinger)) // the goroutine closes
	}
	return s.c.Close()
}

// WriteBatchBy is WriteBatch, which never waits.
func (s *stream) WriteBatchBy(b *wire.Batch, _ *deadline.Deadline) (int, error) {
	return b.Len(), s.WriteBatch(b)
}

func (s *stream) Features() datagram.Features             { return datagram.Features{Lossless: true} }
func (s *stream) Stats() datagram.Stats                   { return datagram.Stats{} }
func (s *stream) WaitWritable(int, <-chan struct{}) error { return nil }
func (s *stream) MaxDatagram() int                        { return s.max }
func (s *stream) LocalAddr() net.Addr                     { return s.c.LocalAddr() }
func (s *stream) RemoteAddr() net.Addr                    { return s.c.RemoteAddr() }

// maxDatagram is one more than the longest datagram, so that a cut one does not seem to fit.
func (s *settings) maxDatagram() int { return s.maxPayload + maxHeaderSize + 1 }

// overStream returns the settings for a stream, which loses and repeats nothing.
func (s *settings) overStream() *settings {
	t := *s
	t.repeats, t.dupWindow = 1, 0
	return &t
}

// newTransport returns the transport over a connection, which it takes over, and its settings.
func newTransport(c net.Conn, set *settings) (datagram.Conn, *settings, error) {
	if dc := datagram.Below(c); dc != nil {
		if most := dc.MaxDatagram() - maxHeaderSize; set.maxPayload > most {
			return nil, nil, configError("Config.MaxPayload", "%d is more than %d, the most that the connection below carries", set.maxPayload, most)
		}
		return dc, set, nil
	}
	if isStream(c) {
		set = set.overStream()
		return newStream(c, set), set, nil
	}
	dc, err := datagram.Over(c, datagram.OverConfig{
		Socket:      set.socket,
		MaxDatagram: set.maxDatagram(),
		MaxForeign:  set.maxDatagram(),
		MaxMessage:  set.sendBuffer,
	})
	return dc, set, err
}

// isStream reports whether a connection does not preserve message boundaries.
func isStream(c net.Conn) bool {
	addr := c.LocalAddr()
	if addr == nil {
		return false
	}
	n := addr.Network()
	return n == "unix" || n == "pipe" || strings.HasPrefix(n, "tcp")
}
