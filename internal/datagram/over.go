package datagram

import (
	"net"
	"reflect"
	"sync"

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

// Over returns the best Conn on a connection to one peer, and takes c over unless there is
// an error: volley's own below, a UDP socket in batches, or any net.Conn with message
// boundaries.
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

// layers maps the type of a protocol's connections to a func(net.Conn) Conn.
var layers sync.Map

// RegisterLayer sets how layers stack on connections of type C: f returns the Conn below.
func RegisterLayer[C net.Conn](f func(C) Conn) {
	layers.Store(reflect.TypeFor[C](), func(c net.Conn) Conn { return f(c.(C)) })
}

// Below returns the Conn by which a layer stacks on a connection of volley's own, without
// goroutine or copy. It is nil for others, also those that embed one: their changes would be
// passed over.
func Below(c net.Conn) Conn {
	if f, ok := layers.Load(reflect.TypeOf(c)); ok {
		return f.(func(net.Conn) Conn)(c)
	}
	return nil
}
