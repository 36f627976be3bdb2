package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"net/netip"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/xtaci/kcp-go/v5"

	"volley/porous"
	"volley/simnet"
)

// An end is one side of a connection: whole messages, reliable and in order.
type end interface {
	Write(msg []byte) (int, error)
	// ReadMessage returns the next message, in buf if that is large enough.
	ReadMessage(buf []byte) ([]byte, error)
	Close() error
}

// A connection has its sender, which has opened it, and its receiver.
type connection struct {
	from, at end
	link     func() simnet.Stats // of the way there
	headers  uint64              // bytes of a packet that link does not know of
	below    io.Closer           // nil if there is nothing that the ends do not close
}

// sent returns the bytes that have left the sender, headers included.
func (c *connection) sent() uint64 {
	s := c.link()
	return s.SentBytes + c.headers*s.Sent
}

func (c *connection) close() {
	c.from.Close()
	c.at.Close()
	if c.below != nil {
		c.below.Close()
	}
}

// over returns a connection over the sockets of a network.
func over(n *simnet.Network, from, at end) *connection {
	there := func() simnet.Stats { return n.LinkStats(clientAddr.Addr(), serverAddr.Addr()) }
	return &connection{from: from, at: at, link: there, headers: headers}
}

// A peer is a library, with its options, that carries messages from one end of a
// link to the other.
type peer struct {
	name    string
	about   string
	virtual bool // its clock is that of the bubble
	bulk    bool // measured with a bulk transfer, too
	// connect opens a connection over a network, or over a link of its own that
	// is like that of the network.
	connect func(n *simnet.Network, seed uint64, link simnet.Link) (*connection, error)
}

var (
	tolerant  = porous.Config{Congestion: "tolerant"}
	redundant = porous.Config{Redundancy: true}
	both      = porous.Config{Congestion: "tolerant", Redundancy: true}
)

var peers = []peer{
	{"porous", "`cubic`, the default", true, true, connectPorous(porous.Config{})},
	{"porous, loss-tolerant", "`tolerant`", true, true, connectPorous(tolerant)},
	{"porous, the paper's", "`paper`", true, true, connectPorous(porous.Config{Congestion: "paper"})},
	{"porous, redundancy", "`Redundancy`", true, false, connectPorous(redundant)},
	{"porous, loss-tolerant, redundancy", "both", true, false, connectPorous(both)},
	{"porous, sockets", "the default between sockets of the system, in real time, through a `simnet.Proxy` with this link", false, true, connectProxy(porous.Config{})},
	{"porous, loss-tolerant, sockets", "the same with `tolerant`", false, true, connectProxy(tolerant)},
	{"porous, redundancy, sockets", "the same with `Redundancy`", false, false, connectProxy(redundant)},
	{"tcp cubic", "the system's TCP, a length in front of each message; its packets go through tun devices and this link, in real time", false, true, connectTCP("cubic")},
	{"tcp bbr", "the same with BBR", false, true, connectTCP("bbr")},
	{"quic-go", "one stream, a length in front of each message; encrypted; in real time", false, true, connectQUIC},
	{"kcp-go", "its fast mode: no delay, 10 ms clock, fast resend, no congestion control, a window of 1024 packets; in real time", false, true, connectKCP},
}

var (
	serverAddr = netip.MustParseAddrPort("10.0.0.1:7777")
	clientAddr = netip.MustParseAddrPort("10.0.0.2:7777")
)

const headers = 28 // bytes of IP and UDP

func sockets(n *simnet.Network) (server, client *simnet.Conn, err error) {
	if server, err = n.Listen(serverAddr.String()); err != nil {
		return nil, nil, err
	}
	client, err = n.Listen(clientAddr.String())
	return server, client, err
}

func connectPorous(cfg porous.Config) func(*simnet.Network, uint64, simnet.Link) (*connection, error) {
	return func(n *simnet.Network, _ uint64, _ simnet.Link) (*connection, error) {
		server, err := n.Listen(serverAddr.String())
		if err != nil {
			return nil, err
		}
		l, err := (&porous.ListenConfig{Config: &cfg}).ListenOn(server)
		if err != nil {
			return nil, err
		}
		client, err := n.Dial(clientAddr.String(), serverAddr.String())
		if err != nil {
			return nil, err
		}
		c, err := porous.NewConn(client, &cfg)
		if err != nil {
			return nil, err
		}
		s, err := l.AcceptConn(context.Background())
		if err != nil {
			return nil, err
		}
		return over(n, porousEnd{c, nil}, porousEnd{s, l}), nil
	}
}

// connectProxy connects through sockets of the system and a proxy between them.
func connectProxy(cfg porous.Config) func(*simnet.Network, uint64, simnet.Link) (*connection, error) {
	return func(_ *simnet.Network, seed uint64, link simnet.Link) (*connection, error) {
		l, err := (&porous.ListenConfig{Config: &cfg}).Listen(context.Background(), "udp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		proxy, err := simnet.NewProxy(simnet.ProxyConfig{Target: l.Addr().String(), Up: link, Down: link, Seed: seed})
		if err != nil {
			return nil, err
		}
		c, err := (&porous.Dialer{Config: &cfg}).Dial(context.Background(), "udp4", proxy.Addr().String())
		if err != nil {
			return nil, err
		}
		s, err := l.AcceptConn(context.Background())
		if err != nil {
			return nil, err
		}
		there := func() simnet.Stats { up, _ := proxy.Stats(); return up }
		return &connection{from: porousEnd{c, nil}, at: porousEnd{s, l}, link: there, headers: headers, below: proxy}, nil
	}
}

type porousEnd struct {
	*porous.Conn
	l io.Closer
}

func (e porousEnd) ReadMessage(buf []byte) ([]byte, error) {
	return e.Conn.ReadMessage(context.Background(), buf[:0])
}

func (e porousEnd) Close() error {
	if e.l != nil {
		e.l.Close()
	}
	return e.Abort()
}

// A streamEnd puts a length in front of each message.
type streamEnd struct {
	stream io.ReadWriter
	out    []byte
	close  func()
}

func (e *streamEnd) Write(msg []byte) (int, error) {
	e.out = binary.BigEndian.AppendUint32(e.out[:0], uint32(len(msg)))
	_, err := e.stream.Write(append(e.out, msg...))
	return len(msg), err
}

func (e *streamEnd) ReadMessage(buf []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(e.stream, head[:]); err != nil {
		return nil, err
	}
	buf = buf[:binary.BigEndian.Uint32(head[:])]
	_, err := io.ReadFull(e.stream, buf)
	return buf, err
}

func (e *streamEnd) Close() error {
	e.close()
	return nil
}

func connectQUIC(n *simnet.Network, _ uint64, _ simnet.Link) (*connection, error) {
	server, client, err := sockets(n)
	if err != nil {
		return nil, err
	}
	to := server.LocalAddr()
	cert, err := certificate()
	if err != nil {
		return nil, err
	}
	cfg := &quic.Config{InitialPacketSize: 1400}
	st, ct := &quic.Transport{Conn: server}, &quic.Transport{Conn: client}
	ln, err := st.Listen(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"bench"}}, cfg)
	if err != nil {
		return nil, err
	}
	c, err := ct.Dial(context.Background(), to, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"bench"}}, cfg)
	if err != nil {
		return nil, err
	}
	s, err := ln.Accept(context.Background())
	if err != nil {
		return nil, err
	}
	out, err := c.OpenStreamSync(context.Background())
	if err != nil {
		return nil, err
	}
	if _, err := out.Write([]byte{0}); err != nil {
		return nil, err
	}
	in, err := s.AcceptStream(context.Background())
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(in, make([]byte, 1)); err != nil {
		return nil, err
	}
	closer := func(c *quic.Conn, t *quic.Transport, pc net.PacketConn) func() {
		return func() {
			c.CloseWithError(0, "")
			t.Close()
			pc.Close()
		}
	}
	return over(n, &streamEnd{stream: out, close: closer(c, ct, client)}, &streamEnd{stream: in, close: closer(s, st, server)}), nil
}

// certificate makes a self-signed one, valid at the bubble's time.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func connectKCP(n *simnet.Network, _ uint64, _ simnet.Link) (*connection, error) {
	server, client, err := sockets(n)
	if err != nil {
		return nil, err
	}
	setup := func(s *kcp.UDPSession) *streamEnd {
		s.SetNoDelay(1, 10, 2, 1)
		s.SetWindowSize(1024, 1024)
		s.SetACKNoDelay(true)
		s.SetWriteDelay(false)
		s.SetMtu(1472)
		return &streamEnd{stream: s}
	}
	ln, err := kcp.ServeConn(nil, 0, 0, server)
	if err != nil {
		return nil, err
	}
	c, err := kcp.NewConn(serverAddr.String(), nil, 0, 0, client)
	if err != nil {
		return nil, err
	}
	x := setup(c)
	if _, err := x.Write([]byte{0}); err != nil {
		return nil, err
	}
	s, err := ln.AcceptKCP()
	if err != nil {
		return nil, err
	}
	y := setup(s)
	if _, err := y.ReadMessage(make([]byte, 1)); err != nil {
		return nil, err
	}
	x.close = func() { c.Close(); client.Close() }
	y.close = func() { s.Close(); ln.Close(); server.Close() }
	return over(n, x, y), nil
}
