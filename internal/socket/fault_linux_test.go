package socket

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"volley/internal/loopback"
)

// A faultyKernel is the real kernel with faults put in. The zero value has none.
type faultyKernel struct {
	linuxKernel
	version string // if set, what release returns

	noGSO, noGRO, noGROReadBack bool // as older kernels
	noForce                     bool // as for an unprivileged process

	// onSend, if set, is asked before the first of some messages is sent. It
	// may refuse, or allow fewer messages.
	onSend func(msgs []mmsghdr) (allowed int, errno syscall.Errno)

	runs, sends atomic.Int64 // messages sent with UDP_SEGMENT, and all
}

// isRun tells whether m is to be sent with UDP_SEGMENT, and the segment size.
func isRun(m *mmsghdr) (int, bool) {
	if m.hdr.Control == nil {
		return 0, false
	}
	h := (*syscall.Cmsghdr)(unsafe.Pointer(m.hdr.Control))
	if h.Level != solUDP || h.Type != udpSegment {
		return 0, false
	}
	return int(*(*uint16)(unsafe.Add(unsafe.Pointer(h), syscall.CmsgLen(0)))), true
}

func (k *faultyKernel) send(fd uintptr, msgs []mmsghdr) (int, syscall.Errno) {
	if k.onSend != nil {
		n, errno := k.onSend(msgs)
		if errno != 0 {
			return 0, errno
		}
		msgs = msgs[:n]
	}
	n, errno := k.linuxKernel.send(fd, msgs)
	for i := range n {
		k.sends.Add(1)
		if _, ok := isRun(&msgs[i]); ok {
			k.runs.Add(1)
		}
	}
	return n, errno
}

func (k *faultyKernel) release() string {
	if k.version != "" {
		return k.version
	}
	return k.linuxKernel.release()
}

func (k *faultyKernel) getsockopt(fd uintptr, level, name int) (int, error) {
	if level == solUDP && (name == udpSegment && k.noGSO || name == udpGRO && k.noGROReadBack) {
		return 0, syscall.ENOPROTOOPT
	}
	return k.linuxKernel.getsockopt(fd, level, name)
}

func (k *faultyKernel) setsockopt(fd uintptr, level, name, value int) error {
	if level == solUDP && name == udpGRO && k.noGRO {
		return syscall.ENOPROTOOPT
	}
	if level == syscall.SOL_SOCKET && k.noForce && (name == syscall.SO_RCVBUFFORCE || name == syscall.SO_SNDBUFFORCE) {
		return syscall.EPERM
	}
	return k.linuxKernel.setsockopt(fd, level, name, value)
}

// refuseRuns refuses every message that is a run with errno.
func refuseRuns(errno syscall.Errno) func([]mmsghdr) (int, syscall.Errno) {
	return func(msgs []mmsghdr) (int, syscall.Errno) {
		for i := range msgs {
			if _, ok := isRun(&msgs[i]); ok {
				if i == 0 {
					return 0, errno
				}
				return i, 0
			}
		}
		return len(msgs), 0
	}
}

// refuseLongRuns refuses runs of more than 64 segments.
func refuseLongRuns(msgs []mmsghdr) (int, syscall.Errno) {
	for i := range msgs {
		size, ok := isRun(&msgs[i])
		if !ok || int(msgs[i].hdr.Iov.Len) <= fewSegments*size {
			continue
		}
		if i == 0 {
			return 0, syscall.EINVAL
		}
		return i, 0
	}
	return len(msgs), 0
}

// faultySocket makes a socket on a kernel with faults.
func faultySocket(t *testing.T, c *net.UDPConn, k *faultyKernel) *linuxSocket {
	t.Helper()
	s, err := newLinuxSocket(c, &Config{}, k)
	if err != nil {
		t.Fatalf("newLinuxSocket = %v, want nil", err)
	}
	return s
}

// The functional suite runs over these kernels too.
func init() {
	kernels := map[string]func() *faultyKernel{
		"GSO fails with EIO":      func() *faultyKernel { return &faultyKernel{onSend: refuseRuns(syscall.EIO)} },
		"GSO fails with EINVAL":   func() *faultyKernel { return &faultyKernel{onSend: refuseRuns(syscall.EINVAL)} },
		"GSO fails with EMSGSIZE": func() *faultyKernel { return &faultyKernel{onSend: refuseRuns(syscall.EMSGSIZE)} },
		"no GSO":                  func() *faultyKernel { return &faultyKernel{noGSO: true} },
		"no GRO":                  func() *faultyKernel { return &faultyKernel{noGRO: true} },
		"no GRO read back":        func() *faultyKernel { return &faultyKernel{noGROReadBack: true} },
		"unprivileged":            func() *faultyKernel { return &faultyKernel{noForce: true} },
		"one message a call": func() *faultyKernel {
			return &faultyKernel{onSend: func([]mmsghdr) (int, syscall.Errno) { return 1, 0 }}
		},
		"EPERM at first":   func() *faultyKernel { return &faultyKernel{onSend: failOnce(syscall.EPERM)} },
		"EAGAIN at times":  func() *faultyKernel { return &faultyKernel{onSend: busyAtTimes()} },
		"few segments":     func() *faultyKernel { return &faultyKernel{onSend: refuseLongRuns} },
		"old release":      func() *faultyKernel { return &faultyKernel{version: "6.8.0-45-generic"} },
		"mangling release": func() *faultyKernel { return &faultyKernel{version: "7.1.2-generic"} },
	}
	for name, k := range kernels {
		socketMakers[name] = func(t *testing.T, c *net.UDPConn) Socket { return faultySocket(t, c, k()) }
	}
}

func failOnce(errno syscall.Errno) func([]mmsghdr) (int, syscall.Errno) {
	var once sync.Once
	return func(msgs []mmsghdr) (n int, e syscall.Errno) {
		n = len(msgs)
		once.Do(func() { n, e = 0, errno })
		return n, e
	}
}

// busyAtTimes refuses every third message, but none twice: after EAGAIN a real
// kernel says when there is room again, which this one does not.
func busyAtTimes() func([]mmsghdr) (int, syscall.Errno) {
	var mu sync.Mutex
	calls, refused := 0, map[*byte]bool{}
	return func(msgs []mmsghdr) (int, syscall.Errno) {
		mu.Lock()
		defer mu.Unlock()
		first := msgs[0].hdr.Iov.Base
		if calls++; calls%3 == 0 && !refused[first] {
			refused[first] = true
			return 0, syscall.EAGAIN
		}
		delete(refused, first)
		return len(msgs), 0
	}
}

// faultyPair is a pair on IPv4 whose client has the kernel k.
func faultyPair(t *testing.T, k *faultyKernel, dial bool) *pair {
	t.Helper()
	first := true
	return newPair(t, func(t *testing.T, c *net.UDPConn) Socket {
		if first { // the server
			first = false
			return udpSocket(t, c, Config{})
		}
		return faultySocket(t, c, k)
	}, "udp4", "udp4", "127.0.0.1", dial)
}

func TestOffloadInUse(t *testing.T) {
	k := new(faultyKernel)
	p := faultyPair(t, k, true)
	stats := p.client.Stats()
	if !stats.GSO || !stats.GRO {
		t.Skip("this kernel has no segmentation offload")
	}
	run := Packet{Buf: pattern(1, 4000), Segment: 500}
	send(t, p.client, Packet{Buf: pattern(0, 600)}, run)
	if k.runs.Load() != 1 || k.sends.Load() != 2 {
		t.Errorf("sent %d messages, %d of them runs, want 2 and 1", k.sends.Load(), k.runs.Load())
	}
	if calls := p.client.Stats().SendCalls; calls != 1 {
		t.Errorf("SendCalls = %d, want 1", calls)
	}
	ps := make([]Packet, 2)
	for i, want := range []Packet{{Buf: make([]byte, 600)}, run} {
		n, err := p.server.ReadBatch(ps[:1])
		if n != 1 || err != nil || len(ps[0].Buf) != len(want.Buf) || ps[0].Segment != want.Segment {
			t.Errorf("ReadBatch %d = %d, %v, with %d bytes in segments of %d, want 1, nil, %d, %d",
				i, n, err, len(ps[0].Buf), ps[0].Segment, len(want.Buf), want.Segment)
		}
	}
}

// TestRunRefused checks what a socket remembers when a run is refused and its
// datagrams are not.
func TestRunRefused(t *testing.T) {
	for _, test := range []struct {
		errno     syscall.Errno
		dial      bool
		gso       bool // stays on
		fallbacks uint64
	}{
		{syscall.EIO, true, false, 1},
		{syscall.EIO, false, true, 1},
		{syscall.EINVAL, true, true, 1},
		{syscall.EINVAL, false, true, 1},
		{syscall.EMSGSIZE, true, true, 1},
		{syscall.EMSGSIZE, false, true, 1},
	} {
		k := &faultyKernel{onSend: refuseRuns(test.errno)}
		p := faultyPair(t, k, test.dial)
		for i := range 3 {
			run := Packet{Buf: pattern(i, 990), Addr: p.serverAddr, Segment: 100}
			send(t, p.client, Packet{Buf: pattern(i, 110), Addr: p.serverAddr}, run)
			expect(t, p.server, p.clientAddr, Packet{Buf: pattern(i, 110)}, run)
		}
		stats := p.client.Stats()
		if stats.GSO != test.gso || stats.Fallbacks != test.fallbacks {
			t.Errorf("%v, dialed %t: GSO = %t after %d fallbacks, want %t after %d",
				test.errno, test.dial, stats.GSO, stats.Fallbacks, test.gso, test.fallbacks)
		}
		p.close()
	}
}

// TestLongRunRefused checks that a kernel which takes fewer segments than its
// release says gets shorter runs, and that its datagrams stay in order.
func TestLongRunRefused(t *testing.T) {
	for _, test := range []struct {
		version string
		refuse  bool
		runs    int64 // sent, for three times 150 segments
	}{
		{"6.9.0", false, 3 * 2}, // 128, 22
		{"6.9.0", true, 3 * 3},  // 64, 64, 22
		{"6.8.12", true, 3 * 3},
	} {
		k := &faultyKernel{version: test.version}
		if !test.refuse && takesManySegments(test.version) && !takesManySegments(k.linuxKernel.release()) {
			continue // the real kernel would refuse
		}
		if test.refuse {
			k.onSend = refuseLongRuns
		}
		p := faultyPair(t, k, true)
		for i := range 3 {
			run := Packet{Buf: pattern(i, 150*100-1), Segment: 100}
			send(t, p.client, run)
			expect(t, p.server, p.clientAddr, run)
		}
		stats := p.client.Stats()
		if got := k.runs.Load(); got != test.runs || !stats.GSO || stats.Fallbacks != 0 {
			t.Errorf("%s, refused %t: %d runs, GSO %t, %d fallbacks, want %d, true, 0",
				test.version, test.refuse, got, stats.GSO, stats.Fallbacks, test.runs)
		}
		p.close()
	}
}

// TestSmallerSegmentsStayFast checks that a connected socket whose path refused
// large segments goes on sending runs of small ones.
func TestSmallerSegmentsStayFast(t *testing.T) {
	k := new(faultyKernel)
	k.onSend = func(msgs []mmsghdr) (int, syscall.Errno) {
		if size, ok := isRun(&msgs[0]); ok && size > 500 {
			return 0, syscall.EMSGSIZE
		}
		return 1, 0
	}
	p := faultyPair(t, k, true)
	for _, segment := range []int{600, 600, 500, 600, 400} {
		run := Packet{Buf: pattern(segment, 3000), Segment: segment}
		send(t, p.client, run)
		expect(t, p.server, p.clientAddr, run)
	}
	if got := k.runs.Load(); got != 2 {
		t.Errorf("%d runs sent, want 2", got)
	}
	if got := p.client.Stats().Fallbacks; got != 1 {
		t.Errorf("Fallbacks = %d, want 1", got)
	}
}

// TestRefusedDatagramKeepsOffload checks that a run whose datagrams are refused
// too, as those to port 0 are, says nothing against runs.
func TestRefusedDatagramKeepsOffload(t *testing.T) {
	p := faultyPair(t, new(faultyKernel), false)
	nowhere := netip.AddrPortFrom(p.serverAddr.Addr(), 0)
	n, err := p.client.WriteBatch([]Packet{{Buf: pattern(1, 1000), Addr: nowhere, Segment: 100}})
	if n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("WriteBatch to port 0 = %d, %v, want 0, EINVAL", n, err)
	}
	if stats := p.client.Stats(); !stats.GSO || stats.Fallbacks != 0 {
		t.Errorf("GSO = %t after %d fallbacks, want true after 0", stats.GSO, stats.Fallbacks)
	}
}

func TestPermissionRetriedOnce(t *testing.T) {
	k := &faultyKernel{onSend: func([]mmsghdr) (int, syscall.Errno) { return 0, syscall.EPERM }}
	p := faultyPair(t, k, false)
	for i, calls := range []uint64{2, 3} {
		n, err := p.client.WriteBatch([]Packet{{Buf: []byte("x"), Addr: p.serverAddr}})
		if n != 0 || !errors.Is(err, syscall.EPERM) || !IsTransient(err) {
			t.Errorf("WriteBatch %d = %d, %v, want 0, EPERM", i, n, err)
		}
		if got := p.client.Stats().SendCalls; got != calls {
			t.Errorf("SendCalls after WriteBatch %d = %d, want %d", i, got, calls)
		}
	}
}

// failTimes fails the first sends with the given error numbers.
func failTimes(errnos ...syscall.Errno) func([]mmsghdr) (int, syscall.Errno) {
	var mu sync.Mutex
	return func(msgs []mmsghdr) (int, syscall.Errno) {
		mu.Lock()
		defer mu.Unlock()
		if len(errnos) == 0 {
			return len(msgs), 0
		}
		errno := errnos[0]
		errnos = errnos[1:]
		return 0, errno
	}
}

// TestPendingErrorCostsNothing checks that an ICMP message about an earlier
// datagram, which the next call to send reports whatever it sends, costs neither
// the run that meets it nor segmentation offload.
func TestPendingErrorCostsNothing(t *testing.T) {
	for _, errnos := range [][]syscall.Errno{
		{syscall.ECONNREFUSED},
		{syscall.ENOPROTOOPT},
		{syscall.EPROTO},
		{syscall.ENONET, syscall.EHOSTUNREACH},
		{syscall.EMSGSIZE}, // "fragmentation needed" in a forged message
		{syscall.EPERM},
		{syscall.EOPNOTSUPP, syscall.EACCES},
	} {
		k := &faultyKernel{onSend: failTimes(errnos...)}
		p := faultyPair(t, k, true)
		batch := []Packet{{Buf: pattern(1, 64*200), Segment: 200}, {Buf: pattern(2, 20)}}
		send(t, p.client, batch...)
		expect(t, p.server, p.clientAddr, batch...)
		if stats := p.client.Stats(); stats.Fallbacks != 0 || k.runs.Load() != 1 {
			t.Errorf("%v: %d fallbacks and %d runs, want 0 and 1", errnos, stats.Fallbacks, k.runs.Load())
		}
		p.close()
	}
}

// TestPendingErrorInSplitRun checks the same for the datagrams of a run that
// leave one by one.
func TestPendingErrorInSplitRun(t *testing.T) {
	var sends atomic.Int64
	k := new(faultyKernel)
	k.onSend = func(msgs []mmsghdr) (int, syscall.Errno) {
		if _, ok := isRun(&msgs[0]); ok {
			return 0, syscall.EMSGSIZE
		}
		if sends.Add(1) == 3 {
			return 0, syscall.ECONNREFUSED
		}
		return 1, 0
	}
	p := faultyPair(t, k, true)
	run := Packet{Buf: pattern(1, 8*200), Segment: 200}
	send(t, p.client, run)
	expect(t, p.server, p.clientAddr, run)
}

// TestLastingErrorInBatch checks that an error in the middle of a batch that
// does not go away is reported for its element, and that the messages of a run
// behind one that fails are sent all the same.
func TestLastingErrorInBatch(t *testing.T) {
	k := new(faultyKernel)
	var refused atomic.Bool
	k.onSend = func(msgs []mmsghdr) (int, syscall.Errno) {
		for i := range msgs {
			if size, _ := isRun(&msgs[i]); size != 200 || refused.Load() {
				continue
			}
			if i > 0 {
				return i, 0
			}
			refused.Store(true)
			return 0, syscall.ECONNREFUSED
		}
		return len(msgs), 0
	}
	k.version = "6.8.0"
	p := faultyPair(t, k, false)
	to := p.serverAddr
	long := Packet{Buf: pattern(1, 100*200), Segment: 200, Addr: to} // two messages, the first of 64 datagrams, as before 6.9
	batch := []Packet{{Buf: pattern(0, 10), Addr: to}, long, {Buf: pattern(2, 20), Addr: to}}
	n, err := p.client.WriteBatch(batch)
	if n != 1 || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("WriteBatch = %d, %v, want 1, ECONNREFUSED", n, err)
	}
	send(t, p.client, batch[2:]...)
	expect(t, p.server, p.clientAddr, batch[0], Packet{Buf: long.Buf[64*200:], Segment: 200}, batch[2])
}

func TestMangledRunsStayOnLoopback(t *testing.T) {
	for _, test := range []struct {
		release string
		mangles bool
	}{
		{"7.0.0", true},
		{"7.0.12-arch1-1", true},
		{"7.1", true},
		{"7.1.4-rc1", true},
		{"7.1.5", false},
		{"7.10.0", false},
		{"7.2.0", false},
		{"6.18.44-fc-v669", false},
		{"17.0.1", false},
		{"8.1.1", false},
		{"", false},
		{"garbage", false},
	} {
		if got := manglesGSO(test.release); got != test.mangles {
			t.Errorf("manglesGSO(%q) = %t, want %t", test.release, got, test.mangles)
		}
	}
	p := faultyPair(t, &faultyKernel{version: "7.1.0"}, false)
	s := p.client.(*linuxSocket)
	if away := netip.MustParseAddr("192.0.2.1"); s.gso.allows(100, netip.AddrPortFrom(away, 1)) {
		t.Error("runs are allowed off the machine on a kernel that mangles them")
	}
	if !s.gso.allows(100, p.serverAddr) {
		t.Error("runs are not allowed on the loopback device, which is not affected")
	}
}

func TestOffloadSwitches(t *testing.T) {
	host := netip.MustParseAddr("127.0.0.1")
	open := func(cfg Config) Stats {
		s := udpSocket(t, listenUDP(t, "udp4", host), cfg)
		defer s.Close()
		return s.Stats()
	}
	plain := open(Config{DisableOffload: true})
	t.Setenv(DisableOffloadEnv, "1")
	env := open(Config{})
	for name, stats := range map[string]Stats{"DisableOffload": plain, DisableOffloadEnv: env} {
		if stats.GSO || stats.GRO {
			t.Errorf("with %s: GSO = %t, GRO = %t, want false", name, stats.GSO, stats.GRO)
		}
	}
	t.Setenv(DisableOffloadEnv, "0")
	if stats := open(Config{}); !stats.GSO || !stats.GRO {
		t.Errorf("with %s=0: GSO = %t, GRO = %t, want true", DisableOffloadEnv, stats.GSO, stats.GRO)
	}
}

func TestSocketBuffers(t *testing.T) {
	host := netip.MustParseAddr("127.0.0.1")
	open := func(cfg Config, k kernel) Stats {
		s, err := newLinuxSocket(listenUDP(t, "udp4", host), &cfg, k)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Stats()
	}
	system := open(Config{ReadBuffer: -1, WriteBuffer: -1}, &linuxKernel{})
	if system.ReadBufferSize < 1<<12 || system.WriteBufferSize < 1<<12 {
		t.Errorf("default buffers of %d and %d bytes, want some", system.ReadBufferSize, system.WriteBufferSize)
	}
	for name, k := range map[string]kernel{"as we are": &linuxKernel{}, "unprivileged": &faultyKernel{noForce: true}} {
		small := open(Config{ReadBuffer: 64 << 10, WriteBuffer: 32 << 10}, k)
		if small.ReadBufferSize != 64<<10 || small.WriteBufferSize != 32<<10 {
			t.Errorf("%s: buffers of %d and %d bytes, want 65536 and 32768", name, small.ReadBufferSize, small.WriteBufferSize)
		}
		big := open(Config{}, k)
		if big.ReadBufferSize < system.ReadBufferSize || big.ReadBufferSize > defaultSocketBuffer {
			t.Errorf("%s: receive buffer of %d bytes, want between the default and 4 MiB", name, big.ReadBufferSize)
		}
	}
}

func TestSocketDrops(t *testing.T) {
	host := loopback.Host()
	server := udpSocket(t, listenUDP(t, "udp4", host), Config{ReadBuffer: 1, DisableOffload: true})
	defer server.Close()
	addr := server.LocalAddr().(*net.UDPAddr).AddrPort()
	client := udpSocket(t, listenUDP(t, "udp4", host), Config{})
	defer client.Close()
	const count = 100
	var batch []Packet
	for i := range count {
		batch = append(batch, Packet{Buf: pattern(i, 500), Addr: addr})
	}
	send(t, client, batch...)
	dropped := server.Stats().Drops
	if dropped == 0 || dropped >= count {
		t.Fatalf("Drops = %d of %d datagrams, want some", dropped, count)
	}
	ps := make([]Packet, 8)
	for got := uint32(0); got < count-dropped; {
		n, err := server.ReadBatch(ps)
		if err != nil {
			t.Fatal(err)
		}
		got += uint32(n)
	}
	// Each message tells what was dropped before it came.
	send(t, client, batch[0])
	n, err := server.ReadBatch(ps)
	if n != 1 || err != nil || ps[0].Drops != dropped {
		t.Errorf("ReadBatch = %d, %v with Drops = %d, want 1, nil, %d", n, err, ps[0].Drops, dropped)
	}
}

// TestWriteWaits checks that a WriteBatch on a socket whose send buffer is full
// waits, and that Close ends the wait.
func TestWriteWaits(t *testing.T) {
	k := new(faultyKernel)
	full := make(chan struct{})
	var once sync.Once
	k.onSend = func([]mmsghdr) (int, syscall.Errno) {
		once.Do(func() { close(full) })
		return 0, syscall.EAGAIN
	}
	p := faultyPair(t, k, true)
	errs := make(chan error)
	go func() {
		_, err := p.client.WriteBatch([]Packet{{Buf: []byte("x")}})
		errs <- err
	}()
	<-full
	p.client.Close()
	if err := <-errs; !errors.Is(err, net.ErrClosed) {
		t.Errorf("WriteBatch during Close = %v, want net.ErrClosed", err)
	}
}

// TestNoBufferWhileWaiting checks that a goroutine that waits in ReadBatch
// holds none of the large buffers.
func TestNoBufferWhileWaiting(t *testing.T) {
	p := faultyPair(t, new(faultyKernel), true)
	s := p.server.(*linuxSocket)
	tried := make(chan struct{}, 8)
	try := s.tryReceive
	s.recv.try = func(fd uintptr) bool {
		got := try(fd)
		if !got && s.recv.op != nil {
			t.Error("a buffer is held after a call that received nothing")
		}
		tried <- struct{}{}
		return got
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		expect(t, s, p.clientAddr, Packet{Buf: []byte("x")})
	}()
	<-tried
	send(t, p.client, Packet{Buf: []byte("x")})
	<-done
}
