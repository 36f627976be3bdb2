package main

import (
	"net"

	"github.com/sandertv/go-raknet"
)

var raknetPeer = &peer{
	name:   "raknet",
	module: "github.com/sandertv/go-raknet",
	about: "go-raknet, reliable and ordered; it ends a connection that has sent more than 8192 datagrams between two of its " +
		"acknowledgements, 100 ms apart, so it takes part at low rates only",
	maxMessage: 1200,
	modes:      []string{modePingPong, modePaced, modeIdle},
	listen: func(int) (listener, error) {
		ln, err := raknet.Listen(listenAddr())
		if err != nil {
			return nil, err
		}
		return netListener{ln, newRaknetLink}, nil
	},
	dial: func(addr string, _ int) (link, error) {
		c, err := raknet.Dial(addr)
		if err != nil {
			return nil, err
		}
		return newRaknetLink(c), nil
	},
}

// raknetID is the first byte of every message; lower ones are RakNet's own.
const raknetID = 0xfe

type raknetLink struct {
	connLink
	frame []byte
}

func newRaknetLink(c net.Conn) link { return &raknetLink{connLink: connLink{c}} }

func (l *raknetLink) WriteMessage(b []byte) error {
	l.frame = append(append(l.frame[:0], raknetID), b...)
	return l.connLink.WriteMessage(l.frame)
}

func (l *raknetLink) ReadMessage(buf []byte) ([]byte, error) {
	b, err := l.c.(*raknet.Conn).ReadPacket()
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return b[1:], nil
}
