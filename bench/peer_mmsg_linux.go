package main

import (
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsgPeers are those that need a system call of Linux.
var mmsgPeers = []*peer{{
	name:  "mmsg",
	about: "bare UDP sockets; the server hands the kernel its message for all clients with sendmmsg, up to 1024 in a call",
	modes: []string{}, loadModes: []string{modeFanOut}, connectionless: true,
	listen: udpPeer.listen,
	dial:   udpPeer.dial,
	fanOut: mmsgFanOut,
}}

// mmsgMost is how many messages one sendmmsg takes.
const mmsgMost = 1024

// mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// mmsgFanOut prepares to send one message to all.
func mmsgFanOut(links []link) func(msg []byte) error {
	var c *net.UDPConn
	names := make([]unix.RawSockaddrInet4, len(links))
	headers := make([]mmsghdr, len(links))
	var content unix.Iovec
	for i, l := range links {
		t := l.(udpTarget)
		c = t.c
		names[i] = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: t.addr.Addr().As4()}
		*(*[2]byte)(unsafe.Pointer(&names[i].Port)) = [2]byte{byte(t.addr.Port() >> 8), byte(t.addr.Port())}
		h := &headers[i].hdr
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(&names[i])), unix.SizeofSockaddrInet4
		h.Iov = &content
		h.SetIovlen(1)
	}
	raw, err := c.SyscallConn()
	return func(msg []byte) error {
		if err != nil {
			return err
		}
		content.Base = &msg[0]
		content.SetLen(len(msg))
		return sendAll(raw, headers)
	}
}

// sendAll calls sendmmsg until all have left.
func sendAll(raw syscall.RawConn, headers []mmsghdr) error {
	var errno syscall.Errno
	err := raw.Write(func(fd uintptr) bool {
		for len(headers) > 0 {
			var n uintptr
			n, _, errno = syscall.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&headers[0])),
				uintptr(min(len(headers), mmsgMost)), 0, 0, 0)
			switch errno {
			case 0:
				headers = headers[n:]
			case syscall.EINTR:
			case syscall.EAGAIN:
				return false
			default:
				return true
			}
		}
		return true
	})
	if err == nil && len(headers) > 0 {
		err = os.NewSyscallError("sendmmsg", errno)
	}
	return err
}
