package socket

import (
	"net/netip"
	"sync"
	"syscall"
	"unsafe"

	"volley/internal/deadline"
)

// A oneOp is the memory for sending one datagram, less than a sendOp.
type oneOp struct {
	socket *linuxSocket
	msg    [1]mmsghdr
	iov    syscall.Iovec
	name   sockaddr
	errno  syscall.Errno
	try    func(fd uintptr) // made once, so that sending allocates nothing
}

var oneOps = sync.Pool{New: func() any {
	op := new(oneOp)
	h := &op.msg[0].hdr
	h.Iov = &op.iov
	setLen(&h.Iovlen, 1)
	op.try = func(fd uintptr) {
		op.socket.sendCalls.Add(1)
		_, op.errno = op.socket.kernel.send(fd, op.msg[:])
	}
	return op
}}

// WriteOneBy implements DeadlineWriter.
func (s *linuxSocket) WriteOneBy(b []byte, to netip.AddrPort, from netip.Addr, d *deadline.Deadline) error {
	var errno syscall.Errno
	if !from.IsValid() || !s.manyAddrs {
		var err error
		if errno, err = s.sendOne(b, to); err != nil || errno == 0 {
			return err
		}
	}
	ps := [1]Packet{{Buf: b, Addr: to, Local: from}}
	_, err := s.writeBatch(ps[:], d, errno)
	return err
}

func (s *linuxSocket) sendOne(b []byte, to netip.AddrPort) (syscall.Errno, error) {
	op := oneOps.Get().(*oneOp)
	op.socket = s
	op.iov.Base = unsafe.SliceData(b)
	op.iov.SetLen(len(b))
	err := op.address(to)
	if err == nil {
		err = s.raw.Control(op.try)
	}
	errno := op.errno
	op.socket, op.iov.Base = nil, nil
	oneOps.Put(op)
	return errno, err
}

func (op *oneOp) address(to netip.AddrPort) error {
	h := &op.msg[0].hdr
	h.Name, h.Namelen = nil, 0
	if op.socket.peer.IsValid() {
		return nil
	}
	n, err := putSockaddr(&op.name, int(op.socket.family), to)
	if err == nil {
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(&op.name)), uint32(n)
	}
	return err
}
