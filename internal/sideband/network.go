package sideband

import (
	"context"
	"net"
)

// A Network has the sockets of a session in tests of whole stacks in virtual time, in
// place of the system's.
type Network struct {
	DialTCP func(ctx context.Context, network, address string) (net.Conn, error)
	DialUDP func() (net.PacketConn, error)
}

type networkKey struct{}

// WithNetwork returns a context with which package secure dials over a Network.
func WithNetwork(ctx context.Context, n *Network) context.Context {
	return context.WithValue(ctx, networkKey{}, n)
}

// NetworkOf returns the Network of a context; nil: the system's.
func NetworkOf(ctx context.Context) *Network {
	n, _ := ctx.Value(networkKey{}).(*Network)
	return n
}
