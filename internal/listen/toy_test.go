package listen

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/socket"
	"volley/internal/wire"
	"volley/simnet"
)

// A toy is a connection of a protocol that makes one of each address.
type toy struct {
	l        *Listener[*toy]
	dc       datagram.Conn
	once     sync.Once
	readable atomic.Bool
	ended    atomic.Bool
}

func (c *toy) Close() error {
	c.once.Do(func() {
		c.ended.Store(true)
		c.dc.Close()
		c.l.Gone(c, c.readable.Load())
	})
	return nil
}

func (c *toy) HandleBatch(_ time.Time, bufs [][]byte, _ *wire.Batch) {
	for _, b := range bufs {
		if string(b) == "message" {
			c.readable.Store(true)
		}
	}
}

func (c *toy) HandleTick(time.Time, *wire.Batch) time.Time { return time.Time{} }
func (c *toy) HandleClose(error)                           { c.Close() }
func (c *toy) WaitRoom(int, <-chan struct{}) error         { return nil }

// A toyListener is a protocol's listener.
type toyListener struct {
	side    Listener[*toy]
	stopped int
	conns   map[netip.AddrPort]*toy // all there have been
	socks   []*closeCounter
}

// HandleUnknown admits everybody.
func (l *toyListener) HandleUnknown(_ time.Time, from netip.AddrPort, _ bool, _ [][]byte, _ *wire.Batch) datagram.Admit {
	return func(_ time.Time, dc datagram.Conn) {
		c := &toy{l: &l.side, dc: dc}
		l.conns[from] = c
		l.side.Add()
		dc.Attach(c)
		if !l.side.Push(c) {
			c.Close()
		}
	}
}

// A closeCounter knows whether it has been closed, and breaks.
type closeCounter struct {
	socket.Socket
	closed atomic.Int32
	broken chan struct{}
}

var errBroken = errors.New("broken")

func (s *closeCounter) ReadBatch(ps []socket.Packet) (int, error) {
	n, err := s.Socket.ReadBatch(ps)
	select {
	case <-s.broken:
		return 0, errBroken
	default:
		return n, err
	}
}

func (s *closeCounter) Close() error {
	s.closed.Add(1)
	return s.Socket.Close()
}

// listenToy serves on sockets of a network, 10.0.0.1 and so on.
func listenToy(t *testing.T, n *simnet.Network, sockets, backlog int) *toyListener {
	t.Helper()
	l := &toyListener{conns: make(map[netip.AddrPort]*toy)}
	l.side.Init(backlog, func(*toy) {}, (*toy).Close)
	var port Port
	for i := range sockets {
		pc, err := n.Listen(serverAddr(i).String())
		require.NoError(t, err)
		sock := &closeCounter{Socket: socket.NewPacket(pc), broken: make(chan struct{})}
		l.socks = append(l.socks, sock)
		port.socks = append(port.socks, sock)
	}
	l.side.Serve(&port, datagram.MuxConfig{Acceptor: l, MaxDatagram: 1000}, Hooks{
		Stop: func() { l.stopped++ },
		End:  func(h datagram.Handler) { h.(*toy).Close() },
	})
	return l
}

func serverAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 1)
}

func peerAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 1)
}

// send sends a datagram from a peer to a socket.
func send(t *testing.T, n *simnet.Network, peer, sock int, payload string) {
	t.Helper()
	pc, err := n.Listen(peerAddr(peer).String())
	require.NoError(t, err)
	defer pc.Close()
	_, err = pc.WriteTo([]byte(payload), net.UDPAddrFromAddrPort(serverAddr(sock)))
	require.NoError(t, err)
}
