package main

import (
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Options of sockets that package syscall lacks on some architectures.
const (
	ipMTUDiscover   = 10
	ipv6MTUDiscover = 23
	pmtudiscProbe   = 3
)

// neverFragment has datagrams leave in one piece or not at all, whatever the path MTU.
func neverFragment(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		// Sockets of IPv6 may carry IPv4, and want both.
		set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipMTUDiscover, pmtudiscProbe)
		if err6 := syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, ipv6MTUDiscover, pmtudiscProbe); err6 == nil {
			set = nil
		}
	})
	if err != nil {
		return err
	}
	return set
}

// systemLimits returns the largest socket buffers that the system grants, and its version.
func systemLimits() (l limits) {
	l.ReadMax = readNumber("/proc/sys/net/core/rmem_max")
	l.WriteMax = readNumber("/proc/sys/net/core/wmem_max")
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		l.Kernel = "Linux " + strings.TrimSpace(string(b))
	}
	return l
}

func readNumber(file string) int {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}
