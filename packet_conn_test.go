package volley

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"volley/internal/pattern"
	"volley/internal/testenv"
	"volley/reliable"
	"volley/simnet"
)

// A program that used an unconnected *net.UDPConn compiles with a PacketConn.
var _ = []interface {
	net.PacketConn
	ReadFromUDPAddrPort([]byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort([]byte, netip.AddrPort) (int, error)
}{(*net.UDPConn)(nil), (*PacketConn)(nil)}

// listenPacket returns a PacketConn on loopback, which is closed with the test.
func listenPacket(tb testing.TB, lc *ListenConfig) *PacketConn {
	tb.Helper()
	pc, err := lc.ListenPacket(tb.Context(), "udp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { pc.Close() })
	return pc
}

// echoPackets has every message answered, until pc is closed.
func echoPackets(tb testing.TB, pc *PacketConn) {
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, pc.MaxMessageSize())
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			if _, err := pc.WriteTo(b[:n], from); err != nil && !errors.Is(err, net.ErrClosed) {
				tb.Errorf("WriteTo: %v", err)
			}
		}
	})
	tb.Cleanup(func() { pc.Close(); wg.Wait() })
}

func TestPacketConnMessages(t *testing.T) {
	a, b := listenPacket(t, &ListenConfig{}), listenPacket(t, &ListenConfig{})
	echoPackets(t, b)
	buf := make([]byte, 20000)
	a.SetReadDeadline(time.Now().Add(20 * time.Second))
	for i, size := range []int{1, 4, 1200, 1201, 5000, 16384} {
		msg := pattern.New(uint32(i), size)
		n, err := a.WriteTo(msg, b.LocalAddr())
		require.NoError(t, err)
		require.Equal(t, size, n)
		n, from, err := a.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, msg, buf[:n])
		require.Equal(t, b.LocalAddr().String(), from.String())
	}
	to := b.LocalAddr().(*net.UDPAddr).AddrPort()
	for _, addr := range []netip.AddrPort{to, netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())} {
		_, err := a.WriteToUDPAddrPort([]byte("x"), addr)
		require.NoError(t, err)
		n, from, err := a.ReadFromUDPAddrPort(buf)
		require.NoError(t, err)
		require.Equal(t, "x", string(buf[:n]))
		require.Equal(t, to, from)
	}
	require.Equal(t, 1, a.Stats().Peers)
	require.Equal(t, 1, b.Stats().Peers)
	require.EqualValues(t, 1, b.Stats().Admitted)
	s, known := a.PeerStats(b.LocalAddr())
	require.True(t, known)
	require.EqualValues(t, 8, s.MessagesSent)
	require.EqualValues(t, 8, s.MessagesReceived)
	_, known = a.PeerStats(a.LocalAddr())
	require.False(t, known)
}

// A PacketConn and a Conn understand each other, whoever is the server.
func TestPacketConnWithConns(t *testing.T) {
	pc := listenPacket(t, &ListenConfig{})
	echoPackets(t, pc)
	c, err := Dial("udp", pc.LocalAddr().String())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, exchange(c, 1, 10))

	l, err := Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	echoAll(t, l)
	client := listenPacket(t, &ListenConfig{})
	buf := make([]byte, 100)
	client.SetReadDeadline(time.Now().Add(20 * time.Second))
	for range 10 {
		_, err := client.WriteTo([]byte("message"), l.Addr())
		require.NoError(t, err)
		n, _, err := client.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, "message", string(buf[:n]))
	}
}

// One socket serves many peers, each with ten messages at once.
func TestPacketConnManyPeers(t *testing.T) {
	peers, each := testenv.Sized(1000, 10_000), 10
	cfg := &Config{IdleTimeout: time.Hour}
	server := listenPacket(t, &ListenConfig{Config: cfg})
	echoPackets(t, server)
	const gate = 16 // clients at once, since a socket's buffer may be small
	start := time.Now()
	var wg sync.WaitGroup
	var next sync.Mutex
	at := 0
	for range gate {
		wg.Go(func() {
			for {
				next.Lock()
				peer := at
				at++
				next.Unlock()
				if peer >= peers || !exchangePackets(t, server.LocalAddr(), peer, each) {
					return
				}
			}
		})
	}
	wg.Wait()
	if runtime.GOOS == "linux" { // elsewhere some get the port of another one
		s := server.Stats()
		require.EqualValues(t, peers, s.Admitted)
		if time.Since(start) < partedLife { // else it has forgotten some that said goodbye
			require.Equal(t, peers, s.Peers)
		}
	}
}

// exchangePackets sends messages from a socket of its own and waits for their
// echoes. It reports whether all were right.
func exchangePackets(t *testing.T, to net.Addr, peer, each int) bool {
	address := "127.0.0.1:0"
	if runtime.GOOS == "linux" {
		address = fmt.Sprintf("127.1.%d.%d:0", peer/250, 1+peer%250)
	}
	lc := ListenConfig{Config: &Config{SocketBuffer: -1}}
	pc, err := lc.ListenPacket(t.Context(), "udp", address)
	if err != nil {
		t.Error(err)
		return false
	}
	defer pc.Close()
	pc.SetReadDeadline(time.Now().Add(20 * time.Second))
	for i := range each {
		if _, err := pc.WriteTo(pattern.New(uint32(peer*each+i), 20+i*7), to); err != nil {
			t.Errorf("peer %d: %v", peer, err)
			return false
		}
	}
	seen := make(map[uint32]bool)
	b := make([]byte, 1000)
	for len(seen) < each {
		n, _, err := pc.ReadFrom(b)
		if err != nil {
			t.Errorf("peer %d: after %d echoes: %v", peer, len(seen), err)
			return false
		}
		number, err := pattern.Check(b[:n])
		if err != nil || int(number)/each != peer || seen[number] {
			t.Errorf("peer %d: echo %d: %v", peer, number, err)
			return false
		}
		seen[number] = true
	}
	return true
}

func TestPacketConnAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	a, b := listenPacket(t, &ListenConfig{}), listenPacket(t, &ListenConfig{})
	msg, buf := make([]byte, 200), make([]byte, 300)
	to := b.LocalAddr()
	ap := to.(*net.UDPAddr).AddrPort()
	for name, each := range map[string]func(){
		"net.Addr": func() {
			a.WriteTo(msg, to)
			_, from, err := b.ReadFrom(buf)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteTo(msg, from)
			a.ReadFrom(buf)
		},
		"netip.AddrPort": func() {
			a.WriteToUDPAddrPort(msg, ap)
			_, from, err := b.ReadFromUDPAddrPort(buf)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteToUDPAddrPort(msg, from)
			a.ReadFromUDPAddrPort(buf)
		},
	} {
		for range 200 {
			each()
		}
		require.LessOrEqual(t, testing.AllocsPerRun(500, each), 0.1, name)
	}
}

func TestPacketConnErrors(t *testing.T) {
	pc := listenPacket(t, &ListenConfig{})
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	_, err := pc.WriteTo(make([]byte, 16385), to)
	tooLarge, ok := errors.AsType[*MessageTooLargeError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, MessageTooLargeError{16385, 16384}, *tooLarge)
	for _, addr := range []net.Addr{nil, (*net.UDPAddr)(nil), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{}, pipeAddr("a")} {
		_, err = pc.WriteTo([]byte("x"), addr)
		_, ok := errors.AsType[*net.AddrError](err)
		require.True(t, ok, "to %v: %v", addr, err)
	}
	n, err := pc.WriteTo(nil, to)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Zero(t, pc.Stats().Peers)
	require.NoError(t, pc.Close())
	require.NoError(t, pc.Close())
	_, err = pc.WriteTo([]byte("x"), to)
	require.ErrorIs(t, err, net.ErrClosed)
	_, _, err = pc.ReadFrom(make([]byte, 10))
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, pc.SetDeadline(time.Now()), net.ErrClosed)

	for field, lc := range map[string]*ListenConfig{
		"ListenConfig.Sockets": {Sockets: 2}, "Config.MaxMessageSize": {Config: &Config{MaxMessageSize: -5}},
	} {
		_, err := lc.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
		ce, ok := errors.AsType[*ConfigError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, field, ce.Field)
	}
	_, err = ListenPacket("tcp", "127.0.0.1:0")
	_, ok = errors.AsType[net.UnknownNetworkError](err)
	require.True(t, ok, "%v", err)
	_, err = NewPacketConn(nil, nil)
	_, ok = errors.AsType[*ConfigError](err)
	require.True(t, ok, "%v", err)
}

// A buffer that is too short cuts the message and ends nobody's loop.
func TestPacketConnTruncates(t *testing.T) {
	a, b := listenPacket(t, &ListenConfig{}), listenPacket(t, &ListenConfig{})
	a.WriteTo([]byte("a long message"), b.LocalAddr())
	a.WriteTo([]byte("next"), b.LocalAddr())
	b.SetReadDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, 6)
	for _, want := range []string{"a long", "next"} {
		n, _, err := b.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, want, string(buf[:n]))
	}
	require.EqualValues(t, 1, b.Stats().MessagesTruncated)
}

func TestPacketConnReceipts(t *testing.T) {
	a, b := listenPacket(t, &ListenConfig{}), listenPacket(t, &ListenConfig{})
	nobody, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer nobody.Close()
	var ids []uint64
	for _, to := range []net.Addr{b.LocalAddr(), nobody.LocalAddr(), b.LocalAddr()} {
		id, err := a.WriteMessageTo([]byte("message"), to)
		require.NoError(t, err)
		require.NotContains(t, ids, id)
		ids = append(ids, id)
	}
	b.SetReadDeadline(time.Now().Add(30 * time.Second))
	b.ReadFrom(make([]byte, 100))
	b.WriteTo([]byte("answer"), a.LocalAddr())
	a.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, _, err = a.ReadFrom(make([]byte, 100))
	require.NoError(t, err)
	got := a.AppendReceipts(nil)
	require.NotEmpty(t, got)
	for _, r := range got {
		require.Contains(t, []uint64{ids[0], ids[2]}, r.ID)
		require.Equal(t, Delivered, r.Fate)
		require.Equal(t, b.LocalAddr().String(), r.Addr.String())
	}
	for _, id := range []uint64{ids[0], ids[1]} {
		require.NotZero(t, uint16(id))
		require.Less(t, uint16(id), uint16(1<<15-256), "the reference takes no first sequence above")
	}
}

func TestPacketConnWriteDeadline(t *testing.T) {
	a, b := listenPacket(t, &ListenConfig{}), listenPacket(t, &ListenConfig{})
	a.SetWriteDeadline(time.Now().Add(-time.Second))
	_, err := a.WriteTo([]byte("x"), b.LocalAddr())
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	a.SetWriteDeadline(time.Time{})
	_, err = a.WriteTo([]byte("x"), b.LocalAddr())
	require.NoError(t, err)
	a.SetWriteDeadline(time.Now().Add(-time.Second)) // the peer is known now
	_, err = a.WriteTo([]byte("x"), b.LocalAddr())
	wantTimeout(t, "WriteTo", err)
	a.SetWriteDeadline(time.Now().Add(time.Hour))
	_, err = a.WriteTo([]byte("x"), b.LocalAddr())
	require.NoError(t, err)
}

// A peer of a PacketConn takes little more than a connection of a Listener.
func TestPacketPeerSize(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		size := unsafe.Sizeof(packetPeer{})
		require.LessOrEqual(t, size, uintptr(1272), "beyond it and the allocator's 8, the next size is 1408")
	}
}

// A blockedSocket takes no datagrams until it is closed.
type blockedSocket struct {
	net.PacketConn
	closed chan struct{}
}

func (s *blockedSocket) WriteTo([]byte, net.Addr) (int, error) {
	<-s.closed
	return 0, net.ErrClosed
}

func (s *blockedSocket) Close() error {
	close(s.closed)
	return s.PacketConn.Close()
}

// Where the socket blocks, Close gives what was written to all peers together as
// long as it gives that to one.
func TestPacketConnCloseWhileTheSocketBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		below, err := n.Listen("10.0.0.1:7")
		require.NoError(t, err)
		pc, err := NewPacketConn(&blockedSocket{below, make(chan struct{})}, nil)
		require.NoError(t, err)
		var writers sync.WaitGroup
		for i := range 200 {
			writers.Go(func() {
				pc.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1 + i})
			})
		}
		synctest.Wait()
		require.Equal(t, 200, pc.Stats().Peers)
		began := time.Now()
		pc.Close()
		require.LessOrEqual(t, time.Since(began), time.Second)
		writers.Wait()
	})
}

// A message is acknowledged though it is not answered and nobody reads any more.
func TestPacketConnAcknowledgesWithoutAnswer(t *testing.T) {
	server := listenPacket(t, &ListenConfig{})
	c, err := Dial("udp", server.LocalAddr().String())
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := make([]byte, 100)
	for range 12 {
		sent, err := c.WriteMessage([]byte("the only one for a while"))
		require.NoError(t, err)
		server.SetReadDeadline(time.Now().Add(30 * time.Second))
		_, from, err := server.ReadFrom(b)
		require.NoError(t, err)
		receipts, err := c.WaitReceipts(ctx, nil) // nobody reads at the server
		require.NoError(t, err)
		require.Equal(t, sent, receipts[0].ID)
		require.Equal(t, reliable.FateDelivered, receipts[0].Fate)

		_, err = server.WriteTo([]byte("too late to carry it"), from)
		require.NoError(t, err)
		server.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, _, err = server.ReadFrom(b)
		wantTimeout(t, "ReadFrom", err)
	}
}

// Acknowledgements without a message to travel with leave within the AckDelay,
// and the lag of ticks.
func TestPacketConnAckDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		k := newTalk(t, n, 1, time.Minute, time.Minute)
		defer k.close()
		for range 10 {
			k.send(k.a, k.b, 1, 100, 0)
			time.Sleep(defaultAckDelay/2 + packetTickLag)
			synctest.Wait()
			s, known := k.a.PeerStats(k.b.LocalAddr())
			require.True(t, known)
			require.Equal(t, s.MessagesSent, s.MessagesDelivered)
			k.read()
			time.Sleep(3 * time.Second)
		}
	})
}

// floodSocket returns one of many sockets of a flood.
func floodSocket(t *testing.T, n *simnet.Network, number int) *simnet.Conn {
	t.Helper()
	pc, err := n.Listen(fmt.Sprintf("10.1.%d.%d:9", number/250, number%250))
	require.NoError(t, err)
	return pc
}

// forged is a datagram with a message of a size, of a sender that has heard
// nothing.
func forged(sequence uint16, size int) []byte {
	b := make([]byte, 9+size)
	b[0] = 0x1e
	binary.LittleEndian.PutUint16(b[1:], sequence)
	b[3], b[4] = 0xff, 0xff
	return b
}

// Strangers make no more peers than MaxConns, and make these hold no more than
// MaxMemory together and ReadBuffer each; a peer that is known to hear us is
// heard all the same.
func TestPacketConnFloodOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		below, err := n.Listen("10.0.0.1:7")
		require.NoError(t, err)
		const maxMemory, readBuffer = 1 << 20, 64 << 10
		pc, err := NewPacketConn(below, &ListenConfig{
			Config:   &Config{ReadBuffer: readBuffer},
			MaxConns: 100, MaxMemory: maxMemory,
			Filter: func(a netip.AddrPort) bool { return a.Addr() != netip.MustParseAddr("10.1.0.13") },
		})
		require.NoError(t, err)
		defer pc.Close()
		friend := packetAt(t, n, "10.0.0.2:7", nil)
		defer friend.Close()
		_, err = friend.WriteTo([]byte("hello"), pc.LocalAddr())
		require.NoError(t, err)
		buf := make([]byte, 20000)
		_, from, err := pc.ReadFrom(buf)
		require.NoError(t, err)
		pc.WriteTo([]byte("hello"), from)
		time.Sleep(time.Second)
		friend.WriteTo([]byte("and that I hear you"), pc.LocalAddr())
		time.Sleep(time.Second)

		for i := range 300 {
			s := floodSocket(t, n, i)
			for sequence := range uint16(60) {
				s.WriteTo(forged(sequence, 1100), pc.LocalAddr())
			}
			synctest.Wait()
			s.Close()
		}
		s := pc.Stats()
		require.Equal(t, 100, s.Peers)
		require.NotZero(t, s.Refused)
		require.EqualValues(t, 60, s.Filtered)
		require.LessOrEqual(t, s.Memory, int64(maxMemory))
		require.Greater(t, s.Memory, int64(maxMemory/2), "the test does not fill the memory")

		for i := range 20 { // the last quarter is for those who are known
			_, err := friend.WriteTo(pattern.New(uint32(i), 1000), pc.LocalAddr())
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		heard := 0
		pc.SetReadDeadline(time.Now().Add(time.Millisecond))
		for {
			_, a, err := pc.ReadFrom(buf)
			if err != nil {
				break
			}
			if a.String() == from.String() {
				heard++
			}
		}
		require.Equal(t, 21, heard)
		pc.SetReadDeadline(time.Time{})
		time.Sleep(31 * time.Second)
		require.Zero(t, pc.Stats().Peers)
		require.Zero(t, pc.Stats().Memory)
	})
}

// A peer whose messages fill its share of the buffer does not keep out others'.
func TestPacketConnReadBufferIsOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		pc := packetAt(t, n, "10.0.0.1:7", &Config{ReadBuffer: 32 << 10})
		defer pc.Close()
		loud, quiet := packetAt(t, n, "10.0.0.2:7", nil), packetAt(t, n, "10.0.0.3:7", nil)
		defer loud.Close()
		defer quiet.Close()
		for range 100 {
			loud.WriteTo(make([]byte, 1000), pc.LocalAddr())
			time.Sleep(time.Millisecond)
		}
		quiet.WriteTo([]byte("hello"), pc.LocalAddr())
		time.Sleep(time.Second)
		s, _ := pc.PeerStats(loud.LocalAddr())
		require.LessOrEqual(t, s.ReadQueue, 32<<10)
		require.EqualValues(t, 100, s.MessagesReceived+s.MessagesRefused+s.PacketsStale) // one is parked by the jump guard
		require.NotZero(t, s.MessagesRefused)
		s, _ = pc.PeerStats(quiet.LocalAddr())
		require.EqualValues(t, 1, s.MessagesReceived)
		require.Equal(t, 9, s.ReadQueue)
		buf := make([]byte, 2000)
		for range 33 {
			_, _, err := pc.ReadFrom(buf)
			require.NoError(t, err)
		}
		s, _ = pc.PeerStats(loud.LocalAddr())
		require.Zero(t, s.ReadQueue)
	})
}
