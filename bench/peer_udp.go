package main

import (
	"net"
	"net/netip"
)

var udpPeer = &peer{
	name:      "udp",
	loadModes: []string{modeGame, modeFanOut},
	crowd:     true,
	about:     "`net.UDPConn`, one datagram a message and a system call, no connection: what a message costs without any library",
	window:    wideWindow, connectionless: true,
	listen: func(int) (listener, error) {
		c, err := listenUDP()
		if err != nil {
			return nil, err
		}
		return newOneLinkListener(&udpServerLink{c: c}, c.LocalAddr()), nil
	},
	dial: func(addr string, _ int) (link, error) {
		c, err := dialUDP(addr)
		if err != nil {
			return nil, err
		}
		return udpLink{c}, nil
	},
}

// udpLink is a dialed socket.
type udpLink struct{ c *net.UDPConn }

func (l udpLink) WriteMessage(b []byte) error {
	_, err := l.c.Write(b)
	return err
}

func (l udpLink) ReadMessage(buf []byte) ([]byte, error) {
	n, err := l.c.Read(buf)
	return buf[:n], err
}

func (l udpLink) Flush() error { return nil }
func (l udpLink) Close() error { return l.c.Close() }

// udpServerLink is a socket that hears everybody and answers whom it heard last.
type udpServerLink struct {
	c    *net.UDPConn
	last netip.AddrPort
}

func (l *udpServerLink) WriteMessage(b []byte) error {
	_, err := l.c.WriteToUDPAddrPort(b, l.last)
	return err
}

func (l *udpServerLink) ReadMessage(buf []byte) ([]byte, error) {
	n, from, err := l.c.ReadFromUDPAddrPort(buf)
	l.last = from
	return buf[:n], err
}

// Sender returns a link to whom l heard last.
func (l *udpServerLink) Sender() link { return udpTarget{udpLink{l.c}, l.last} }

// udpTarget writes from the server's socket to one client.
type udpTarget struct {
	udpLink
	addr netip.AddrPort
}

func (l udpTarget) WriteMessage(b []byte) error {
	_, err := l.c.WriteToUDPAddrPort(b, l.addr)
	return err
}

func (l *udpServerLink) Flush() error { return nil }
func (l *udpServerLink) Close() error { return l.c.Close() }
