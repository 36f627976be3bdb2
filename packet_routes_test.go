package volley

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/simnet"
)

// A manySocket is a socket on several addresses of a simulated network, which the
// system sends from the first of, unless it is told.
type manySocket struct {
	addrs []netip.Addr
	socks []socket.Socket
	in    chan socket.Packet
	done  chan struct{}
}

// packetsAt returns a PacketConn on addresses with the port 7.
func packetsAt(t *testing.T, n *simnet.Network, cfg *Config, addrs ...string) *PacketConn {
	t.Helper()
	s := &manySocket{in: make(chan socket.Packet), done: make(chan struct{})}
	for _, a := range addrs {
		below, err := n.Listen(a + ":7")
		require.NoError(t, err)
		addr, sock := netip.MustParseAddr(a), socket.NewPacket(below)
		s.addrs, s.socks = append(s.addrs, addr), append(s.socks, sock)
		go func() {
			ps := make([]socket.Packet, 1)
			for {
				if _, err := sock.ReadBatch(ps); err != nil {
					return
				}
				p := socket.Packet{Buf: slices.Clone(ps[0].Buf), Addr: ps[0].Addr, Local: addr}
				select {
				case s.in <- p:
				case <-s.done:
					return
				}
			}
		}()
	}
	pc, err := (&ListenConfig{Config: cfg}).newPacketConn()
	require.NoError(t, err)
	pc.serveOn(s)
	return pc
}

func (s *manySocket) ReadBatch(ps []socket.Packet) (int, error) {
	select {
	case ps[0] = <-s.in:
		return 1, nil
	case <-s.done:
		return 0, net.ErrClosed
	}
}

func (s *manySocket) WriteBatch(ps []socket.Packet) (int, error) {
	for i := range ps {
		to := s.socks[max(0, slices.Index(s.addrs, ps[i].Local))]
		if _, err := to.WriteBatch(ps[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(ps), nil
}

func (s *manySocket) LocalAddr() net.Addr       { return &net.UDPAddr{Port: 7} }
func (s *manySocket) Stats() socket.Stats       { return socket.Stats{} }
func (s *manySocket) Features() socket.Features { return socket.Features{} }

func (s *manySocket) Close() error {
	close(s.done)
	for _, sock := range s.socks {
		sock.Close()
	}
	return nil
}

// routes is a PacketConn at 10.0.0.1 and two more addresses, and a peer.
type routes struct {
	t    *testing.T
	net  *simnet.Network
	pc   *PacketConn
	peer *PacketConn
	buf  []byte
}

func testRoutes(t *testing.T, cfg *Config, f func(r *routes)) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: time.Millisecond, Ordered: true})
		r := &routes{t: t, net: n, buf: make([]byte, 100)}
		r.pc = packetsAt(t, n, cfg, "10.0.0.1", "10.0.0.2", "10.0.0.3")
		defer r.pc.Close()
		r.peer = packetAt(t, n, "10.0.1.1:9", nil)
		defer func() { r.peer.Close() }()
		f(r)
	})
}

// hear has the peer send a message to one of the addresses, and returns from whom
// it came.
func (r *routes) hear(local string) net.Addr {
	r.t.Helper()
	to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(local + ":7"))
	_, err := r.peer.WriteTo([]byte("x"), to)
	require.NoError(r.t, err)
	r.pc.SetReadDeadline(time.Now().Add(time.Second))
	_, from, err := r.pc.ReadFrom(r.buf)
	require.NoError(r.t, err)
	return from
}

// want has a message sent and checks from which address it comes; "": it does not.
func (r *routes) want(local string, send func([]byte) error) {
	r.t.Helper()
	require.NoError(r.t, send([]byte("y")))
	r.peer.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, by, err := r.peer.ReadFrom(r.buf)
	if local == "" {
		wantTimeout(r.t, "ReadFrom", err)
		return
	}
	require.NoError(r.t, err)
	require.Equal(r.t, local+":7", by.String())
	time.Sleep(100 * time.Millisecond) // for its acknowledgement
}

// to sends to a value of an address, plain to the address alone.
func (r *routes) to(a net.Addr) func([]byte) error {
	return func(b []byte) error { _, err := r.pc.WriteTo(b, a); return err }
}

func (r *routes) plain(b []byte) error {
	_, err := r.pc.WriteToUDPAddrPort(b, netip.MustParseAddrPort("10.0.1.1:9"))
	return err
}

// What ReadFrom has returned leads back; an address alone is the first one that has
// acknowledged something.
func TestPacketRoutes(t *testing.T) {
	testRoutes(t, nil, func(r *routes) {
		two := r.hear("10.0.0.2")
		three := r.hear("10.0.0.3")
		require.Equal(t, two, three)
		r.want("10.0.0.2", r.plain)
		r.want("10.0.0.3", r.to(three))
		for range 3 {
			r.want("10.0.0.2", r.to(two))
			r.want("10.0.0.3", r.to(three))
			r.want("10.0.0.2", r.plain)
			r.want("10.0.0.2", r.to(copyOf(three)))
		}
		require.Equal(t, 2, r.pc.Stats().Peers)
		stats, known := r.pc.PeerStats(three)
		require.True(t, known)
		require.EqualValues(t, 4, stats.MessagesSent)
		stats, known = r.pc.PeerStats(copyOf(three))
		require.True(t, known)
		require.EqualValues(t, 10, stats.MessagesSent)
	})
}

// A forged datagram to another address of ours turns nothing away, before the first
// acknowledgement and after it; not even what is sent to somebody who is silent.
func TestPacketRoutesForged(t *testing.T) {
	testRoutes(t, nil, func(r *routes) {
		r.hear("10.0.0.2")
		r.forge("10.0.0.3")
		r.want("10.0.0.2", r.plain)
		r.forge("10.0.0.1")
		r.want("10.0.0.2", r.plain)
		time.Sleep(10 * time.Second) // silence, and none is asked
		r.forge("10.0.0.3")
		r.want("10.0.0.2", r.plain)
		require.Equal(t, 3, r.pc.Stats().Peers)
	})
}

// forge has somebody send a message in the name of the peer.
func (r *routes) forge(local string) {
	r.t.Helper()
	s := r.pc.sock.(*manySocket)
	s.in <- socket.Packet{Buf: forged(7, 20), Addr: netip.MustParseAddrPort("10.0.1.1:9"), Local: netip.MustParseAddr(local)}
	r.pc.SetReadDeadline(time.Now().Add(time.Second))
	_, _, err := r.pc.ReadFrom(r.buf)
	require.NoError(r.t, err)
}

// A forger that comes first, or while the peer's path is broken, has its answers only
// until the peer is heard.
func TestPacketRoutesForgedFirst(t *testing.T) {
	testRoutes(t, nil, func(r *routes) {
		r.deafBut("10.0.0.2")
		r.forge("10.0.0.1")
		two := r.hear("10.0.0.2")
		r.want("10.0.0.2", r.to(two))
		r.want("10.0.0.2", r.plain)
		r.net.SetDefault(simnet.Link{Loss: 1})
		for range 4 {
			r.want("", r.plain)
			time.Sleep(time.Second)
		}
		r.forge("10.0.0.3")
		r.net.SetDefault(simnet.Link{Latency: time.Millisecond})
		r.want("", r.plain)
		r.hear("10.0.0.2")
		r.want("10.0.0.2", r.plain)
	})
}

// A peer that has gone gives way to the one that has its address now, though that
// has acknowledged nothing, after 3 s in which it was sent messages; and takes its
// place again if it was there after all. It is forgotten though the other one talks,
// and its value of the address then is as good as any.
func TestPacketRoutesGone(t *testing.T) {
	testRoutes(t, &Config{IdleTimeout: 20 * time.Second}, func(r *routes) {
		first := r.hear("10.0.0.2")
		r.want("10.0.0.2", r.plain)
		r.deafBut("10.0.0.3")
		r.hear("10.0.0.3")
		for begin := time.Now(); time.Since(begin) < routePatience; {
			r.want("", r.plain)
		}
		r.want("10.0.0.3", r.plain)
		r.want("10.0.0.3", r.plain)
		require.Equal(t, 2, r.pc.Stats().Peers)
		for range 25 {
			r.hear("10.0.0.3")
			time.Sleep(time.Second)
		}
		require.Equal(t, 1, r.pc.Stats().Peers)
		r.want("10.0.0.3", r.to(first))
	})
}

// deafBut starts the peer again, as one that hears one of the addresses only.
func (r *routes) deafBut(addr string) {
	r.peer.Close()
	dialed, err := r.net.Listen("10.0.1.1:9")
	require.NoError(r.t, err)
	r.peer, err = NewPacketConn(&onlyFrom{PacketConn: dialed, addr: addr + ":7"}, nil)
	require.NoError(r.t, err)
}

// onlyFrom is the socket of a peer that hears one address, as one that is dialed.
type onlyFrom struct {
	net.PacketConn
	addr string
}

func (c *onlyFrom) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(b)
		if err != nil || from.String() == c.addr {
			return n, from, err
		}
	}
}

// What is written to a peer, or comes from it, just as it is forgotten keeps to the
// address that it knows us by.
func TestPacketRoutesAgain(t *testing.T) {
	testRoutes(t, &Config{IdleTimeout: 10 * time.Minute}, func(r *routes) {
		forget := func(a net.Addr) {
			time.Sleep(15 * time.Second)
			p, _ := r.pc.find(addrPortOf(r.pc.sock, a), a)
			p.conn.mu.Lock()
			p.conn.user.EndLocked(&p.conn.out, errForgotten)
			p.conn.releaseLocked()
			p.conn.mu.Unlock()
			r.pc.gone(&p.conn)
		}
		two := r.hear("10.0.0.2")
		three := r.hear("10.0.0.3")
		forget(three)
		r.want("10.0.0.3", r.to(three))
		forget(two)
		r.want("10.0.0.2", r.to(two))
		three = r.hear("10.0.0.3")
		forget(three)
		next := r.hear("10.0.0.3")
		require.NotSame(t, three, next)
		r.want("10.0.0.3", r.to(next))
		r.want("10.0.0.2", r.to(three)) // the one that is known for longer by now
		require.Equal(t, 2, r.pc.Stats().Peers)
		_, err := r.pc.again((*packetPeer)(r.pc.mux.Handler(addrPortOf(r.pc.sock, next)).(*peerHandler)))
		require.NoError(t, err)
		r.pc.Close()
		_, err = r.pc.peer(netip.MustParseAddrPort("10.0.1.1:9"), nil)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}
