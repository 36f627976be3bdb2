package socket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"volley/internal/loopback"

	"volley/internal/testenv"
)

// patience is how long what should come at once may take: the machine may be busy.
const patience = time.Minute

// A socketMaker makes a Socket of the kind under test.
type socketMaker func(t *testing.T, c *net.UDPConn) Socket

// socketMakers are the kinds of sockets that every platform has. Files of one
// platform add to them.
var socketMakers = map[string]socketMaker{
	"platform": func(t *testing.T, c *net.UDPConn) Socket { return udpSocket(t, c, Config{}) },
	"no offload": func(t *testing.T, c *net.UDPConn) Socket {
		return udpSocket(t, c, Config{DisableOffload: true})
	},
	"plain":   func(_ *testing.T, c *net.UDPConn) Socket { return NewPacket(c) },
	"foreign": func(_ *testing.T, c *net.UDPConn) Socket { return NewPacket(hideUDP{c}) },
}

func udpSocket(t *testing.T, c *net.UDPConn, cfg Config) Socket {
	t.Helper()
	s, err := NewUDP(c, cfg)
	if err != nil {
		t.Fatalf("NewUDP(%v) = %v, want nil", c.LocalAddr(), err)
	}
	return s
}

// hideUDP is a net.PacketConn without the fast methods of a net.UDPConn.
type hideUDP struct{ net.PacketConn }

// WriteTo lets a dialed socket pass for one whose every address is its peer's.
func (h hideUDP) WriteTo(b []byte, addr net.Addr) (int, error) {
	if c := h.PacketConn.(*net.UDPConn); c.RemoteAddr() != nil {
		return c.Write(b)
	}
	return h.PacketConn.WriteTo(b, addr)
}

// networks are the ways in which two sockets on one machine meet.
var networks = []struct {
	name, server, client, address string
	dial                          bool
}{
	{"v4 connected", "udp4", "udp4", "127.0.0.1", true},
	{"v4 unconnected", "udp4", "udp4", "127.0.0.1", false},
	{"v6 connected", "udp6", "udp6", "::1", true},
	{"v6 unconnected", "udp6", "udp6", "::1", false},
	{"dual-stack server", "udp", "udp4", "127.0.0.1", true},
	{"dual-stack both", "udp", "udp", "127.0.0.1", false},
}

// A pair is a listening socket and a client of it.
type pair struct {
	server, client         Socket
	serverAddr, clientAddr netip.AddrPort
}

// eachPair runs f for all kinds of sockets on all kinds of networks.
func eachPair(t *testing.T, f func(t *testing.T, p *pair)) {
	for kind, makeSocket := range socketMakers {
		for _, n := range networks {
			t.Run(kind+"/"+n.name, func(t *testing.T) {
				f(t, newPair(t, makeSocket, n.server, n.client, n.address, n.dial))
			})
		}
	}
}

// newPair makes one. Where it is on IPv4 alone, it has an address of its own in
// place of 127.0.0.1: nobody else sends there, or takes the port of what is closed.
func newPair(t *testing.T, makeSocket socketMaker, serverNet, clientNet, address string, dial bool) *pair {
	t.Helper()
	host := netip.MustParseAddr(address)
	if serverNet == "udp4" && clientNet == "udp4" {
		host = loopback.Host()
	}
	server := listenUDP(t, serverNet, host)
	serverAddr := netip.AddrPortFrom(host, localPort(server))
	var client *net.UDPConn
	if dial {
		c, err := net.DialUDP(clientNet, &net.UDPAddr{IP: host.AsSlice()}, net.UDPAddrFromAddrPort(serverAddr))
		if err != nil {
			t.Fatal(err)
		}
		client = c
	} else {
		client = listenUDP(t, clientNet, host)
	}
	p := &pair{
		server:     makeSocket(t, server),
		client:     makeSocket(t, client),
		serverAddr: serverAddr,
		clientAddr: netip.AddrPortFrom(host, localPort(client)),
	}
	// A datagram that fails to arrive ends the test instead of hanging it.
	watchdog := time.AfterFunc(patience, func() { p.close() })
	t.Cleanup(func() {
		watchdog.Stop()
		p.close()
	})
	return p
}

func (p *pair) close() {
	p.server.Close()
	p.client.Close()
}

// listenUDP binds a socket to host, or for "udp" to all addresses, which makes
// it a dual-stack one.
func listenUDP(t *testing.T, network string, host netip.Addr) *net.UDPConn {
	t.Helper()
	laddr := &net.UDPAddr{IP: host.AsSlice()}
	if network == "udp" {
		laddr = nil
	}
	c, err := net.ListenUDP(network, laddr)
	if err != nil {
		if host.Is6() {
			t.Skipf("no IPv6 here: %v", err)
		}
		t.Fatal(err)
	}
	return c
}

func localPort(c *net.UDPConn) uint16 { return uint16(c.LocalAddr().(*net.UDPAddr).Port) }

// pattern returns n bytes that depend on seed.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

// send writes all of ps.
func send(t *testing.T, s Socket, ps ...Packet) {
	t.Helper()
	if n, err := s.WriteBatch(ps); n != len(ps) || err != nil {
		t.Fatalf("WriteBatch(%d elements) = %d, %v, want all, nil", len(ps), n, err)
	}
}

// datagrams returns the datagrams of ps one by one.
func datagrams(ps ...Packet) (ds [][]byte) {
	for _, p := range ps {
		for d, rest := NextDatagram(p.Buf, p.Segment); ; d, rest = NextDatagram(rest, p.Segment) {
			ds = append(ds, bytes.Clone(d))
			if len(rest) == 0 {
				break
			}
		}
	}
	return ds
}

// expect reads until the datagrams of want have come from from, in order. Others
// may be of a stranger, such as a test of another package that still writes to one
// who had the port before.
func expect(t *testing.T, s Socket, from netip.AddrPort, want ...Packet) {
	t.Helper()
	ps := make([]Packet, 5)
	left := datagrams(want...)
	for total := len(left); len(left) > 0; {
		n, err := s.ReadBatch(ps)
		if err != nil || n < 1 {
			t.Fatalf("ReadBatch after %d of %d datagrams = %d, %v, want at least 1, nil", total-len(left), total, n, err)
		}
		for _, p := range ps[:n] {
			if p.Addr != from {
				t.Logf("datagram from %v, want %v", p.Addr, from)
				continue
			}
			for _, d := range datagrams(p) {
				if len(left) == 0 || !bytes.Equal(d, left[0]) {
					t.Fatalf("datagram %d has %d bytes (or content) that differ from what was sent", total-len(left), len(d))
				}
				left = left[1:]
			}
			if len(p.Buf) > 0 {
				p.Buf[0]++ // writable
			}
		}
	}
}

func TestSocketSingleDatagrams(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		for _, size := range []int{1, 0, 13, 1200, 1473, 9000, 65507} {
			there := Packet{Buf: pattern(size, size), Addr: p.serverAddr}
			send(t, p.client, there)
			expect(t, p.server, p.clientAddr, there)
			back := Packet{Buf: pattern(size+1, size), Addr: p.clientAddr}
			send(t, p.server, back)
			expect(t, p.client, p.serverAddr, back)
		}
	})
}

func TestSocketRuns(t *testing.T) {
	runs := []struct{ size, segment int }{
		{800, 100},         // full segments
		{799, 100},         // the last one short
		{101, 100},         // a last one of one byte
		{100, 100},         // a run of one
		{50, 100},          // shorter than a segment
		{0, 100},           // one empty datagram
		{64, 1},            // the smallest segments
		{64 * 256, 256},    // as many segments as fit
		{65 * 256, 256},    // one more
		{150*64 + 7, 64},   // several times as many
		{70 * 1200, 1200},  // more bytes than fit
		{150000, 40000},    // no two segments fit
		{65507 + 1, 65507}, // the largest datagram and a small one
	}
	eachPair(t, func(t *testing.T, p *pair) {
		for i, r := range runs {
			there := Packet{Buf: pattern(i, r.size), Addr: p.serverAddr, Segment: r.segment}
			send(t, p.client, there)
			expect(t, p.server, p.clientAddr, there)
			back := Packet{Buf: pattern(-i, r.size), Addr: p.clientAddr, Segment: r.segment}
			send(t, p.server, back)
			expect(t, p.client, p.serverAddr, back)
		}
	})
}

func TestSocketMixedBatches(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		for _, count := range []int{2, 3, 15, 16, 17, 40} {
			var batch []Packet
			for i := range count {
				size, segment := 120+i, 0
				if i%3 == 1 {
					size, segment = 1000, 300
				}
				batch = append(batch, Packet{Buf: pattern(i, size), Addr: p.clientAddr, Segment: segment})
			}
			send(t, p.server, batch...)
			expect(t, p.client, p.serverAddr, batch...)
		}
	})
}

func TestSocketEmptyBatches(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		send(t, p.client)
		if n, err := p.client.ReadBatch(nil); n != 0 || err != nil {
			t.Errorf("ReadBatch(nil) = %d, %v, want 0, nil", n, err)
		}
	})
}

// TestSocketManyPeers has one socket send to and receive from several in one
// batch.
func TestSocketManyPeers(t *testing.T) {
	for kind, makeSocket := range socketMakers {
		for _, network := range []string{"udp4", "udp"} {
			t.Run(kind+"/"+network, func(t *testing.T) { testManyPeers(t, makeSocket, network) })
		}
	}
}

func testManyPeers(t *testing.T, makeSocket socketMaker, network string) {
	host := netip.MustParseAddr("127.0.0.1")
	hub := newPair(t, makeSocket, network, "udp4", host.String(), false)
	var batch []Packet
	peers := make([]*pair, 10)
	for i := range peers {
		peers[i] = newPair(t, makeSocket, "udp4", "udp4", host.String(), false)
		for j := range 2 {
			batch = append(batch, Packet{Buf: pattern(i, 90+j), Addr: peers[i].serverAddr, Segment: 30 + 60*j})
		}
	}
	send(t, hub.server, batch...)
	for i, p := range peers {
		expect(t, p.server, hub.serverAddr, batch[2*i:2*i+2]...)
		answer := Packet{Buf: pattern(i, 40), Addr: hub.serverAddr}
		send(t, p.server, answer)
		expect(t, hub.server, p.serverAddr, answer)
	}
}

// TestSocketConcurrentWrites checks that what several goroutines send arrives
// whole and per goroutine in order.
func TestSocketConcurrentWrites(t *testing.T) {
	const writers, perWriter, size = 4, 200, 200
	eachPair(t, func(t *testing.T, p *pair) {
		tokens := make(chan struct{}, 64) // keeps the kernel's buffer from running over
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range perWriter {
					b := pattern(w*perWriter+i, size)
					binary.BigEndian.PutUint32(b, uint32(w*perWriter+i))
					tokens <- struct{}{}
					if _, err := p.client.WriteBatch([]Packet{{Buf: b, Addr: p.serverAddr, Segment: size}}); err != nil {
						t.Errorf("WriteBatch = %v, want nil", err)
					}
				}
			})
		}
		next := [writers]int{}
		ps := make([]Packet, 8)
		for got := 0; got < writers*perWriter; {
			n, err := p.server.ReadBatch(ps)
			if err != nil {
				t.Fatalf("ReadBatch after %d datagrams = %v, want nil", got, err)
			}
			ours := slices.DeleteFunc(slices.Clone(ps[:n]), func(of Packet) bool { return of.Addr != p.clientAddr })
			for _, d := range datagrams(ours...) {
				id := int(binary.BigEndian.Uint32(d))
				w := id / perWriter
				if id%perWriter != next[w] || !bytes.Equal(d[4:], pattern(id, size)[4:]) {
					t.Fatalf("datagram %d of writer %d, want number %d, intact", id%perWriter, w, next[w])
				}
				next[w]++
				got++
				<-tokens
			}
		}
		wg.Wait()
	})
}

func TestSocketClose(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		errs := make(chan error)
		started := make(chan struct{})
		go func() {
			ps := make([]Packet, 1)
			if _, err := p.server.ReadBatch(ps); err != nil {
				t.Errorf("ReadBatch = %v, want nil", err)
			}
			close(started)
			_, err := p.server.ReadBatch(ps)
			errs <- err
		}()
		send(t, p.client, Packet{Buf: []byte("x"), Addr: p.serverAddr})
		<-started
		if err := p.server.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		if err := <-errs; !errors.Is(err, net.ErrClosed) {
			t.Errorf("ReadBatch during Close = %v, want net.ErrClosed", err)
		}
		if _, err := p.server.ReadBatch(make([]Packet, 1)); !errors.Is(err, net.ErrClosed) || IsTransient(err) {
			t.Errorf("ReadBatch after Close = %v, want net.ErrClosed, not transient", err)
		}
		n, err := p.server.WriteBatch([]Packet{{Buf: []byte("x"), Addr: p.clientAddr}})
		if n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("WriteBatch after Close = %d, %v, want 0, net.ErrClosed", n, err)
		}
		if err := p.server.Close(); err != nil {
			t.Errorf("second Close = %v, want nil", err)
		}
		if p.server.LocalAddr() == nil {
			t.Error("LocalAddr after Close = nil, want the address")
		}
	})
}

// TestSocketBadElement checks that the error of a datagram that is too large
// does not touch its neighbours.
func TestSocketBadElement(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		good := func(i int) Packet { return Packet{Buf: pattern(i, 100), Addr: p.serverAddr} }
		batch := []Packet{good(0), good(1), {Buf: make([]byte, 70000), Addr: p.serverAddr}, good(3)}
		n, err := p.client.WriteBatch(batch)
		if n != 2 || !IsTransient(err) {
			t.Fatalf("WriteBatch with a datagram of 70000 bytes = %d, %v, want 2 and a transient error", n, err)
		}
		send(t, p.client, batch[3:]...)
		expect(t, p.server, p.clientAddr, batch[0], batch[1], batch[3])
	})
}

// TestSocketBadSegment checks that the good datagrams of a run leave though
// others of it cannot.
func TestSocketBadSegment(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		run := Packet{Buf: pattern(1, 70000+9), Addr: p.serverAddr, Segment: 70000}
		if n, err := p.client.WriteBatch([]Packet{run}); n != 0 || !IsTransient(err) {
			t.Fatalf("WriteBatch of a segment of 70000 bytes = %d, %v, want 0 and a transient error", n, err)
		}
		expect(t, p.server, p.clientAddr, Packet{Buf: run.Buf[70000:]})
	})
}

// TestSocketRefused checks that an ICMP message about an earlier datagram does
// not end a connected socket.
func TestSocketRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: package net has Windows tell nothing of refusals (SIO_UDP_CONNRESET)")
	}
	for kind, makeSocket := range socketMakers {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t, makeSocket, "udp4", "udp4", "127.0.0.1", true)
			p.server.Close()
			send(t, p.client, Packet{Buf: []byte("x")})
			_, err := p.client.ReadBatch(make([]Packet, 1))
			if !IsTransient(err) {
				t.Fatalf("ReadBatch after the peer has gone = %v, want a transient error", err)
			}
			send(t, p.client, Packet{Buf: []byte("y")})
		})
	}
}

func TestSocketAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	for kind, makeSocket := range socketMakers {
		if kind == "foreign" {
			continue // its net.PacketConn allocates
		}
		for _, n := range networks {
			t.Run(kind+"/"+n.name, func(t *testing.T) {
				testAllocations(t, newPair(t, makeSocket, n.server, n.client, n.address, n.dial))
			})
		}
	}
}

func testAllocations(t *testing.T, p *pair) {
	batch := []Packet{
		{Buf: pattern(1, 200), Addr: p.serverAddr},
		{Buf: pattern(2, 800), Addr: p.serverAddr, Segment: 100},
	}
	back := []Packet{{Buf: pattern(3, 20), Addr: p.clientAddr}}
	ps := make([]Packet, 8)
	read := func(s Socket, bytes int) {
		for bytes > 0 {
			n, err := s.ReadBatch(ps)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				bytes -= len(ps[i].Buf)
			}
		}
	}
	allocs := testing.AllocsPerRun(200, func() {
		send(t, p.client, batch...)
		read(p.server, 1000)
		send(t, p.server, back...)
		read(p.client, 20)
	})
	if allocs != 0 {
		t.Errorf("a round trip of 9 datagrams and 1 allocates %v times, want 0", allocs)
	}
}

func TestIsTransient(t *testing.T) {
	wrap := func(err error) error {
		return &net.OpError{Op: "read", Net: "udp", Err: os.NewSyscallError("recvmsg", err)}
	}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{net.ErrClosed, false},
		{wrap(net.ErrClosed), false},
		{errors.New("some other"), false},
		{wrap(syscall.EBADF), false},
		{wrap(syscall.ECONNREFUSED), true},
		{syscall.EPROTO, true},      // what an ICMP parameter problem becomes
		{syscall.ENOPROTOOPT, true}, // and protocol unreachable
		{fmt.Errorf("wrapped: %w", syscall.EHOSTUNREACH), true},
		{os.ErrDeadlineExceeded, true},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		{&net.OpError{Op: "read", Err: errors.New("lasting")}, false},
	} {
		if got := IsTransient(test.err); got != test.want {
			t.Errorf("IsTransient(%v) = %t, want %t", test.err, got, test.want)
		}
	}
}

// TestEveryErrorNumberPasses checks that whoever can choose the number of an
// error cannot end a connection by it.
func TestEveryErrorNumberPasses(t *testing.T) {
	for n := range syscall.Errno(200) {
		if got, want := IsTransient(n), !slices.Contains(goneErrnos, n); n != 0 && got != want {
			t.Errorf("IsTransient(%d, %v) = %t, want %t", int(n), n, got, want)
		}
	}
	for _, gone := range goneErrnos {
		if IsTransient(os.NewSyscallError("recvmsg", gone)) {
			t.Errorf("IsTransient(%v) = true, want false", gone)
		}
	}
}
