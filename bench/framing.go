package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
)

// prefixSize is the size in bytes of the length in front of each message.
const prefixSize = 4

// streamBuffer is the size in bytes of the buffers of a stream. Mode idle, which
// looks at memory, makes them small.
var streamBuffer = 64 << 10

// A streamLink carries messages over a byte stream, each behind its length.
type streamLink struct {
	c     io.ReadWriteCloser
	r     *bufio.Reader
	w     *bufio.Writer // nil: each message is written by itself
	frame []byte
}

func newStreamLink(c io.ReadWriteCloser, buffered bool) *streamLink {
	l := &streamLink{c: c, r: bufio.NewReaderSize(c, streamBuffer)}
	if buffered {
		l.w = bufio.NewWriterSize(c, streamBuffer)
	}
	return l
}

func (l *streamLink) WriteMessage(b []byte) error {
	if l.w == nil {
		l.frame = binary.BigEndian.AppendUint32(l.frame[:0], uint32(len(b)))
		l.frame = append(l.frame, b...)
		_, err := l.c.Write(l.frame)
		return err
	}
	prefix := binary.BigEndian.AppendUint32(l.w.AvailableBuffer(), uint32(len(b)))
	if _, err := l.w.Write(prefix); err != nil {
		return err
	}
	_, err := l.w.Write(b)
	return err
}

func (l *streamLink) Flush() error {
	if l.w == nil {
		return nil
	}
	return l.w.Flush()
}

func (l *streamLink) ReadMessage(buf []byte) ([]byte, error) {
	prefix, err := l.r.Peek(prefixSize)
	if err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(prefix))
	if n > len(buf) {
		return nil, io.ErrShortBuffer
	}
	if _, err := l.r.Discard(prefixSize); err != nil {
		return nil, err
	}
	_, err = io.ReadFull(l.r, buf[:n])
	return buf[:n], err
}

func (l *streamLink) Close() error { return l.c.Close() }

// A connLink carries messages over a net.Conn that keeps them apart.
type connLink struct{ c net.Conn }

func (l connLink) WriteMessage(b []byte) error {
	_, err := l.c.Write(b)
	return err
}

func (l connLink) Flush() error { return nil }

func (l connLink) ReadMessage(buf []byte) ([]byte, error) {
	n, err := l.c.Read(buf)
	return buf[:n], err
}

func (l connLink) Close() error { return l.c.Close() }

// A netListener makes links of what a net.Listener accepts.
type netListener struct {
	net.Listener
	link func(net.Conn) link
}

func (l netListener) Accept() (link, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.link(c), nil
}
