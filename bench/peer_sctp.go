package main

import (
	"net"
	"sync"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

var sctpPeer = &peer{
	name:   "sctp",
	module: "github.com/pion/sctp",
	about:  "pion/sctp over UDP, one ordered, reliable stream that keeps messages apart; one association a socket",
	modes:  []string{"one-way", "ping-pong", "burst", "paced"},
	listen: func(int) (listener, error) {
		c, err := listenUDP()
		if err != nil {
			return nil, err
		}
		return &sctpListener{c: c, done: make(chan struct{})}, nil
	},
	dial: func(addr string, _ int) (link, error) {
		c, err := dialUDP(addr)
		if err != nil {
			return nil, err
		}
		a, err := sctp.ClientWithOptions(sctp.WithNetConn(c), sctpLogger, sctpBlock, sctpChecksum, sctpBuffer)
		if err != nil {
			return nil, err
		}
		s, err := a.OpenStream(1, sctp.PayloadTypeWebRTCBinary)
		if err != nil {
			return nil, err
		}
		return sctpLink{connLink{s2conn{s, c}}, a}, nil
	},
}

// Options of both sides.
var (
	sctpLogger   = sctp.WithLoggerFactory(logging.NewDefaultLoggerFactory())
	sctpBlock    = sctp.WithBlockWrite(true)
	sctpChecksum = sctp.WithEnableZeroChecksum(true)
	sctpBuffer   = sctp.WithMaxReceiveBufferSize(socketBuffer)
)

// s2conn is a stream with the addresses of its socket.
type s2conn struct {
	*sctp.Stream
	c net.Conn
}

func (s s2conn) LocalAddr() net.Addr  { return s.c.LocalAddr() }
func (s s2conn) RemoteAddr() net.Addr { return s.c.RemoteAddr() }

type sctpLink struct {
	connLink
	a *sctp.Association
}

func (l sctpLink) Close() error { return l.a.Close() }

// An sctpListener accepts the one association of its socket.
type sctpListener struct {
	c    *net.UDPConn
	once bool
	done chan struct{}
}

func (l *sctpListener) Accept() (link, error) {
	if l.once {
		<-l.done
		return nil, net.ErrClosed
	}
	l.once = true
	a, err := sctp.ServerWithOptions(sctp.WithNetConn(&answeringConn{UDPConn: l.c}),
		sctpLogger, sctpBlock, sctpChecksum, sctpBuffer)
	if err != nil {
		return nil, err
	}
	s, err := a.AcceptStream()
	if err != nil {
		return nil, err
	}
	return sctpLink{connLink{s2conn{s, l.c}}, a}, nil
}

func (l *sctpListener) Addr() net.Addr { return l.c.LocalAddr() }

func (l *sctpListener) Close() error {
	close(l.done)
	return l.c.Close()
}

// An answeringConn writes to whom it has heard first.
type answeringConn struct {
	*net.UDPConn
	once sync.Once
	peer net.Addr
}

func (c *answeringConn) Read(b []byte) (int, error) {
	n, from, err := c.ReadFrom(b)
	if err == nil {
		c.once.Do(func() { c.peer = from })
	}
	return n, err
}

func (c *answeringConn) Write(b []byte) (int, error) { return c.WriteTo(b, c.peer) }
func (c *answeringConn) RemoteAddr() net.Addr        { return c.peer }
