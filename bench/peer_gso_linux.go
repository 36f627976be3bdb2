package main

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
)

// Numbers that the syscall package lacks.
const (
	solUDP     = 17
	udpSegment = 103
	udpGRO     = 104
)

const (
	gsoSegments = 64    // datagrams in a run, at most
	gsoBytes    = 60000 // bytes in a run, at most
	gsoFragment = 1024  // bytes of a fragment of gso1
)

var gsoPeers = []*peer{{
	name:   "gso",
	about:  "bare UDP sockets with UDP_SEGMENT and UDP_GRO, as many messages a system call as there are, no connection: the ceiling",
	window: wideWindow, connectionless: true,
	listen: func(size int) (listener, error) { return listenGSO(size, size) },
	dial:   func(addr string, size int) (link, error) { return dialGSO(addr, size, size) },
}, {
	name:   "gso1",
	about:  "the same with one system call a message, in fragments of 1024 bytes if it is larger than 1200",
	window: wideWindow, connectionless: true,
	listen: func(size int) (listener, error) { return listenGSO(size, fragmentOf(size)) },
	dial: func(addr string, size int) (link, error) {
		l, err := dialGSO(addr, size, fragmentOf(size))
		if err != nil {
			return nil, err
		}
		l.eager = true
		return l, nil
	},
}}

func fragmentOf(size int) int {
	if size > 1200 {
		return gsoFragment
	}
	return size
}

// A gsoLink sends messages of one size as runs of segments.
type gsoLink struct {
	c             *net.UDPConn
	size, segment int // bytes
	dialed        bool
	eager         bool // send every message at once

	out        []byte
	oob        []byte // control message to send, as large as needed for one
	in, unread []byte
	inOOB      []byte
	last       netip.AddrPort
}

func listenGSO(size, segment int) (listener, error) {
	c, err := listenUDP()
	if err != nil {
		return nil, err
	}
	l, err := newGSOLink(c, size, segment)
	if err != nil {
		return nil, err
	}
	return newOneLinkListener(l, c.LocalAddr()), nil
}

func dialGSO(addr string, size, segment int) (*gsoLink, error) {
	c, err := dialUDP(addr)
	if err != nil {
		return nil, err
	}
	l, err := newGSOLink(c, size, segment)
	if err != nil {
		return nil, err
	}
	l.dialed = true
	return l, nil
}

func newGSOLink(c *net.UDPConn, size, segment int) (*gsoLink, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	controlErr := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), solUDP, udpGRO, 1) })
	if controlErr != nil {
		err = controlErr
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &gsoLink{
		c: c, size: size, segment: segment,
		oob: segmentControl(segment), in: make([]byte, 1<<16), inOOB: make([]byte, 64),
	}, nil
}

// segmentControl returns the control message of UDP_SEGMENT.
func segmentControl(segment int) []byte {
	b := make([]byte, syscall.CmsgSpace(2))
	putLen(b, syscall.CmsgLen(2))
	i := syscall.CmsgLen(0)
	binary.NativeEndian.PutUint32(b[i-8:], solUDP)
	binary.NativeEndian.PutUint32(b[i-4:], udpSegment)
	binary.NativeEndian.PutUint16(b[i:], uint16(segment))
	return b
}

// putLen writes the first field of a control message, which is as wide as a
// pointer.
func putLen(b []byte, n int) {
	if syscall.SizeofCmsghdr == 12 {
		binary.NativeEndian.PutUint32(b, uint32(n))
		return
	}
	binary.NativeEndian.PutUint64(b, uint64(n))
}

func (l *gsoLink) WriteMessage(b []byte) error {
	l.out = append(l.out, b...)
	// A message of the other size, the greeting, would break the run.
	full := len(l.out)+l.size > min(gsoBytes, gsoSegments*l.segment)
	if l.eager || full || len(b) != l.size {
		return l.Flush()
	}
	return nil
}

func (l *gsoLink) Flush() error {
	b := l.out
	if len(b) == 0 {
		return nil
	}
	l.out = l.out[:0]
	oob := l.oob
	if len(b) <= l.segment {
		oob = nil
	}
	var err error
	if l.dialed {
		_, _, err = l.c.WriteMsgUDPAddrPort(b, oob, netip.AddrPort{})
	} else {
		_, _, err = l.c.WriteMsgUDPAddrPort(b, oob, l.last)
	}
	return err
}

// ReadMessage counts on runs arriving whole, as they do on the loopback device.
func (l *gsoLink) ReadMessage([]byte) ([]byte, error) {
	if len(l.unread) == 0 {
		n, _, _, from, err := l.c.ReadMsgUDPAddrPort(l.in, l.inOOB)
		if err != nil {
			return nil, err
		}
		l.unread, l.last = l.in[:n], from
	}
	n := min(l.size, len(l.unread))
	msg := l.unread[:n]
	l.unread = l.unread[n:]
	return msg, nil
}

func (l *gsoLink) Close() error { return l.c.Close() }
