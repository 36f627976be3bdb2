package socket

import (
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// recvMessages limits a call's messages: beyond it, none gets cheaper.
const recvMessages = 8

// A receiveOp is the memory of one call, taken once something may have come.
type receiveOp struct {
	msgs  [recvMessages]mmsghdr
	iovs  [recvMessages]syscall.Iovec
	names [recvMessages]sockaddr
	ctls  [recvMessages]control
	bufs  [recvMessages]*[maxDatagram]byte

	packets [recvMessages]Packet // used by ReadLoop
}

// One op is kept for good, and taken first, whichever processor the reader runs on.
// So a server with one reader has one op. The pool has those of further readers.
var (
	spareOp    atomic.Pointer[receiveOp]
	receiveOps = sync.Pool{New: func() any { return new(receiveOp) }}
)

func takeReceiveOp() *receiveOp {
	if op := spareOp.Swap(nil); op != nil {
		return op
	}
	return receiveOps.Get().(*receiveOp)
}

func (op *receiveOp) giveBack() {
	if !spareOp.CompareAndSwap(nil, op) {
		receiveOps.Put(op)
	}
}

// prepare makes the first n messages ready to be filled.
func (op *receiveOp) prepare(n int, connected bool) []mmsghdr {
	for i := range n {
		if op.bufs[i] == nil {
			op.attachBuffer(i)
		}
		h := &op.msgs[i].hdr
		h.Name, h.Namelen = nil, 0
		if !connected {
			h.Name = (*byte)(unsafe.Pointer(&op.names[i]))
			h.Namelen = syscall.SizeofSockaddrInet6
		}
		h.SetControllen(controlSize)
		h.Flags = 0
	}
	return op.msgs[:n]
}

func (op *receiveOp) attachBuffer(i int) {
	buf := new([maxDatagram]byte)
	op.bufs[i] = buf
	op.iovs[i].Base = &buf[0]
	op.iovs[i].SetLen(maxDatagram)
	h := &op.msgs[i].hdr
	h.Iov = &op.iovs[i]
	setLen(&h.Iovlen, 1)
	h.Control = (*byte)(unsafe.Pointer(&op.ctls[i]))
}

// A receiver is the state of ReadBatch or ReadLoop, one of which is used at a time.
type receiver struct {
	op    *receiveOp            // whose buffers the caller of ReadBatch has; nil while waiting
	n     int32                 // how many were received
	errno int32                 // a syscall.Errno
	try   func(fd uintptr) bool // tryReceive, made by the first ReadBatch

	handle func([]Packet)        // of ReadLoop
	serve  func(fd uintptr) bool // serveReady, made once
	limit  int32                 // how many messages the caller of ReadBatch has room for
	once   bool                  // ReadStep
	ready  func(fd uintptr) bool // readReady, made by the first ReadReady
	waited bool                  // for the descriptor, before this call
	ask    asker
}

// ReadBatch implements Socket.
func (s *linuxSocket) ReadBatch(ps []Packet) (int, error) {
	if len(ps) == 0 {
		return 0, nil
	}
	r := &s.recv
	r.release()
	r.limit = int32(len(ps))
	if r.try == nil {
		r.try = s.tryReceive
	}
	if err := s.raw.Read(r.try); err != nil {
		ForgetPassed(err, s.conn)
		return 0, err
	}
	if r.errno != 0 {
		r.release()
		return 0, os.NewSyscallError("recvmsg", syscall.Errno(r.errno))
	}
	for i := range int(r.n) {
		s.describe(&ps[i], i)
	}
	return int(r.n), nil
}

// release gives the buffers of the last ReadBatch back.
func (r *receiver) release() {
	if r.op != nil {
		r.op.giveBack()
		r.op = nil
	}
}

// tryReceive receives what is there and returns false if that is nothing.
func (s *linuxSocket) tryReceive(fd uintptr) bool {
	r := &s.recv
	if r.op == nil {
		r.op = takeReceiveOp()
	}
	want := min(r.ask.count(), int(r.limit))
	n, errno := s.kernel.receive(fd, r.op.prepare(want, s.peer.IsValid()), r.waited && tellScheduler())
	r.waited = false
	s.readCalls.Add(1)
	r.n, r.errno = int32(n), int32(errno)
	r.ask.learn(want, n)
	if errno == syscall.EAGAIN {
		r.release()
		r.waited = true
		return false
	}
	return true
}

// An asker decides how many messages to ask for: one, doubled while there are more.
type asker struct {
	exponent uint8 // the count is 1 << exponent
	found    uint8 // calls in a row that got all they asked for
}

// askPatience is how often a call must bring one message before the next asks for two.
const askPatience = 8

func (a *asker) count() int { return 1 << a.exponent }

func (a *asker) learn(asked, got int) {
	if got < asked {
		*a = asker{}
		return
	}
	if a.found < askPatience {
		a.found++
		return
	}
	if asked == a.count() && 2*asked <= recvMessages {
		a.exponent++
	}
}

func (s *linuxSocket) describe(p *Packet, i int) {
	op := s.recv.op
	m := &op.msgs[i]
	size := int(m.len)
	var info controlInfo
	if m.hdr.Controllen > 0 {
		info = op.ctls[i].parse(int(m.hdr.Controllen))
	}
	if info.hasDrops {
		s.drops.Store(info.drops)
	} else {
		info.drops = s.drops.Load()
	}
	if info.segment >= size {
		info.segment = 0 // a run of one
	}
	*p = Packet{
		Buf: op.bufs[i][:size:size], Addr: s.source(&op.names[i]), Local: info.local,
		Segment: info.segment, Drops: info.drops,
	}
}

func (s *linuxSocket) source(name *sockaddr) netip.AddrPort {
	if s.peer.IsValid() {
		return s.peer
	}
	return sockaddrAddrPort(name)
}
