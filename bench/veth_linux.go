package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	vethServer = "10.231.77.1" // addresses of the two networks
	vethClient = "10.231.77.2"
	vethDelay  = "1ms" // each way, by netem
)

// A veth is two networks with a cable between them, one for servers and one for clients.
type veth struct {
	server, client string // names of the networks
	about          string // for the report
}

// newVeth makes them, which takes root. GRO says whether the receiving devices put
// datagrams of a run together again.
func newVeth(gro bool) (*veth, error) {
	v := &veth{server: fmt.Sprintf("bench-s%d", os.Getpid()), client: fmt.Sprintf("bench-c%d", os.Getpid())}
	for _, line := range []string{
		"netns add " + v.server,
		"netns add " + v.client,
		"link add bench0 netns " + v.server + " type veth peer name bench0 netns " + v.client,
		"-n " + v.server + " addr add " + vethServer + "/24 dev bench0",
		"-n " + v.client + " addr add " + vethClient + "/24 dev bench0",
		"-n " + v.server + " link set lo up",
		"-n " + v.client + " link set lo up",
		"-n " + v.server + " link set bench0 up",
		"-n " + v.client + " link set bench0 up",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			v.close()
			return nil, fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	delay := "a delay of " + vethDelay + " each way"
	for _, network := range []string{v.server, v.client} {
		if out, err := exec.Command("ip", "netns", "exec", network, "tc", "qdisc", "add", "dev", "bench0", "root", "netem", "delay", vethDelay).CombinedOutput(); err != nil {
			delay = "without delay, since netem is not to be had (" + strings.TrimSpace(string(out)) + ")"
		}
	}
	v.about = "between two network namespaces over veth, GRO off, " + delay
	if gro {
		v.about = strings.Replace(v.about, "GRO off", "GRO on", 1)
	}
	for _, network := range []string{v.server, v.client} {
		cmd := exec.Command("ip", "netns", "exec", network, os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v", groEnv, gro))
		if out, err := cmd.CombinedOutput(); err != nil {
			v.close()
			return nil, fmt.Errorf("GRO: %w: %s", err, out)
		}
	}
	return v, nil
}

func (v *veth) close() {
	for _, network := range []string{v.server, v.client} {
		_ = exec.Command("ip", "netns", "del", network).Run() // with the device in it
	}
}

// groEnv tells a process in one of the networks to set its device up, and to end.
const groEnv = "VOLLEY_BENCH_GRO"

// setGRO switches GRO of the device on or off.
func setGRO(on bool) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	value := struct{ cmd, data uint32 }{cmd: unix.ETHTOOL_SGRO} // struct ethtool_value
	if on {
		value.data = 1
	}
	var request struct { // struct ifreq
		name [syscall.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:], "bench0")
	request.data = unsafe.Pointer(&value)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}
