package datagram

import "net"

func newPlatformSocket(c *net.UDPConn, _ *SocketConfig) (Socket, error) {
	return newPlainSocket(c), nil
}
