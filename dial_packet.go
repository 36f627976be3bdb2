package volley

import (
	"context"
	"net"
	"net/netip"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/netconn"
	"volley/internal/socket"
)

// DialOn connects to a peer over a UDP socket or any other net.PacketConn. It takes pc
// over: the connection closes it, and drops what comes from other addresses. It does
// not wait, and fails if ctx has ended. It greets the peer, as [Dial] does, unless d is
// Quiet, which is better over a protocol with connections of its own. NetDialer is not
// used. The error is a *[ConfigError], a *net.AddrError (such as an IPv6 address for a
// socket of IPv4), or one of the system. After an error pc is still the caller's.
func (d *Dialer) DialOn(ctx context.Context, pc net.PacketConn, raddr net.Addr) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	set, err := d.settings()
	if err != nil {
		return nil, err
	}
	if err := checkPacketConn(pc); err != nil {
		return nil, err
	}
	if isNil(raddr) {
		return nil, &net.OpError{Op: "dial", Net: pc.LocalAddr().Network(), Source: pc.LocalAddr(), Err: errMissingAddress}
	}
	if udp, ok := pc.(*net.UDPConn); ok && udp.RemoteAddr() != nil {
		return d.dialConnected(udp, raddr)
	}
	sock, err := socket.New(pc, socketConfig(d.Config))
	if err != nil {
		return nil, err
	}
	addr := addrPortOf(sock, raddr)
	err = checkAddr(addr)
	if _, ok := pc.(*net.UDPConn); ok && err == nil {
		err = listen.CheckFamily(pc.LocalAddr(), addr)
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: pc.LocalAddr().Network(), Source: pc.LocalAddr(), Addr: raddr, Err: err}
	}
	m := datagram.NewMux(sock, datagram.MuxConfig{MaxDatagram: datagram.MaxUDP})
	dc, err := m.Dial(addr)
	if err != nil {
		return nil, err
	}
	c := new(Conn)
	stop := set.watchDialed(dc)
	if err := c.start(dc, set); err != nil {
		stop()
		return nil, err
	}
	m.Start()
	m.Close() // the socket goes with the one connection
	dialedConns.Add(c)
	d.greet(c)
	return c, nil
}

func (d *Dialer) dialConnected(udp *net.UDPConn, raddr net.Addr) (*Conn, error) {
	if peer := udp.RemoteAddr(); !sameAddr(raddr, peer) {
		return nil, &net.OpError{Op: "dial", Net: "udp", Source: udp.LocalAddr(), Addr: raddr, Err: &otherPeerError{net.AddrError{
			Err: "the socket is connected to " + peer.String(), Addr: raddr.String(),
		}}}
	}
	return d.connect(udp)
}

var errMissingAddress error = &net.AddrError{Err: "missing address"}

// checkAddr refuses an address to which nothing can be written.
func checkAddr(to netip.AddrPort) error {
	if !to.IsValid() || to.Port() == 0 {
		return &net.AddrError{Err: "no address to write to", Addr: to.String()}
	}
	return nil
}

// addrPortOf returns what an address is to a Socket.
func addrPortOf(sock socket.Socket, addr net.Addr) netip.AddrPort {
	if udp, ok := addr.(*net.UDPAddr); ok {
		return plainAddrPort(udp)
	}
	if m := sock.Features().Addrs; m != nil {
		return m.AddrPort(addr)
	}
	ap, _ := netip.ParseAddrPort(addr.String())
	return plain(ap)
}

// checkPacketConn refuses what cannot carry datagrams.
func checkPacketConn(pc net.PacketConn) error {
	if reason := netconn.Unfit(pc); reason != "" {
		return &ConfigError{Field: "pc", Reason: reason}
	}
	return nil
}
