package datagram

import (
	"net"

	"volley/internal/socket"
)

// An OverConfig says what Over makes.
type OverConfig struct {
	// Socket is for UDP sockets.
	Socket socket.Config
	// MaxDatagram is the largest datagram in bytes that a Conn on a UDP socket
	// promises, MaxForeign that on another connection, of which received ones
	// that are longer are cut.
	MaxDatagram, MaxForeign int
	// MaxMessage is what is written in bytes, at most, to another connection
	// between two calls of WaitWritable.
	MaxMessage int
}

// Over returns the best Conn on a connection to one peer. Unless there is an error,
// it takes c over. It is the Conn below a connection of volley's own, one that sends
// and receives in batches on a UDP socket, or one on any net.Conn that preserves
// message boundaries.
func Over(c net.Conn, cfg OverConfig) (Conn, error) {
	if dc := Below(c); dc != nil {
		return dc, nil
	}
	udp, ok := c.(*net.UDPConn)
	if !ok {
		return NewForeign(c, cfg.MaxForeign, cfg.MaxMessage), nil
	}
	sock, err := socket.NewUDP(udp, cfg.Socket)
	if err != nil {
		return nil, err
	}
	return NewSingle(sock, udp.RemoteAddr(), cfg.MaxDatagram), nil
}
