package porous

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/netconn"
	"volley/internal/registry"
	"volley/internal/socket"
)

// A Dialer has options for dialing. The zero value dials as [Dial] does.
type Dialer struct {
	// Config is for the connections; nil: the defaults.
	Config *Config
	// NetDialer makes the socket: local address, Control, resolver and so on.
	NetDialer net.Dialer
}

// Dial connects to a UDP address with the default Config, and returns when the peer
// has answered. See [Dialer.Dial].
func Dial(network, address string) (*Conn, error) {
	var d Dialer
	return d.Dial(context.Background(), network, address)
}

// Dial connects to a UDP address, and returns when the peer has answered. The
// network is "udp", "udp4" or "udp6"; the address is as for net.Dial. The
// context bounds the attempt, and means nothing to the connection afterwards.
//
// Errors are those of net.Dialer, a *[ConfigError], the context's, [ErrRefused] and
// [ErrHandshakeTimeout]. If the peer was silent, the error also matches the last error
// of the socket, if there was one, such as syscall.ECONNREFUSED. Such an error does not
// end the attempt, because anybody may have sent it.
func (d *Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	if err := listen.CheckNetwork("dial", network); err != nil {
		return nil, err
	}
	set, err := newSettings(d.Config, datagram.MaxUDP)
	if err != nil {
		return nil, err
	}
	inner, err := d.NetDialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return d.dialConnected(ctx, inner, set)
}

// DialOn connects to an address as Dial does, over a socket that exists: a UDP socket
// or any other net.PacketConn. It takes pc over, also if it fails: the connection
// closes it, and nobody else may use it. Datagrams from other addresses are
// dropped. The NetDialer of d is not used.
func (d *Dialer) DialOn(ctx context.Context, pc net.PacketConn, raddr net.Addr) (*Conn, error) {
	if reason := netconn.Unfit(pc); reason != "" {
		return nil, configError("pc", "%s", reason)
	}
	set, err := newSettings(d.Config, datagram.MaxUDP)
	if err == nil && netconn.IsNil(raddr) {
		err = configError("raddr", "it is nil")
	}
	if err != nil {
		pc.Close()
		return nil, err
	}
	if udp, ok := pc.(*net.UDPConn); ok && udp.RemoteAddr() != nil {
		if peer := udp.RemoteAddr().String(); peer != raddr.String() {
			return nil, dialOnError(pc, raddr, &net.AddrError{Err: "the socket is connected to " + peer, Addr: raddr.String()})
		}
		return d.dialConnected(ctx, udp, set)
	}
	sock, err := socket.New(pc, socketConfig(d.Config))
	if err != nil {
		pc.Close()
		return nil, err
	}
	addr, err := addrPort(sock, pc, raddr)
	if err != nil {
		return nil, dialOnError(pc, raddr, err)
	}
	m := datagram.NewMux(sock, datagram.MuxConfig{MaxDatagram: datagram.MaxUDP})
	defer m.Close() // the socket goes with the one connection
	m.Start()
	peer, err := m.Dial(addr)
	if err != nil {
		return nil, dialOnError(pc, raddr, err)
	}
	return new(Conn).dial(ctx, solePeer{peer}, set)
}

// dialOnError closes pc and returns the error of DialOn.
func dialOnError(pc net.PacketConn, raddr net.Addr, err error) error {
	local := pc.LocalAddr()
	pc.Close()
	return &net.OpError{Op: "dial", Net: local.Network(), Source: local, Addr: raddr, Err: err}
}

// addrPort returns what an address is to a socket.
func addrPort(sock socket.Socket, pc net.PacketConn, addr net.Addr) (ap netip.AddrPort, err error) {
	if udp, ok := addr.(*net.UDPAddr); ok {
		ap = udp.AddrPort()
	} else if m := sock.Features().Addrs; m != nil {
		ap = m.AddrPort(addr)
	} else {
		ap, _ = netip.ParseAddrPort(addr.String())
	}
	ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	if !ap.IsValid() || ap.Port() == 0 {
		return ap, &net.AddrError{Err: "no address to write to", Addr: addr.String()}
	}
	if _, ok := pc.(*net.UDPConn); ok {
		return ap, listen.CheckFamily(pc.LocalAddr(), ap)
	}
	return ap, nil
}

// A solePeer is the only Conn of its socket: the connection itself answers a peer
// that asks again for the end, and not the address.
type solePeer struct{ *datagram.Peer }

func (p solePeer) Features() datagram.Features {
	f := p.Peer.Features()
	f.Tombstone = nil
	return f
}

// dialConnected dials over a connection to the peer, which it takes over.
func (d *Dialer) dialConnected(ctx context.Context, inner net.Conn, set *settings) (*Conn, error) {
	dc, err := newSingle(inner, d.Config, set)
	if err != nil {
		inner.Close()
		return nil, err
	}
	return (&Conn{inner: inner}).dial(ctx, dc, set)
}

// dial starts a dialed connection, and waits for the handshake.
func (c *Conn) dial(ctx context.Context, dc datagram.Conn, set *settings) (*Conn, error) {
	if err := c.startIn(dialedConns, dc, set); err != nil {
		dc.Close()
		return nil, err
	}
	return c.connect(ctx)
}

func (c *Conn) startIn(r *registry.Set[Conn], dc datagram.Conn, set *settings) error {
	c.onGone = func() { r.Ended(c) }
	if err := c.start(dc, set, randomIDs()); err != nil {
		return err
	}
	r.Add(c)
	return nil
}

// connect waits for the handshake, or closes c.
func (c *Conn) connect(ctx context.Context) (*Conn, error) {
	c.mu.Lock()
	err := c.handshakeUnlocking(ctx)
	c.accepted = err == nil
	c.mu.Unlock()
	if err != nil {
		c.Abort()
		return nil, c.opError("dial", err)
	}
	return c, nil
}

// handshakeUnlocking waits until the handshake is done.
func (c *Conn) handshakeUnlocking(ctx context.Context) error {
	for !c.connected {
		if err := c.writeErrorLocked(); err != nil {
			return err
		}
		if c.awaitUnlocking(ctx.Done(), nil) == wokenCancel && !c.connected {
			return netconn.Silence(c.out.Below, ctx.Err())
		}
	}
	return nil
}

func newSingle(inner net.Conn, cfg *Config, set *settings) (datagram.Conn, error) {
	return datagram.Over(inner, datagram.OverConfig{
		Socket:      socketConfig(cfg),
		MaxDatagram: datagram.MaxUDP,
		MaxForeign:  set.core.MTU,
		MaxMessage:  set.core.MTU,
	})
}

func randomIDs() ids {
	var b [4]byte
	rand.Read(b[:])
	id := binary.BigEndian.Uint32(b[:])
	return ids{own: id, other: id}
}
