package socket

import (
	"net"
	"os"
	"syscall"
)

// readMost is how many packets ReadReady reads, so that a flood cannot keep its
// caller for ever.
const readMost = 4096

// ReadReady implements Poller.
func (s *linuxSocket) ReadReady(handle func([]Packet)) error {
	r := &s.recv
	r.handle = handle
	if r.ready == nil {
		r.ready = s.readReady
	}
	if err := s.raw.Read(r.ready); err != nil {
		return err
	}
	if s.open.closed.Load() {
		return net.ErrClosed
	}
	if r.errno != 0 {
		return os.NewSyscallError("recvmsg", syscall.Errno(r.errno))
	}
	return nil
}

// readReady hands over all that is there. It always returns true.
func (s *linuxSocket) readReady(fd uintptr) bool {
	r := &s.recv
	r.errno = 0
	r.op = receiveOps.Get().(*receiveOp)
	defer r.release()
	for read := 0; read < readMost && !s.open.closed.Load(); {
		n, errno := s.kernel.receive(fd, r.op.prepare(recvMessages, s.peer.IsValid()), false)
		s.readCalls.Add(1)
		if errno != 0 {
			if errno != syscall.EAGAIN {
				r.errno = int32(errno)
			}
			break
		}
		ps := r.op.packets[:n]
		for i := range ps {
			s.describe(&ps[i], i)
		}
		s.hand(ps)
		if read += n; n < recvMessages {
			break
		}
	}
	r.handle(nil)
	return true
}
