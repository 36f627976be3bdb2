package socket

import (
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// setUp finds out what the socket is and can do, and sets its options.
func (s *linuxSocket) setUp(fd uintptr, cfg *Config) error {
	family, err := s.kernel.getsockopt(fd, syscall.SOL_SOCKET, soDomain)
	if err != nil {
		return err
	}
	s.family = int32(family)
	s.readBuffer.Store(int32(s.setBuffer(fd, syscall.SO_RCVBUFFORCE, syscall.SO_RCVBUF, bufferSize(cfg.ReadBuffer))))
	s.writeBuffer.Store(int32(s.setBuffer(fd, syscall.SO_SNDBUFFORCE, syscall.SO_SNDBUF, bufferSize(cfg.WriteBuffer))))
	// Without it Drops stays zero, no more.
	_ = s.kernel.setsockopt(fd, syscall.SOL_SOCKET, syscall.SO_RXQ_OVFL, 1)
	s.tellAddresses(fd)
	s.gso.maxSegments.Store(fewSegments)
	s.gso.off.Store(true)
	if cfg.offload() {
		s.gso.off.Store(!s.hasGSO(fd))
		release := s.kernel.release()
		s.gso.loopbackOnly = manglesGSO(release)
		if takesManySegments(release) {
			s.gso.maxSegments.Store(manySegments)
		}
		s.gro = s.enableGRO(fd)
	}
	return nil
}

// tellAddresses asks for the destination of each packet, if the socket is on all addresses.
func (s *linuxSocket) tellAddresses(fd uintptr) {
	local, _ := s.conn.LocalAddr().(*net.UDPAddr)
	if local == nil || local.IP != nil && !local.IP.IsUnspecified() || s.peer.IsValid() {
		return
	}
	v4 := s.kernel.setsockopt(fd, syscall.IPPROTO_IP, syscall.IP_PKTINFO, 1)
	v6 := error(nil)
	if s.family == syscall.AF_INET6 {
		v6 = s.kernel.setsockopt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_RECVPKTINFO, 1)
	}
	s.manyAddrs = v4 == nil || v6 == nil
}

func (cfg *Config) offload() bool {
	env := os.Getenv(DisableOffloadEnv)
	return !cfg.DisableOffload && (env == "" || env == "0")
}

// setBuffer asks for a buffer, unless size is zero, and returns the size granted.
func (s *linuxSocket) setBuffer(fd uintptr, force, option, size int) int {
	size = min(size, math.MaxInt32/2) // the kernel doubles it
	if size > 0 && s.kernel.setsockopt(fd, syscall.SOL_SOCKET, force, size) != nil {
		_ = s.kernel.setsockopt(fd, syscall.SOL_SOCKET, option, size) // cut to the limit
	}
	granted, err := s.kernel.getsockopt(fd, syscall.SOL_SOCKET, option)
	if err != nil {
		return 0
	}
	return granted / 2 // the kernel has doubled it for its own records
}

func (s *linuxSocket) hasGSO(fd uintptr) bool {
	_, err := s.kernel.getsockopt(fd, solUDP, udpSegment)
	return err == nil
}

// enableGRO turns UDP_GRO on, except before Linux 5.12, where it has faults.
func (s *linuxSocket) enableGRO(fd uintptr) bool {
	if s.kernel.setsockopt(fd, solUDP, udpGRO, 1) != nil {
		return false
	}
	if on, err := s.kernel.getsockopt(fd, solUDP, udpGRO); err == nil && on == 1 {
		return true
	}
	_ = s.kernel.setsockopt(fd, solUDP, udpGRO, 0)
	return false
}

// manglesGSO reports kernels 7.0.0 to 7.1.4, where some devices break runs: only loopback works.
func manglesGSO(release string) bool {
	major, minor, patch := kernelVersion(release)
	return major == 7 && (minor == 0 || minor == 1 && patch <= 4)
}

// kernelVersion returns the numbers of a release such as "6.18.2-arch1-1"; missing ones are 0.
func kernelVersion(release string) (major, minor, patch int) {
	var v [3]int
	for i, field := range strings.SplitN(release, ".", 3) {
		digits := 0
		for digits < len(field) && '0' <= field[digits] && field[digits] <= '9' {
			digits++
		}
		v[i], _ = strconv.Atoi(field[:digits])
		if digits < len(field) && i < 2 {
			break
		}
	}
	return v[0], v[1], v[2]
}
