package socket

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A waker waits for packets of many unread sockets with one goroutine, in the runtime's
// poller on a descriptor of epoll.
type waker struct {
	file  *os.File // of epoll
	raw   syscall.RawConn
	epoll int
	socks map[int32]*linuxSocket // by descriptor; guarded by wakers.mu
}

// wakers holds the one waker while a socket uses it.
var wakers struct {
	mu  sync.Mutex
	now *waker
}

// A wakeState is a socket's part, guarded by wakers.mu.
type wakeState struct {
	waker   *waker // that knows the socket, until Close; nil: none yet
	fd      int32
	sleeper Sleeper // nil: there is none
}

var errNoPolling = errors.New("socket: no polling of epoll")

// WakeOnPacket implements Notifier.
func (s *linuxSocket) WakeOnPacket(sleeper Sleeper) error {
	wakers.mu.Lock()
	defer wakers.mu.Unlock()
	if s.open.closed.Load() {
		return net.ErrClosed
	}
	// A closed descriptor's number may belong to another file.
	if w := s.wake.waker; w != nil && w.socks[s.wake.fd] == s {
		s.wake.sleeper = sleeper
		return w.control(syscall.EPOLL_CTL_MOD, s.wake.fd, sleeper != nil)
	}
	if sleeper == nil {
		return nil
	}
	return s.watchLocked(sleeper)
}

func (s *linuxSocket) watchLocked(sleeper Sleeper) (err error) {
	if wakers.now == nil {
		if wakers.now, err = newWaker(); err != nil {
			return err
		}
	}
	w := wakers.now
	controlErr := s.raw.Control(func(fd uintptr) {
		if err = w.control(syscall.EPOLL_CTL_ADD, int32(fd), true); err == nil {
			w.socks[int32(fd)] = s
			s.wake = wakeState{w, int32(fd), sleeper}
		}
	})
	if len(w.socks) == 0 {
		w.closeLocked()
	}
	return errors.Join(controlErr, err)
}

// control asks for one event of a descriptor, or for none.
func (w *waker) control(op int, fd int32, on bool) error {
	event := syscall.EpollEvent{Events: syscall.EPOLLONESHOT, Fd: fd}
	if on {
		event.Events |= syscall.EPOLLIN
	}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(w.epoll, op, int(fd), &event))
}

// unwatch makes the waker forget a socket that is about to be closed.
func (s *linuxSocket) unwatch() {
	wakers.mu.Lock()
	defer wakers.mu.Unlock()
	w, fd := s.wake.waker, s.wake.fd
	s.wake = wakeState{}
	if w == nil || w.socks[fd] != s {
		return
	}
	delete(w.socks, fd)
	_ = s.raw.Control(func(fd uintptr) {
		_ = syscall.EpollCtl(w.epoll, syscall.EPOLL_CTL_DEL, int(fd), nil)
	})
	if len(w.socks) == 0 {
		w.closeLocked()
	}
}

func newWaker() (*waker, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	_ = syscall.SetNonblock(fd, true) // else the next but one fails
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil || file.SetReadDeadline(time.Time{}) != nil {
		file.Close()
		return nil, errNoPolling
	}
	w := &waker{file: file, raw: raw, epoll: fd, socks: make(map[int32]*linuxSocket)}
	go w.run()
	return w, nil
}

func (w *waker) closeLocked() {
	wakers.now = nil
	w.file.Close()
}

func (w *waker) run() {
	var events [16]syscall.EpollEvent
	var n int
	wait := func(fd uintptr) bool {
		err := error(syscall.EINTR)
		for err == syscall.EINTR {
			n, err = syscall.EpollWait(int(fd), events[:], 0)
		}
		return n > 0
	}
	for w.raw.Read(wait) == nil {
		for _, e := range events[:n] {
			if sleeper := w.take(e.Fd); sleeper != nil {
				sleeper.WakeUp()
			}
		}
	}
}

// take returns the sleeper of a descriptor, once.
func (w *waker) take(fd int32) (sleeper Sleeper) {
	wakers.mu.Lock()
	defer wakers.mu.Unlock()
	if s := w.socks[fd]; s != nil {
		sleeper, s.wake.sleeper = s.wake.sleeper, nil
	}
	return sleeper
}
