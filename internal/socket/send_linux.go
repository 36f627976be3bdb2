package socket

import (
	"errors"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"volley/internal/deadline"
)

const (
	// sendMessages is the largest number of messages that one call sends.
	sendMessages = 64

	// maxMessageBytes is the largest message: an IPv4 datagram without headers.
	maxMessageBytes = 65507
)

// A piece is the part of a Packet that goes out as one message.
type piece struct {
	elem     int // index of the Packet
	off, end int // bytes of its Buf
	segment  int // size of the datagrams; zero: the piece is one
}

// A sendOp is the memory for one call, with functions that are made once.
type sendOp struct {
	socket *linuxSocket
	msgs   [sendMessages]mmsghdr
	iovs   [sendMessages]syscall.Iovec
	names  [sendMessages]sockaddr
	ctls   [sendMessages]control
	pieces [sendMessages]piece
	n      int                // messages filled in
	used   int                // messages ever filled in since op left the pool
	addr   netip.AddrPort     // destination put last into names
	until  *deadline.Deadline // how long to wait for room; nil: as long as it takes
	tried  syscall.Errno      // outcome of a call that was made already for the first messages; 0: none was

	sent  int // messages sent by the last call
	errno syscall.Errno

	try   func(fd uintptr)
	retry func(fd uintptr) bool
}

var sendOps = sync.Pool{New: func() any {
	op := new(sendOp)
	op.try = func(fd uintptr) { op.call(fd) }
	op.retry = func(fd uintptr) bool { return op.call(fd) != syscall.EAGAIN }
	return op
}}

func (op *sendOp) call(fd uintptr) syscall.Errno {
	op.socket.sendCalls.Add(1)
	op.sent, op.errno = op.socket.kernel.send(fd, op.msgs[:op.n])
	return op.errno
}

// WriteBatch implements Socket. An error in a run does not stop the rest of the run.
func (s *linuxSocket) WriteBatch(ps []Packet) (int, error) { return s.writeBatch(ps, nil, 0) }

// writeBatch is WriteBatch until a deadline or nil. Tried is an earlier error, or 0.
func (s *linuxSocket) writeBatch(ps []Packet, until *deadline.Deadline, tried syscall.Errno) (int, error) {
	op := sendOps.Get().(*sendOp)
	op.socket, op.until, op.tried = s, until, tried
	defer op.recycle()
	for elem, off := 0, 0; elem < len(ps); {
		if err := op.fill(ps, elem, off); err != nil {
			return elem, err
		}
		sent, err := op.send()
		if err == ErrLate {
			ps[elem].Buf = ps[elem].Buf[off:]
			return elem, err
		}
		if err != nil {
			if err := op.rescue(&ps[elem], op.pieces[0], err); err != nil {
				return elem, sendError(err)
			}
			elem, off = elem+1, 0
			continue
		}
		if op.pieces[sent-1].segment > 0 {
			s.gso.took()
		}
		elem, off = op.next(ps, sent)
	}
	return len(ps), nil
}

// recycle returns op to the pool, without the callers' buffers.
func (op *sendOp) recycle() {
	for i := range op.used {
		op.iovs[i].Base = nil
	}
	op.n, op.used, op.socket, op.until, op.tried = 0, 0, nil, nil, 0
	sendOps.Put(op)
}

// fill makes messages of ps from byte off of element elem on, or fails if it can make none.
func (op *sendOp) fill(ps []Packet, elem, off int) error {
	op.n = 0
	for elem < len(ps) && op.n < sendMessages {
		p := &ps[elem]
		pc := op.socket.cut(p, off)
		pc.elem = elem
		if err := op.add(p, pc); err != nil {
			if op.n > 0 {
				return nil // it comes first in the next call
			}
			return err
		}
		if off = pc.end; off == len(p.Buf) {
			elem, off = elem+1, 0
		}
	}
	return nil
}

// next returns where to go on when the first sent messages have left.
func (op *sendOp) next(ps []Packet, sent int) (elem, off int) {
	if sent < op.n {
		return op.pieces[sent].elem, op.pieces[sent].off
	}
	last := op.pieces[sent-1]
	if last.end == len(ps[last.elem].Buf) {
		return last.elem + 1, 0
	}
	return last.elem, last.end
}

// cut returns the piece of p at byte off: all datagrams that may go as one message.
func (s *linuxSocket) cut(p *Packet, off int) piece {
	rest := len(p.Buf) - off
	if p.Segment <= 0 || rest <= p.Segment {
		return piece{off: off, end: len(p.Buf)}
	}
	count := min(int(s.gso.maxSegments.Load()), maxMessageBytes/p.Segment)
	if count < 2 || !s.gso.allows(p.Segment, s.destination(p)) {
		return piece{off: off, end: off + p.Segment}
	}
	return piece{off: off, end: off + min(rest, count*p.Segment), segment: p.Segment}
}

func (s *linuxSocket) destination(p *Packet) netip.AddrPort {
	if s.peer.IsValid() {
		return s.peer
	}
	return p.Addr
}

// add appends the message for pc, a piece of p.
func (op *sendOp) add(p *Packet, pc piece) error {
	i := op.n
	h := &op.msgs[i].hdr
	if err := op.address(i, p.Addr); err != nil {
		return err
	}
	op.iovs[i].Base = unsafe.SliceData(p.Buf[pc.off:pc.end])
	op.iovs[i].SetLen(pc.end - pc.off)
	h.Iov = &op.iovs[i]
	setLen(&h.Iovlen, 1)
	op.control(i, p, pc)
	op.pieces[i] = pc
	op.n++
	op.used = max(op.used, op.n)
	return nil
}

// control sets the control messages of message i: none, for most.
func (op *sendOp) control(i int, p *Packet, pc piece) {
	h, c, n := &op.msgs[i].hdr, &op.ctls[i], 0
	h.Control, h.Controllen = nil, 0
	if pc.segment > 0 {
		n = c.appendSegment(n, pc.segment)
	}
	if p.Local.IsValid() && op.socket.manyAddrs {
		n = c.appendLocal(n, p.Local)
	}
	if n > 0 {
		h.Control = &c.bytes()[0]
		h.SetControllen(n)
	}
}

// address sets the destination of message i, often that of the message before.
func (op *sendOp) address(i int, addr netip.AddrPort) error {
	h := &op.msgs[i].hdr
	if op.socket.peer.IsValid() {
		h.Name, h.Namelen = nil, 0
		return nil
	}
	if i > 0 && addr == op.addr {
		before := &op.msgs[i-1].hdr
		h.Name, h.Namelen = before.Name, before.Namelen
		return nil
	}
	n, err := putSockaddr(&op.names[i], int(op.socket.family), addr)
	if err != nil {
		return err
	}
	h.Name, h.Namelen = (*byte)(unsafe.Pointer(&op.names[i])), uint32(n)
	op.addr = addr
	return nil
}

// send sends at least one message unless it fails. It takes the write lock only to wait.
func (op *sendOp) send() (int, error) {
	raw := op.socket.raw
	if op.tried != 0 {
		op.errno, op.tried = op.tried, 0
	} else if err := raw.Control(op.try); err != nil {
		return 0, err
	}
	if op.errno == syscall.EAGAIN {
		err := error(nil)
		if op.until == nil {
			err = raw.Write(op.retry)
		} else {
			err = op.waitBy(op.until)
		}
		if err != nil {
			return 0, err
		}
	}
	if op.errno != 0 {
		return 0, op.errno
	}
	return op.sent, nil
}

// sendError says which call an error number is from.
func sendError(err error) error {
	if errno, ok := err.(syscall.Errno); ok {
		return os.NewSyscallError("sendmsg", errno)
	}
	return err
}

func (op *sendOp) sendPiece(p *Packet, pc piece) error {
	op.n = 0
	if err := op.add(p, pc); err != nil {
		return err
	}
	_, err := op.send()
	return err
}

// rescue sends p from its failed piece on, in shorter runs or singly, and returns the first error.
func (op *sendOp) rescue(p *Packet, pc piece, err error) (first error) {
	for {
		if errors.Is(err, syscall.EINVAL) && op.socket.gso.shorten(pc) {
			pc = op.socket.cut(p, pc.off)
			err = op.sendPiece(p, pc)
		}
		if err != nil {
			err = op.again(p, pc, err)
		}
		if err != nil && first == nil {
			first = err
		}
		if pc.end == len(p.Buf) || err != nil && !IsTransient(err) {
			return first
		}
		pc = op.socket.cut(p, pc.end)
		err = op.sendPiece(p, pc)
	}
}

// again retries a piece that failed with err, and returns the error that remains.
func (op *sendOp) again(p *Packet, pc piece, err error) error {
	s := op.socket
	for range s.retries(err) {
		s.retried.Add(1)
		if err = op.sendPiece(p, pc); err == nil {
			return nil
		}
	}
	if pc.segment == 0 || !refusesRun(err) {
		return err
	}
	return op.split(p, pc, err)
}

// sendRetries is how often a connected socket sends again: each call takes one error.
const sendRetries = 2

// retries returns how often to repeat after err, which may be an earlier datagram's.
func (s *linuxSocket) retries(err error) int {
	switch {
	case !IsTransient(err):
		return 0
	case s.peer.IsValid():
		return sendRetries
	case errors.Is(err, syscall.EPERM) && s.permissionRetried.CompareAndSwap(false, true):
		// Linux refuses the first datagram of a socket now and then for no
		// reason (https://go.dev/issue/63322).
		return 1
	}
	return 0
}

// refusesRun reports whether err may be about a run and not its datagrams: a device
// without checksums (EIO), a faulty kernel or device (EINVAL), a small MTU (EMSGSIZE).
func refusesRun(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EMSGSIZE)
}

// split sends a run one by one. If that works, no more runs like it go there.
func (op *sendOp) split(p *Packet, run piece, err error) (first error) {
	s := op.socket
	for off := run.off; off < run.end; off += run.segment {
		one := piece{off: off, end: min(off+run.segment, run.end)}
		e := op.sendPiece(p, one)
		if e != nil {
			e = op.again(p, one, e)
		}
		if e != nil && first == nil {
			first = e
		}
		if e != nil && !IsTransient(e) {
			return first
		}
	}
	if first == nil {
		s.fallbacks.Add(1)
		s.gso.refuse(run.segment, s.destination(p).Addr(), err)
	}
	return first
}
