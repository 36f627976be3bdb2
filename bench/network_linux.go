package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// ownNetwork makes a process start in a network of its own, without devices but
// loopback. Who is not root becomes it in a user namespace.
func ownNetwork() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// startLoopback switches on the loopback device of a new network.
func startLoopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	var request struct { // struct ifreq
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}

// datagramsSent returns how many UDP datagrams (IPv4) have left all sockets of
// this network, where that is its own; else 0. What the kernel splits after the
// socket counts once. Each datagram is counted by its sender only, so both
// directions are counted once each.
func datagramsSent() uint64 {
	if os.Getenv(networkEnv) == "" {
		return 0
	}
	snmp, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		return 0
	}
	var names [][]byte
	for line := range bytes.Lines(snmp) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != "Udp:" {
			continue
		}
		if names == nil { // the first such line names the fields of the second
			names = fields
			continue
		}
		for i, name := range names {
			if string(name) == "OutDatagrams" && i < len(fields) {
				n, _ := strconv.ParseUint(string(fields[i]), 10, 64)
				return n
			}
		}
	}
	return 0
}
