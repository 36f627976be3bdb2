package main

import (
	"net"

	"volley"
)

var volleyPacketPeer = &peer{
	name:      "volley-packet",
	modes:     []string{},
	loadModes: []string{modeGame},
	crowd:     true,
	about:     "this library, the server a `volley.PacketConn`: one socket and one ReadFrom for all clients",
	window:    wideWindow, connectionless: true,
	listen: func(int) (listener, error) {
		c, err := volley.ListenPacket("udp4", listenAddr())
		if err != nil {
			return nil, err
		}
		return newOneLinkListener(&packetServerLink{c: c}, c.LocalAddr()), nil
	},
	dial: volleyPeer.dial,
}

// packetServerLink is a PacketConn that answers whom it heard last.
type packetServerLink struct {
	c    *volley.PacketConn
	last net.Addr
}

func (l *packetServerLink) WriteMessage(b []byte) error {
	_, err := l.c.WriteTo(b, l.last)
	return err
}

func (l *packetServerLink) ReadMessage(buf []byte) ([]byte, error) {
	n, from, err := l.c.ReadFrom(buf)
	l.last = from
	return buf[:n], err
}

// Sender returns a link to whom l heard last.
func (l *packetServerLink) Sender() link { return packetTarget{l, l.last} }

func (l *packetServerLink) Flush() error { return nil }
func (l *packetServerLink) Close() error { return l.c.Close() }

// packetTarget writes from the server's socket to one client.
type packetTarget struct {
	*packetServerLink
	addr net.Addr
}

func (l packetTarget) WriteMessage(b []byte) error {
	_, err := l.c.WriteTo(b, l.addr)
	return err
}
