package main

import "net"

var (
	tcpPeer = &peer{
		name:   "tcp",
		about:  "TCP, a length in front of each message, one Write a message",
		listen: func(int) (listener, error) { return listenTCP(false) },
		dial:   func(addr string, _ int) (link, error) { return dialTCP(addr, false) },
	}
	tcpBufferedPeer = &peer{
		name:   "tcp-buffered",
		about:  "the same behind a bufio.Writer of 64 KiB, flushed at the end of a burst",
		listen: func(int) (listener, error) { return listenTCP(true) },
		dial:   func(addr string, _ int) (link, error) { return dialTCP(addr, true) },
	}
)

func listenTCP(buffered bool) (listener, error) {
	ln, err := net.Listen("tcp4", listenAddr())
	if err != nil {
		return nil, err
	}
	return netListener{ln, func(c net.Conn) link { return newStreamLink(c, buffered) }}, nil
}

func dialTCP(addr string, buffered bool) (link, error) {
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		return nil, err
	}
	return newStreamLink(c, buffered), nil
}
