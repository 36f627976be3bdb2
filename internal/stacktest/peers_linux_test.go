package stacktest

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
	"unsafe"
	"volley"

	"volley/internal/testenv"
	"volley/reliable"
)

var (
	peersFlag = flag.Int("peers", 0, "how many peers TestManyPeers has, such as 1000000")
	idleFlag  = flag.Duration("idle", 0, "how long TestManyPeers watches idle peers with keepalives at 30 s")
)

// A manyPeers is one socket that speaks with the addresses of many peers, all of
// 127.0.0.0/8.
type manyPeers struct {
	conn   *net.UDPConn
	server netip.AddrPort
	buf    []byte
	oob    []byte
}

func newManyPeers(t testing.TB, server netip.AddrPort) *manyPeers {
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetReadBuffer(4 << 20)
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_PKTINFO, 1)
	})
	if err != nil {
		t.Skip("no IP_PKTINFO: ", err)
	}
	return &manyPeers{conn: conn, server: server, buf: make([]byte, 2048), oob: make([]byte, 64)}
}

// addr returns the address of peer i: 127.1.0.1 and up, without those that end
// in 0 or 255.
func (c *manyPeers) addr(i int) [4]byte {
	return [4]byte{127, byte(1 + i/(254*254)), byte(1 + i/254%254), byte(1 + i%254)}
}

// index is the inverse of addr.
func (c *manyPeers) index(a [4]byte) int {
	return int(a[1]-1)*254*254 + int(a[2]-1)*254 + int(a[3]-1)
}

// send sends a datagram as peer i.
func (c *manyPeers) send(i int, datagram []byte) error {
	h := (*syscall.Cmsghdr)(unsafe.Pointer(&c.oob[0]))
	h.Level, h.Type = syscall.IPPROTO_IP, syscall.IP_PKTINFO
	h.SetLen(syscall.CmsgLen(syscall.SizeofInet4Pktinfo))
	info := (*syscall.Inet4Pktinfo)(unsafe.Pointer(&c.oob[syscall.CmsgLen(0)]))
	info.Ifindex, info.Spec_dst = 0, c.addr(i)
	_, _, err := c.conn.WriteMsgUDPAddrPort(datagram, c.oob[:syscall.CmsgSpace(syscall.SizeofInet4Pktinfo)], c.server)
	return err
}

// receive returns the next datagram of the server, and for which peer it is.
// What strangers send, for whom this port may have been another program's, is
// skipped.
func (c *manyPeers) receive() (i int, datagram []byte, err error) {
	oob := make([]byte, 64)
	var n, m int
	var from netip.AddrPort
	for from != c.server {
		n, m, _, from, err = c.conn.ReadMsgUDPAddrPort(c.buf, oob)
		if err != nil {
			return 0, nil, err
		}
	}
	msgs, err := syscall.ParseSocketControlMessage(oob[:m])
	if err != nil {
		return 0, nil, err
	}
	if len(msgs) == 0 {
		return 0, nil, errors.New("no IP_PKTINFO")
	}
	info := (*syscall.Inet4Pktinfo)(unsafe.Pointer(&msgs[0].Data[0]))
	return c.index(info.Addr), c.buf[:n], nil
}

// exchange lets each peer send a message and waits for the answers, a few
// peers ahead of them.
func (c *manyPeers) exchange(t *testing.T, peers, sequence int) {
	const ahead = 64
	answered := make([]bool, peers)
	next, done := 0, 0
	retry := 0
	for done < peers {
		for next < peers && next-done < ahead {
			c.sendMessage(t, next, sequence)
			next++
		}
		c.conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		i, d, err := c.receive()
		if err != nil {
			if retry++; retry > 10 {
				t.Fatalf("%d of %d peers answered: %v", done, peers, err)
			}
			for i := range next {
				if !answered[i] {
					c.sendMessage(t, i, sequence)
				}
			}
			continue
		}
		_, n, err := reliable.ParseHeader(d)
		if err != nil || i < 0 || i >= peers {
			t.Fatalf("peer %d: %v", i, err)
		}
		payload := d[n:]
		if len(payload) == 0 {
			continue // only an acknowledgement
		}
		if got := int(binary.BigEndian.Uint32(payload)); got != i {
			t.Fatalf("peer %d got the answer to %d", i, got)
		}
		if !answered[i] {
			answered[i] = true
			done++
			retry = 0
		}
	}
}

func (c *manyPeers) sendMessage(t *testing.T, i, sequence int) {
	d := reliable.AppendHeader(nil, reliable.Header{Sequence: uint16(sequence), Ack: 65535})
	if err := c.send(i, binary.BigEndian.AppendUint32(d, uint32(i))); err != nil {
		t.Fatal(err)
	}
}

// TestCrowdSkipsStrangers: a stranger's datagram is none of a peer's.
func TestCrowdSkipsStrangers(t *testing.T) {
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	stranger, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	c := newManyPeers(t, server.LocalAddr().(*net.UDPAddr).AddrPort())
	peer := c.addr(3)
	to := &net.UDPAddr{IP: peer[:], Port: c.conn.LocalAddr().(*net.UDPAddr).Port}
	stranger.WriteTo([]byte("noise"), to)
	server.WriteTo([]byte("answer"), to)
	c.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if i, d, err := c.receive(); i != 3 || string(d) != "answer" || err != nil {
		t.Errorf("receive = %d, %q, %v, want 3, answer", i, d, err)
	}
}

// TestManyPeers has a listener serve very many peers, and measures what they
// hold. The application is one goroutine and a slice.
func TestManyPeers(t *testing.T) {
	peers := *peersFlag
	if peers == 0 {
		peers = testenv.Sized(2000, 100_000)
	}
	goroutines := testenv.Goroutines()
	lc := volley.ListenConfig{
		Config:    &volley.Config{KeepAlive: 30 * time.Second, IdleTimeout: 10 * time.Minute},
		MaxConns:  -1, // which lets in all at once
		MaxMemory: 4 << 30,
	}
	l, err := lc.Listen(context.Background(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newManyPeers(t, netip.MustParseAddrPort(l.Addr().String()))
	conns := make([]*volley.Conn, 0, peers)
	before := testenv.Heap()
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		buf := make([]byte, 2048)
		for len(conns) < peers {
			s, err := l.AcceptConn(context.Background())
			if err != nil {
				return
			}
			n, err := s.Read(buf)
			if err == nil {
				s.Write(buf[:n])
			}
			conns = append(conns, s)
		}
	}()
	start := time.Now()
	c.exchange(t, peers, 0)
	<-accepted
	t.Logf("%d peers answered in %v", peers, time.Since(start))
	if n := testenv.Goroutines() - goroutines; n > 8 {
		t.Errorf("%d goroutines, want at most 8", n)
	}
	held := (testenv.Heap() - before) / int64(peers)
	t.Logf("%d bytes a peer", held)
	if held > 4096 && !testenv.Race {
		t.Errorf("a peer holds %d bytes, want at most 4096", held)
	}
	if *idleFlag > 0 {
		cpu, sent := testenv.CPUTime(), l.Stats().Transport.SendCalls
		time.Sleep(*idleFlag)
		t.Logf("idle: %.2f %% of a core, %d keepalives", 100*float64(testenv.CPUTime()-cpu)/float64(*idleFlag),
			l.Stats().Transport.SendCalls-sent)
	}

	for i, s := range conns {
		s.Close()
		conns[i] = nil
	}
	l.Close()
	// For a moment, each waits for the hello that its goodbye would answer.
	left := testenv.Heap() - before
	for wait := time.Now().Add(10 * time.Second); left > 1<<20 && time.Now().Before(wait); left = testenv.Heap() - before {
		time.Sleep(50 * time.Millisecond)
	}
	if left > 1<<20 && !testenv.Race {
		t.Errorf("%d bytes left when all are closed, want at most 1 MiB", left)
	}
}
