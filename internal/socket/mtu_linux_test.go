package socket

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"volley/internal/netnstest"
)

// otherSide runs f in another network namespace, that of a thread which ends
// with it. The number by which that namespace is known is passed to f.
func otherSide(t *testing.T, f func(id int)) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		defer close(done)      // also where f ends the test
		runtime.LockOSThread() // for good: the thread is of no more use
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			f(syscall.Gettid())
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	if t.Skipped() {
		t.SkipNow()
	}
}

// TestSmallPaths checks over real devices that peers behind paths of small MTU
// get all datagrams of a run, and do not keep a listener from sending runs to
// the others.
func TestSmallPaths(t *testing.T) {
	if !netnstest.Inside(t, "ip") {
		return
	}
	netnstest.Do(t, "ip link set lo up", "ip link add near type veth peer name far",
		"ip addr add 10.0.0.1/24 dev near", "ip -6 addr add fd00::1/64 dev near nodad", "ip link set near up")
	paths := []struct {
		addr string
		mtu  int // zero: that of the device
	}{
		{"10.0.0.2", 0}, {"10.0.0.3", 576}, {"10.0.0.4", 1280}, {"fd00::2", 0}, {"fd00::3", 1280},
	}
	var clients []*net.UDPConn
	otherSide(t, func(id int) {
		// From here ip would not find the device that is not there yet.
		move := make(chan bool)
		go func() {
			defer close(move)
			netnstest.Do(t, fmt.Sprint("ip link set far netns ", id))
		}()
		<-move
		if t.Failed() || t.Skipped() {
			return
		}
		netnstest.Do(t, "ip link set lo up", "ip link set far up")
		for _, p := range paths {
			if addr := netip.MustParseAddr(p.addr); addr.Is4() {
				netnstest.Do(t, "ip addr add "+p.addr+"/24 dev far")
			} else {
				netnstest.Do(t, "ip -6 addr add "+p.addr+"/64 dev far nodad")
			}
			c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(p.addr)})
			if err != nil {
				t.Error(err)
				return
			}
			clients = append(clients, c)
		}
	})
	for _, p := range paths {
		if p.mtu > 0 {
			netnstest.Do(t, fmt.Sprintf("ip route add %s dev near mtu %d", p.addr, p.mtu))
		}
	}
	inner, err := net.ListenUDP("udp", nil)
	if err != nil || len(clients) < len(paths) {
		t.Fatal(err, len(clients))
	}
	server := udpSocket(t, inner, Config{})
	defer server.Close()
	var readers []Socket
	for _, c := range clients {
		r := udpSocket(t, c, Config{})
		defer r.Close()
		readers = append(readers, r)
	}
	watchdog := time.AfterFunc(patience, func() {
		for _, r := range readers {
			r.Close()
		}
	})
	defer watchdog.Stop()
	runs := func() (calls uint64) {
		before := server.Stats().SendCalls
		for i, p := range paths {
			run := Packet{Buf: pattern(i, 20*1260), Segment: 1260}
			to := netip.AddrPortFrom(netip.MustParseAddr(p.addr), uint16(clients[i].LocalAddr().(*net.UDPAddr).Port))
			run.Addr = to
			send(t, server, run)
			from := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), localPort(inner))
			if to.Addr().Is6() {
				from = netip.AddrPortFrom(netip.MustParseAddr("fd00::1"), localPort(inner))
			}
			expect(t, readers[i], from, run)
		}
		return server.Stats().SendCalls - before
	}
	first := runs()
	second := runs()
	stats := server.Stats()
	t.Logf("%d and %d calls, %d fallbacks", first, second, stats.Fallbacks)
	if !stats.GSO {
		t.Error("one path of small MTU has switched segmentation offload off")
	}
	if stats.Fallbacks != 3 {
		t.Errorf("%d fallbacks, want one for each of the 3 small paths", stats.Fallbacks)
	}
	// 20 datagrams to each small path leave by themselves.
	const calls = (20 + sendMessages - 1) / sendMessages
	if want := uint64(2 + 3*calls); second != want {
		t.Errorf("%d calls for the second runs, want %d", second, want)
	}
}
