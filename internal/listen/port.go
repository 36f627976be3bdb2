package listen

import (
	"context"
	"net"
	"syscall"

	"volley/internal/datagram"
	"volley/internal/socket"
)

// Options say how to open a port.
type Options struct {
	// Sockets is how many sockets share the port; less than one is one.
	Sockets int
	// Control is called with each socket before it is bound; nil: nothing is.
	Control func(network, address string, c syscall.RawConn) error
	// Socket is for UDP sockets.
	Socket socket.Config
}

// MaxSockets is how many sockets may share a port.
const MaxSockets = 1024

// A Port is the sockets of one port, bound and not read yet. Pass it to
// Listener.Serve or Muxes, or Close it.
type Port struct {
	socks []socket.Socket
	early uint64 // datagrams discarded
}

// CheckNetwork returns an error of package net unless the network is udp, udp4 or udp6.
func CheckNetwork(op, network string) error {
	switch network {
	case "udp", "udp4", "udp6":
		return nil
	}
	return &net.OpError{Op: op, Net: network, Err: net.UnknownNetworkError(network)}
}

// An Opener makes a Port with the options of a Listener.
type Opener func(Options) (*Port, error)

// At is an Opener of a UDP address, see [Open].
func At(ctx context.Context, network, address string) Opener {
	return func(o Options) (*Port, error) {
		if err := CheckNetwork("listen", network); err != nil {
			return nil, err
		}
		return Open(ctx, network, address, o)
	}
}

// On is an Opener of a socket that exists, see [OpenPacket].
func On(pc net.PacketConn) Opener {
	return func(o Options) (*Port, error) { return OpenPacket(pc, o) }
}

// Open binds sockets to a UDP address. Several share out the peers (SO_REUSEPORT); what came
// before the last was bound is discarded. The context bounds the resolution. Errors are
// those of net.ListenConfig.
func Open(ctx context.Context, network, address string, o Options) (*Port, error) {
	pcs, err := o.bind(ctx, network, address)
	var p *Port
	if err == nil {
		p, err = o.open(pcs)
	}
	if err != nil {
		for _, pc := range pcs {
			pc.Close()
		}
		return nil, err
	}
	return p, nil
}

// bind returns the sockets on one address, also those there are after an error.
func (o *Options) bind(ctx context.Context, network, address string) (pcs []net.PacketConn, err error) {
	n := max(1, o.Sockets)
	nlc := net.ListenConfig{Control: o.control(n)}
	for range n {
		pc, err := nlc.ListenPacket(ctx, network, address)
		if err != nil {
			return pcs, err
		}
		address = pc.LocalAddr().String() // of port 0, the one that was given
		pcs = append(pcs, pc)
	}
	return pcs, nil
}

// control returns what prepares one of n sockets.
func (o *Options) control(n int) func(string, string, syscall.RawConn) error {
	if n == 1 {
		return o.Control
	}
	return func(network, address string, c syscall.RawConn) error {
		if err := socket.ReusePortControl(network, address, c); err != nil || o.Control == nil {
			return err
		}
		return o.Control(network, address, c)
	}
}

// open makes a Port of sockets that are all bound.
func (o *Options) open(pcs []net.PacketConn) (*Port, error) {
	p := new(Port)
	if len(pcs) > 1 {
		for _, pc := range pcs {
			n, err := socket.DiscardQueued(pc.(*net.UDPConn))
			if err != nil {
				return nil, err
			}
			p.early += n
		}
	}
	for _, pc := range pcs {
		sock, err := socket.New(pc, o.Socket)
		if err != nil {
			return nil, err
		}
		p.socks = append(p.socks, sock)
	}
	return p, nil
}

// OpenPacket makes a Port of a socket, which stays the caller's after an error.
func OpenPacket(pc net.PacketConn, o Options) (*Port, error) {
	return o.open([]net.PacketConn{pc})
}

// PortOf returns a Port of a socket.
func PortOf(sock socket.Socket) *Port { return &Port{socks: []socket.Socket{sock}} }

// Addr returns the address of the port.
func (p *Port) Addr() net.Addr { return p.socks[0].LocalAddr() }

// Muxes takes the sockets over, each with a Mux that is still to be started. It sets cfg.Group.
func (p *Port) Muxes(cfg datagram.MuxConfig) (muxes []*datagram.Mux) {
	if len(p.socks) > 1 {
		cfg.Group = datagram.NewMuxGroup()
	}
	for _, sock := range p.socks {
		muxes = append(muxes, datagram.NewMux(sock, cfg))
	}
	return muxes
}

// Close closes the sockets of a Port that is not served.
func (p *Port) Close() {
	for _, s := range p.socks {
		s.Close()
	}
}
