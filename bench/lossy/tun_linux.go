package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const tunName = "link0"

// inHost calls f with a device on a host of its own: a network namespace whose
// only way out is the device. What f opens stays there; f must not start
// goroutines that open more.
func inHost(addr netip.Prefix, f func(tun *os.File) error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, and with it what it belongs to
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return os.NewSyscallError("unshare", err)
			}
			tun, err := openTun(addr)
			if err != nil {
				return err
			}
			if err := f(tun); err != nil {
				tun.Close()
				return err
			}
			return nil
		}()
	}()
	return <-done
}

// openTun opens a device that is up and has an address.
func openTun(addr netip.Prefix) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	if err := setUp(fd, addr); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set up a device: %w", err)
	}
	return os.NewFile(uintptr(fd), tunName), nil
}

func setUp(tun int, addr netip.Prefix) error {
	request, err := unix.NewIfreq(tunName)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(tun, unix.TUNSETIFF, request); err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	set := func(what uint, fill func() error) error {
		if err := fill(); err != nil {
			return err
		}
		return unix.IoctlIfreq(s, what, request)
	}
	mask := net.CIDRMask(addr.Bits(), 32)
	for _, step := range []struct {
		what uint
		fill func() error
	}{
		{unix.SIOCSIFADDR, func() error { return request.SetInet4Addr(addr.Addr().AsSlice()) }},
		{unix.SIOCSIFNETMASK, func() error { return request.SetInet4Addr(mask) }},
		{unix.SIOCSIFMTU, func() error { request.SetUint32(tunMTU); return nil }},
		{unix.SIOCSIFFLAGS, func() error { request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		if err := set(step.what, step.fill); err != nil {
			return err
		}
	}
	return nil
}

// setCongestion chooses how a socket of TCP controls congestion.
func setCongestion(c syscall.RawConn, name string) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	})
	if err == nil && failed != nil {
		err = os.NewSyscallError("setsockopt", failed)
	}
	return err
}
