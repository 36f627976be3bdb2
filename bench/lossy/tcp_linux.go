package main

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"volley/simnet"
)

var (
	tcpServer = netip.MustParseAddrPort("10.9.0.1:7777")
	tcpClient = netip.MustParseAddr("10.9.0.2")
)

// connectTCP returns what connects the system's TCP on two hosts of its own,
// whose packets a network carries as datagrams.
func connectTCP(congestion string) func(*simnet.Network, uint64, simnet.Link) (*connection, error) {
	return func(n *simnet.Network, _ uint64, link simnet.Link) (*connection, error) {
		n.SetDefault(carrying(link))
		server, client, err := sockets(n)
		if err != nil {
			return nil, err
		}
		control := func(_, _ string, c syscall.RawConn) error { return setCongestion(c, congestion) }
		below := closers{server, client}
		var ln net.Listener
		err = inHost(netip.PrefixFrom(tcpServer.Addr(), 24), func(tun *os.File) (err error) {
			below = append(below, tun)
			go carry(tun, server, clientAddr)
			ln, err = (&net.ListenConfig{Control: control}).Listen(context.Background(), "tcp4", tcpServer.String())
			return err
		})
		if err != nil {
			return nil, err
		}
		var c net.Conn
		err = inHost(netip.PrefixFrom(tcpClient, 24), func(tun *os.File) (err error) {
			below = append(below, tun)
			go carry(tun, client, serverAddr)
			d := net.Dialer{Control: control, Timeout: 10 * time.Second}
			c, err = d.DialContext(context.Background(), "tcp4", tcpServer.String())
			return err
		})
		if err != nil {
			ln.Close()
			below.Close()
			return nil, err
		}
		s, err := ln.Accept()
		ln.Close()
		if err != nil {
			below.Close()
			return nil, err
		}
		k := over(n, &streamEnd{stream: c, close: func() { c.Close() }}, &streamEnd{stream: s, close: func() { s.Close() }})
		k.headers, k.below = 0, below
		return k, nil
	}
}

// carry takes packets from a device to the socket of another host and back, until
// either is closed.
func carry(tun io.ReadWriter, c *simnet.Conn, to netip.AddrPort) {
	go func() {
		b := make([]byte, tunMTU)
		for {
			n, _, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if _, err := tun.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	b := make([]byte, tunMTU)
	for {
		n, err := tun.Read(b)
		if err != nil {
			return
		}
		if b[0]>>4 != 4 {
			continue // what IPv6 says to find others
		}
		if _, err := c.WriteToUDPAddrPort(b[:n], to); err != nil {
			return
		}
	}
}

// closers are closed together.
type closers []io.Closer

func (l closers) Close() error {
	for _, c := range l {
		c.Close()
	}
	return nil
}
