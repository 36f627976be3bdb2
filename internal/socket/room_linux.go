package socket

import (
	"sync"
	"syscall"
	"unsafe"

	"volley/internal/deadline"
)

// Each writer of a socket has its own deadline, but the runtime's poller knows one
// for all. So writers wait for a channel, which a goroutine closes that waits in
// the poller while the send buffer is full.

// A sendRoom is where writers wait for room in the send buffer.
type sendRoom struct {
	mu    sync.Mutex
	ready chan struct{} // closed when there is room, or the socket is closed; nil: nobody waits
}

// WriteBatchBy implements DeadlineWriter.
func (s *linuxSocket) WriteBatchBy(ps []Packet, d *deadline.Deadline) (int, error) {
	return s.writeBatch(ps, d, 0)
}

// waitBy repeats a call on a full send buffer until there is room or the deadline passes.
func (op *sendOp) waitBy(d *deadline.Deadline) error {
	passed := d.Arm()
	defer d.Disarm()
	for op.errno == syscall.EAGAIN {
		select {
		case <-op.socket.roomToSend():
		case <-passed:
			return ErrLate
		}
		if err := op.socket.raw.Control(op.try); err != nil {
			return err
		}
	}
	return nil
}

// roomToSend returns what is closed as soon as there is room.
func (s *linuxSocket) roomToSend() <-chan struct{} {
	r := &s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready == nil {
		r.ready = make(chan struct{})
		go s.watchRoom(r.ready)
	}
	return r.ready
}

func (s *linuxSocket) watchRoom(ready chan struct{}) {
	_ = s.raw.Write(s.kernel.writable) // fails after Close, which the writers see next
	s.room.mu.Lock()
	s.room.ready = nil
	s.room.mu.Unlock()
	close(ready)
}

// pollfd is struct pollfd of poll(2).
type pollfd struct {
	fd              int32
	events, revents int16
}

const (
	pollIn  = 1
	pollOut = 4
)

func (*linuxKernel) writable(fd uintptr) bool { return poll(fd, pollOut) }
func (*linuxKernel) readable(fd uintptr) bool { return poll(fd, pollIn) }

// poll reports whether one of the events, or an error, is there. It does not wait.
func poll(fd uintptr, events int16) bool {
	p := pollfd{fd: int32(fd), events: events}
	var now syscall.Timespec
	n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1,
		uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return n != 0 || errno != 0
}
