package socket

import (
	"net"
	"os"
	"syscall"
	"time"
)

// ReadLoop implements Looper. Staying in the poller's read, it misses no readiness.
func (s *linuxSocket) ReadLoop(handle func([]Packet)) error { return s.serve(handle, false) }

// ReadStep implements Stepper.
func (s *linuxSocket) ReadStep(handle func([]Packet)) error { return s.serve(handle, true) }

// SetReadDeadline implements Stepper.
func (s *linuxSocket) SetReadDeadline(t time.Time) error { return s.conn.SetReadDeadline(t) }

func (s *linuxSocket) serve(handle func([]Packet), once bool) error {
	s.recv.handle, s.recv.once = handle, once
	return s.read(s.recv.serve)
}

// read calls ready in the poller, which sets the error number.
func (s *linuxSocket) read(ready func(fd uintptr) bool) error {
	if err := s.raw.Read(ready); err != nil {
		return err
	}
	if s.open.closed.Load() {
		return net.ErrClosed
	}
	if errno := s.recv.errno; errno != 0 {
		return os.NewSyscallError("recvmsg", syscall.Errno(errno))
	}
	return nil
}

// serveReady hands over what there is; false: wait. It is true after an error or the end.
func (s *linuxSocket) serveReady(fd uintptr) bool {
	r := &s.recv
	for !s.open.closed.Load() {
		r.op = takeReceiveOp()
		want := r.ask.count()
		if !r.once {
			want = recvMessages // which drains the socket, and sees that none is left
		}
		n, errno := s.kernel.receive(fd, r.op.prepare(want, s.peer.IsValid()), r.waited && tellScheduler())
		r.waited = false
		s.readCalls.Add(1)
		r.errno = int32(errno)
		r.ask.learn(want, n)
		if errno != 0 {
			r.release()
			if r.waited = errno == syscall.EAGAIN; r.waited && !r.once {
				r.handle(nil)
			}
			return !r.waited
		}
		s.hand(n)
		r.release()
		if r.once {
			return true
		}
		if n < want {
			r.handle(nil)
			r.waited = true
			return false
		}
	}
	return true
}

// hand calls the handler with n messages. Close may be called from within it.
func (s *linuxSocket) hand(n int) {
	ps := s.recv.op.packets[:n]
	for i := range ps {
		s.describe(&ps[i], i)
	}
	s.open.busy.Store(true)
	defer s.open.busy.Store(false) // even if it panics
	s.recv.handle(ps)
}

// readMost limits the packets of a ReadReady, so that a flood cannot keep the caller.
const readMost = 4096

// ReadReady implements Poller.
func (s *linuxSocket) ReadReady(handle func([]Packet)) error {
	r := &s.recv
	r.handle = handle
	if r.ready == nil {
		r.ready = s.readReady
	}
	return s.read(r.ready)
}

// readReady hands over all that is there. It always returns true.
func (s *linuxSocket) readReady(fd uintptr) bool {
	r := &s.recv
	r.errno = 0
	r.op = takeReceiveOp()
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
		s.hand(n)
		if read += n; n < recvMessages {
			break
		}
	}
	r.handle(nil)
	return true
}
