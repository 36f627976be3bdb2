package socket

import (
	"os"
	"syscall"
	"unsafe"
)

// Socket options and levels that the syscall package lacks.
const (
	solUDP     = 17  // SOL_UDP
	udpSegment = 103 // UDP_SEGMENT: segment size of a run to send
	udpGRO     = 104 // UDP_GRO: receive runs whole
	soDomain   = 39  // SO_DOMAIN: address family of the socket
	soMemInfo  = 55  // SO_MEMINFO: queue lengths, limits and drops

	memInfoVars  = 9 // SK_MEMINFO_VARS
	memInfoDrops = 8 // SK_MEMINFO_DROPS
)

// A kernel makes the system calls of a socket. Tests use one that fails.
type kernel interface {
	// send sends the first messages of msgs, without waiting, and returns how
	// many. If it is none, errno says why the first was not sent.
	send(fd uintptr, msgs []mmsghdr) (n int, errno syscall.Errno)
	// receive fills the first messages of msgs, without waiting, and returns
	// how many, none only with an errno. Tell makes the call through the scheduler.
	receive(fd uintptr, msgs []mmsghdr, tell bool) (n int, errno syscall.Errno)
	getsockopt(fd uintptr, level, name int) (int, error)
	setsockopt(fd uintptr, level, name, value int) error
	// drops returns how many datagrams the socket has dropped so far.
	drops(fd uintptr) (n uint32, ok bool)
	// writable reports whether there is room in the send buffer.
	writable(fd uintptr) bool
	// readable reports whether there is something to receive.
	readable(fd uintptr) bool
	// release returns the version of the kernel as uname tells it.
	release() string
}

// mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	hdr syscall.Msghdr
	len uint32 // bytes received
}

// linuxKernel is the real one.
type linuxKernel struct{}

// send takes the cheapest call. If a filter refuses sendmmsg (ENOSYS), it sends one message.
func (*linuxKernel) send(fd uintptr, msgs []mmsghdr) (int, syscall.Errno) {
	if len(msgs) > 1 {
		n, errno := messageCall(sysSendmmsg, fd, unsafe.Pointer(&msgs[0]), len(msgs), syscall.MSG_DONTWAIT, false)
		if errno != syscall.ENOSYS {
			return n, errno
		}
	}
	h := &msgs[0].hdr
	errno := syscall.Errno(0)
	if h.Control == nil && h.Iovlen == 1 {
		errno = sendto(fd, h)
	} else {
		_, errno = messageCall(sysSendmsg, fd, unsafe.Pointer(h), syscall.MSG_DONTWAIT, 0, false)
	}
	if errno != 0 {
		return 0, errno
	}
	return 1, 0
}

// sendto sends one datagram; the kernel need not read a message header.
func sendto(fd uintptr, h *syscall.Msghdr) syscall.Errno {
	for {
		_, _, errno := syscall.RawSyscall6(sysSendto, fd,
			uintptr(unsafe.Pointer(h.Iov.Base)), uintptr(h.Iov.Len), syscall.MSG_DONTWAIT,
			uintptr(unsafe.Pointer(h.Name)), uintptr(h.Namelen))
		if errno != syscall.EINTR {
			return errno
		}
	}
}

func (*linuxKernel) receive(fd uintptr, msgs []mmsghdr, tell bool) (int, syscall.Errno) {
	if len(msgs) > 1 {
		n, errno := messageCall(syscall.SYS_RECVMMSG, fd, unsafe.Pointer(&msgs[0]), len(msgs), syscall.MSG_DONTWAIT, tell)
		if errno != syscall.ENOSYS {
			return n, errno
		}
	}
	n, errno := messageCall(sysRecvmsg, fd, unsafe.Pointer(&msgs[0].hdr), syscall.MSG_DONTWAIT, 0, tell)
	if errno != 0 {
		return 0, errno
	}
	msgs[0].len = uint32(n)
	return 1, 0
}

// messageCall makes a call for messages, again after a signal. See teller for the scheduler.
func messageCall(trap, fd uintptr, p unsafe.Pointer, a, b int, tell bool) (int, syscall.Errno) {
	for {
		var n uintptr
		var errno syscall.Errno
		if tell {
			n, _, errno = syscall.Syscall6(trap, fd, uintptr(p), uintptr(a), uintptr(b), 0, 0)
		} else {
			n, _, errno = syscall.RawSyscall6(trap, fd, uintptr(p), uintptr(a), uintptr(b), 0, 0)
		}
		if errno == 0 {
			return int(n), 0
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

func (*linuxKernel) getsockopt(fd uintptr, level, name int) (int, error) {
	value, err := syscall.GetsockoptInt(int(fd), level, name)
	return value, os.NewSyscallError("getsockopt", err)
}

func (*linuxKernel) setsockopt(fd uintptr, level, name, value int) error {
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), level, name, value))
}

func (*linuxKernel) drops(fd uintptr) (uint32, bool) {
	var vars [memInfoVars]uint32
	size := uint32(unsafe.Sizeof(vars))
	_, _, errno := syscall.Syscall6(sysGetsockopt, fd, syscall.SOL_SOCKET, soMemInfo,
		uintptr(unsafe.Pointer(&vars)), uintptr(unsafe.Pointer(&size)), 0)
	return vars[memInfoDrops], errno == 0 && size == uint32(unsafe.Sizeof(vars))
}

func (*linuxKernel) release() string {
	var name syscall.Utsname
	if syscall.Uname(&name) != nil {
		return ""
	}
	var b []byte
	for _, c := range name.Release {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}
