package main

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/quic-go/quic-go"
)

var (
	quicStreamPeer = &peer{
		name:   "quic-stream",
		module: "github.com/quic-go/quic-go",
		about:  "quic-go, one stream, a length in front of each message, one Write a message; encrypted",
		listen: func(int) (listener, error) { return listenQUIC(false) },
		dial:   func(addr string, _ int) (link, error) { return dialQUIC(addr, false) },
	}
	quicDatagramPeer = &peer{
		name:       "quic-datagram",
		loadModes:  []string{modeGame},
		module:     "github.com/quic-go/quic-go",
		about:      "quic-go, unreliable datagrams (RFC 9221); encrypted",
		maxMessage: 1200,
		window:     func(int) int { return 64 }, // its receive queue holds 128
		listen:     func(int) (listener, error) { return listenQUIC(true) },
		dial:       func(addr string, _ int) (link, error) { return dialQUIC(addr, true) },
	}
)

const quicProtocol = "bench"

func quicConfig() *quic.Config {
	return &quic.Config{EnableDatagrams: true, InitialPacketSize: 1400}
}

type quicListener struct {
	ln        *quic.Listener
	pc        net.PacketConn
	datagrams bool
}

func listenQUIC(datagrams bool) (listener, error) {
	pc, err := listenUDP()
	if err != nil {
		return nil, err
	}
	cert, err := certificate()
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{quicProtocol}}
	ln, err := quic.Listen(pc, conf, quicConfig())
	if err != nil {
		return nil, err
	}
	return quicListener{ln, pc, datagrams}, nil
}

func (l quicListener) Accept() (link, error) {
	c, err := l.ln.Accept(context.Background())
	if err != nil {
		return nil, err
	}
	if l.datagrams {
		return quicDatagramLink{c: c}, nil
	}
	s, err := c.AcceptStream(context.Background())
	if err != nil {
		return nil, err
	}
	return newQUICStreamLink(c, s, nil), nil
}

func (l quicListener) Addr() net.Addr { return l.ln.Addr() }

func (l quicListener) Close() error {
	l.ln.Close()
	return l.pc.Close()
}

func dialQUIC(addr string, datagrams bool) (link, error) {
	pc, err := listenUDP()
	if err != nil {
		return nil, err
	}
	raddr, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{quicProtocol}}
	c, err := quic.Dial(context.Background(), pc, raddr, conf, quicConfig())
	if err != nil {
		return nil, err
	}
	if datagrams {
		return quicDatagramLink{c, pc}, nil
	}
	s, err := c.OpenStreamSync(context.Background())
	if err != nil {
		return nil, err
	}
	return newQUICStreamLink(c, s, pc), nil
}

// quicStream closes the connection with the stream.
type quicStream struct {
	*quic.Stream
	c  *quic.Conn
	pc net.PacketConn // of the dialed side
}

func newQUICStreamLink(c *quic.Conn, s *quic.Stream, pc net.PacketConn) link {
	return newStreamLink(quicStream{s, c, pc}, false)
}

func (s quicStream) Close() error { return closeQUIC(s.c, s.pc) }

type quicDatagramLink struct {
	c  *quic.Conn
	pc net.PacketConn
}

func (l quicDatagramLink) WriteMessage(b []byte) error { return l.c.SendDatagram(b) }
func (l quicDatagramLink) Flush() error                { return nil }

func (l quicDatagramLink) ReadMessage([]byte) ([]byte, error) {
	return l.c.ReceiveDatagram(context.Background())
}

func (l quicDatagramLink) Close() error { return closeQUIC(l.c, l.pc) }

func closeQUIC(c *quic.Conn, pc net.PacketConn) error {
	err := c.CloseWithError(0, "")
	if pc != nil {
		pc.Close()
	}
	return err
}
