package socket

import (
	"net"
	"os"
	"syscall"
	"time"
)

// ReadLoop implements Looper. The goroutine stays in the poller's read of the
// descriptor, so it misses no readiness between two reads. So a call that received
// less than it asked for need not be repeated to learn that the socket is empty.
func (s *linuxSocket) ReadLoop(handle func([]Packet)) error { return s.serve(handle, false) }

// ReadStep implements Stepper.
func (s *linuxSocket) ReadStep(handle func([]Packet)) error { return s.serve(handle, true) }

// SetReadDeadline implements Stepper.
func (s *linuxSocket) SetReadDeadline(t time.Time) error { return s.conn.SetReadDeadline(t) }

func (s *linuxSocket) serve(handle func([]Packet), once bool) error {
	r := &s.recv
	r.handle, r.once = handle, once
	if err := s.raw.Read(r.serve); err != nil {
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

// serveReady hands over what there is and returns false to wait for more. It
// returns true after an error, or if the socket is closed.
func (s *linuxSocket) serveReady(fd uintptr) bool {
	r := &s.recv
	for !s.open.closed.Load() {
		r.op = receiveOps.Get().(*receiveOp)
		want := r.ask.count()
		if !r.once {
			want = max(2, want) // with one, none left is not seen
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
		ps := r.op.packets[:n]
		for i := range ps {
			s.describe(&ps[i], i)
		}
		s.hand(ps)
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

// hand calls the handler. Close may be called from within it.
func (s *linuxSocket) hand(ps []Packet) {
	s.open.busy.Store(true)
	defer s.open.busy.Store(false) // even if it panics
	s.recv.handle(ps)
}
