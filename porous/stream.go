package porous

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// Stream returns the channel as a stream of bytes, for programs that expect a TCP
// connection, such as net/http, gRPC and yamux. Write takes any number of bytes, and
// Read returns those that are there. Both sides call Stream, once, and then leave the
// channel's own Read and Write alone. Messages in modes other than Reliable would
// leave gaps.
//
// Each Write is sent at once, as reliable messages of up to 16 KiB. Concurrent Writes
// do not mix. If a Write fails, it returns how many bytes have been accepted.
//
// The net.Conn also has a method CloseWrite() error, which ends one direction: an empty
// message tells the peer, whose Read then returns io.EOF. Close ends both directions.
// Accepted bytes are still sent. If there is no room to tell the peer, Close waits for
// it, up to Config.CloseTimeout. Closing the stream of channel 0, which is the Conn's
// own, closes the Conn.
func (ch *Channel) Stream() net.Conn { return &stream{ch: ch} }

// A stream is a Channel as a stream of bytes, without methods of messages.
type stream struct {
	ch *Channel
	mu sync.Mutex // held by a call that writes
}

// streamMessage is the size in bytes of the messages that carry a stream. The peer can
// read a message when all of it is there.
const streamMessage = 16 << 10

func (s *stream) LocalAddr() net.Addr                { return s.ch.LocalAddr() }
func (s *stream) RemoteAddr() net.Addr               { return s.ch.RemoteAddr() }
func (s *stream) SetDeadline(t time.Time) error      { return s.ch.SetDeadline(t) }
func (s *stream) SetReadDeadline(t time.Time) error  { return s.ch.SetReadDeadline(t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.ch.SetWriteDeadline(t) }

func (s *stream) Read(b []byte) (n int, err error) {
	n, err = s.ch.user.ReadPart(b)
	if n == 0 && err == nil && len(b) > 0 {
		err = io.EOF
		s.ch.user.In.Fail(err) // for later calls, too
	}
	return n, s.ch.c.opError("read", err)
}

func (s *stream) Write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := min(streamMessage, s.ch.MaxMessageSize())
	for n < len(b) {
		part := b[n:min(n+size, len(b))]
		if _, err := s.ch.send(context.Background(), message{data: part, mode: Reliable}); err != nil {
			return n, s.ch.c.opError("write", err)
		}
		n += len(part)
	}
	return n, nil
}

// CloseWrite tells the peer that nothing more is written, behind a Write that is under way.
func (s *stream) CloseWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.ch.send(context.Background(), message{mode: Reliable, end: true})
	return s.ch.c.opError("close", err)
}

func (s *stream) Close() error {
	c := s.ch.c
	if s.ch.number == 0 {
		return c.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.set.closeTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.ch.closeLocked() || s.ch.ended || c.out.Err() != nil {
		return nil
	}
	_, err := s.ch.sendUnlocking(ctx, message{mode: Reliable, end: true})
	return c.opError("close", err)
}
