package main

import (
	"cmp"
	"errors"
	"iter"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsgPeers are those that need a system call of Linux.
var mmsgPeers = []*peer{{
	name: "mmsg",
	about: "bare UDP sockets; the server takes up to 64 datagrams from the kernel with recvmmsg, and sends its answers, its messages at a tick, " +
		"or its message for all, with sendmmsg: the floor of a server that serves or polls",
	modes: []string{}, loadModes: []string{modeGame, modeFanOut}, crowd: true,
	listen: func(int) (listener, error) {
		c, err := listenUDP()
		if err != nil {
			return nil, err
		}
		raw, err := c.SyscallConn()
		return &mmsgListener{c: c, raw: raw, links: make(map[netip.AddrPort]*mmsgLink)}, err
	},
	dial:     udpPeer.dial,
	fanOut:   mmsgFanOut,
	sendEach: mmsgSendEach,
}}

// mmsgBatch is how many datagrams one recvmmsg takes.
const mmsgBatch = 64

// An mmsgListener handles what arrives in batches, and sends the answers of a batch
// together.
type mmsgListener struct {
	c     *net.UDPConn
	raw   syscall.RawConn
	links map[netip.AddrPort]*mmsgLink
	out   mmsgQueue // of a batch
	tick  mmsgQueue // of sendEach
}

func (l *mmsgListener) Accept() (link, error) { return nil, errors.ErrUnsupported }
func (l *mmsgListener) Addr() net.Addr        { return l.c.LocalAddr() }
func (l *mmsgListener) Close() error          { return l.c.Close() }

// Serve implements handlerListener.
func (l *mmsgListener) Serve(handle func(l link, msg []byte)) error {
	var in mmsgQueue
	for range mmsgBatch {
		in.add(netip.AddrPort{}, make([]byte, 2048))
	}
	for {
		n, err := l.receive(&in)
		if err != nil {
			return err
		}
		for i := range in.headers[:n] {
			handle(l.link(in.addr(i)), in.data[i][:in.headers[i].len])
		}
		if err := l.out.send(l.raw); err != nil {
			return err
		}
	}
}

// receive waits for datagrams, and returns how many there are.
func (l *mmsgListener) receive(in *mmsgQueue) (n int, err error) {
	in.arrange()
	e := l.raw.Read(func(fd uintptr) bool {
		r, _, errno := syscall.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&in.headers[0])),
			uintptr(len(in.headers)), unix.MSG_DONTWAIT, 0, 0)
		n = int(r)
		switch errno {
		case 0:
			return true
		case syscall.EAGAIN, syscall.EINTR:
			return false
		}
		err = os.NewSyscallError("recvmmsg", errno)
		return true
	})
	return n, cmp.Or(err, e)
}

func (l *mmsgListener) link(from netip.AddrPort) *mmsgLink {
	k := l.links[from]
	if k == nil {
		k = &mmsgLink{udpTarget{udpLink{l.c}, from}, l}
		l.links[from] = k
	}
	return k
}

// An mmsgLink leads to a client. What is written to it in the handler leaves with the batch.
type mmsgLink struct {
	udpTarget
	l *mmsgListener
}

func (l *mmsgLink) WriteMessage(b []byte) error {
	l.l.out.add(l.addr, slices.Clone(b))
	return nil
}

func mmsgSendEach(msgs iter.Seq2[link, []byte]) error {
	var q *mmsgQueue
	var raw syscall.RawConn
	for l, msg := range msgs {
		k := l.(*mmsgLink)
		q, raw = &k.l.tick, k.l.raw
		q.add(k.addr, slices.Clone(msg))
	}
	return q.send(raw)
}

// An mmsgQueue is datagrams for one call.
type mmsgQueue struct {
	names   []unix.RawSockaddrInet4
	content []unix.Iovec
	data    [][]byte
	headers []mmsghdr
}

func (q *mmsgQueue) add(to netip.AddrPort, b []byte) {
	q.names = append(q.names, sockaddr(to))
	q.data = append(q.data, b)
}

// arrange makes the headers.
func (q *mmsgQueue) arrange() {
	q.headers, q.content = slices.Grow(q.headers[:0], len(q.data)), slices.Grow(q.content[:0], len(q.data))
	for i, b := range q.data {
		q.content = append(q.content, unix.Iovec{Base: &b[0]})
		q.content[i].SetLen(len(b))
		var h mmsghdr
		h.hdr.Name, h.hdr.Namelen = (*byte)(unsafe.Pointer(&q.names[i])), unix.SizeofSockaddrInet4
		h.hdr.Iov = &q.content[i]
		h.hdr.SetIovlen(1)
		q.headers = append(q.headers, h)
	}
}

func (q *mmsgQueue) addr(i int) netip.AddrPort {
	p := (*[2]byte)(unsafe.Pointer(&q.names[i].Port))
	return netip.AddrPortFrom(netip.AddrFrom4(q.names[i].Addr), uint16(p[0])<<8|uint16(p[1]))
}

func (q *mmsgQueue) send(raw syscall.RawConn) error {
	if len(q.data) == 0 {
		return nil
	}
	q.arrange()
	err := sendAll(raw, q.headers)
	q.names, q.data = q.names[:0], q.data[:0]
	return err
}

func sockaddr(to netip.AddrPort) (name unix.RawSockaddrInet4) {
	if to.IsValid() {
		name = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: to.Addr().As4()}
		*(*[2]byte)(unsafe.Pointer(&name.Port)) = [2]byte{byte(to.Port() >> 8), byte(to.Port())}
	}
	return name
}

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
		t := l.(*mmsgLink)
		c = t.c
		names[i] = sockaddr(t.addr)
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
