package datagram

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/socket"
	"volley/internal/wire"
)

// A connSocket makes a Socket of a connected net.Conn with message boundaries. Its
// WriteBatch does not wait, as Write might for the other side's reader, which may be about
// to wait for us: a goroutine writes from a queue.
type connSocket struct {
	net.Conn
	closing sync.Once
	result  error // of the first Close
	buf     []byte
	one     [1]socket.Packet // in buf
	limit   int              // bytes queued beyond which datagrams are dropped
	failed  atomic.Uint64
	prompt  bool // nothing is queued
	run     func()
	room    chan struct{} // one token: the queue has become shorter
	flushed chan struct{} // one token: the goroutine has ended

	mu      sync.Mutex
	queue   *wire.Batch
	sending bool // the goroutine is there
	closed  bool
	err     error // of a write, until somebody is told
}

const (
	// foreignQueue is how many bytes may be queued before a writer waits.
	foreignQueue = 64 << 10
	// foreignLinger is how long Close waits for the queue.
	foreignLinger = 100 * time.Millisecond
	// foreignRead is the least size of the read buffer, for connections that
	// fail when one is too short; that of a TLS record.
	foreignRead = 16<<10 + 1
	// promptLag is how late ticks of a prompt connection may come. At 60 messages a
	// second the reader of the next one is there in time, and calls them.
	promptLag = 20 * time.Millisecond
)

// A prompt connection promises that its Write never waits.
type prompt interface{ NeverWaits() }

func newConnSocket(c net.Conn, maxDatagram, maxMessage int) *connSocket {
	s := &connSocket{
		Conn:    c,
		buf:     make([]byte, max(maxDatagram+1, foreignRead)),
		limit:   2 * (foreignQueue + maxMessage),
		room:    make(chan struct{}, 1),
		flushed: make(chan struct{}, 1),
	}
	_, s.prompt = c.(prompt)
	s.run = s.send
	return s
}

// LocalAddr implements socket.Socket.
func (s *connSocket) LocalAddr() net.Addr { return known(s.Conn.LocalAddr()) }

func (s *connSocket) ReadBatch(ps []socket.Packet) (int, error) {
	b, err := s.read()
	if err != nil {
		socket.ForgetPassed(err, s)
		return 0, err
	}
	ps[0] = socket.Packet{Buf: b}
	return 1, nil
}

// read waits for a datagram. If it was longer than the buffer, the rest is missing.
func (s *connSocket) read() ([]byte, error) {
	n, err := s.Read(s.buf)
	if err != nil && (n == 0 || !errors.Is(err, io.ErrShortBuffer)) {
		return nil, err
	}
	return s.buf[:n], nil
}

func (s *connSocket) WriteBatch(ps []socket.Packet) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	if s.queue == nil {
		s.queue = GetBatch()
	}
	for i := range ps {
		s.queueLocked(&ps[i])
	}
	if s.prompt {
		s.sendLocked()
	} else if !s.sending {
		s.sending = true
		go s.run()
	}
	return len(ps), nil
}

// Stats implements socket.Socket.
func (s *connSocket) Stats() socket.Stats { return socket.ReadingOf(s.Conn) }

// Features implements socket.Socket.
func (s *connSocket) Features() socket.Features {
	f := socket.Features{Deadline: s.Conn}
	if s.prompt { // callers of Read may read, because their answers do not wait
		f.Loop, f.Steps = s, s
	}
	return f
}

// ReadLoop implements socket.Looper.
func (s *connSocket) ReadLoop(handle func([]socket.Packet)) error {
	for {
		if err := s.ReadStep(handle); err != nil {
			return err
		}
	}
}

// ReadStep implements socket.Stepper.
func (s *connSocket) ReadStep(handle func([]socket.Packet)) error {
	b, err := s.read()
	if err != nil {
		return err
	}
	s.one[0] = socket.Packet{Buf: b}
	handle(s.one[:])
	return nil
}

// queueLocked queues the datagrams of p: writers have waited, and answers may find no room.
func (s *connSocket) queueLocked(p *socket.Packet) {
	for d, rest := socket.NextDatagram(p.Buf, p.Segment); ; d, rest = socket.NextDatagram(rest, p.Segment) {
		if s.queue.Size() < s.limit {
			s.queue.Append(d)
		} else {
			s.failed.Add(1)
		}
		if rest == nil {
			return
		}
	}
}

// send gives the queue to the connection until it is empty.
func (s *connSocket) send() {
	for {
		s.mu.Lock()
		b := s.queue
		s.queue = nil
		s.sending = b != nil
		s.mu.Unlock()
		signal(s.room)
		if b == nil {
			signal(s.flushed)
			return
		}
		err := s.write(b)
		PutBatch(b)
		s.mu.Lock()
		s.err = cmp.Or(s.err, err)
		s.mu.Unlock()
	}
}

// sendLocked gives the queue to a prompt connection.
func (s *connSocket) sendLocked() {
	s.err = cmp.Or(s.err, s.write(s.queue))
	PutBatch(s.queue)
	s.queue = nil
}

// write gives datagrams to the connection, and returns the first error that does not
// pass.
func (s *connSocket) write(b *wire.Batch) (first error) {
	for i := range b.Len() {
		if _, err := s.Write(b.At(i)); err != nil {
			s.failed.Add(1)
			if first == nil && !socket.IsTransient(err) {
				first = err
			}
		}
	}
	return first
}

// waitRoom waits until there is room for a message.
func (s *connSocket) waitRoom(cancel <-chan struct{}) error {
	for {
		if ok, err := s.hasRoom(); ok || err != nil {
			signal(s.room) // for another one who waits
			return err
		}
		select {
		case <-s.room:
		case <-cancel:
			return os.ErrDeadlineExceeded
		}
	}
}

func (s *connSocket) hasRoom() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, net.ErrClosed
	}
	err := s.err
	s.err = nil
	return s.queue == nil || s.queue.Size() < foreignQueue, err
}

// Close sends what is queued, if that is quick, and closes. Calls return the first's result.
func (s *connSocket) Close() error {
	s.closing.Do(s.close)
	return s.result
}

func (s *connSocket) close() {
	s.mu.Lock()
	s.closed = true
	sending := s.sending
	s.mu.Unlock()
	signal(s.room)
	if sending {
		s.linger()
	}
	s.result = s.Conn.Close()
}

func (s *connSocket) linger() {
	t := time.NewTimer(foreignLinger)
	defer t.Stop()
	for {
		select {
		case <-s.flushed: // perhaps long ago
			s.mu.Lock()
			sending := s.sending
			s.mu.Unlock()
			if !sending {
				return
			}
		case <-t.C:
			return
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// A Foreign is a Conn on any net.Conn that preserves message boundaries.
type Foreign struct {
	*Single
	sock *connSocket
}

var _ Conn = (*Foreign)(nil)

// NewForeign returns a Conn on c, which it takes over. It cuts datagrams longer than
// maxDatagram, which become invalid above. Callers of WriteBatch call WaitWritable first,
// and then write at most maxMessage bytes.
func NewForeign(c net.Conn, maxDatagram, maxMessage int) *Foreign {
	c.SetDeadline(time.Time{})
	sock := newConnSocket(c, maxDatagram, maxMessage)
	f := &Foreign{NewSingle(sock, known(c.RemoteAddr()), maxDatagram), sock}
	if sock.prompt {
		f.timers.lag = promptLag
	}
	return f
}

// WaitWritable waits until most is written. It returns a lasting error of a write, once.
func (c *Foreign) WaitWritable(_ int, cancel <-chan struct{}) error { return c.sock.waitRoom(cancel) }

// Stats returns what happened below the connection.
func (c *Foreign) Stats() Stats {
	s := c.Single.Stats()
	s.WriteErrors += c.sock.failed.Load()
	return s
}

// Features implements Conn.
func (c *Foreign) Features() Features {
	f := c.Single.Features()
	f.Waits = true
	return f
}

// unknownAddr stands for an address that a foreign net.Conn does not tell.
type unknownAddr struct{}

func (unknownAddr) Network() string { return "unknown" }
func (unknownAddr) String() string  { return "unknown" }

func known(a net.Addr) net.Addr {
	if a == nil {
		return unknownAddr{}
	}
	return a
}
