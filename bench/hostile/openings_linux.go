package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"volley/netcode"
	"volley/reliable"
)

// A forger sends first datagrams from addresses of the loopback, one from each.
type forger struct {
	c       *net.UDPConn
	to      netip.AddrPort
	opening []byte
	oob     []byte
	last    uint32 // address
}

func newForger(name, addr string) (attack, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	f := &forger{to: to, last: 127<<24 | 1<<16}
	f.opening = append(reliable.AppendHeader(nil, reliable.Header{Ack: 65535}), "a forged message of 32 bytes, to be answered"[:32]...)
	if name == serverNetcode {
		if f.opening, err = forgedRequest(); err != nil {
			return nil, err
		}
	}
	if f.c, err = net.ListenUDP("udp4", nil); err != nil {
		return nil, err
	}
	if err := f.c.SetReadBuffer(1); err != nil { // answers are dropped
		return nil, err
	}
	f.oob = make([]byte, unix.CmsgSpace(unix.SizeofInet4Pktinfo))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&f.oob[0]))
	h.Level, h.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
	h.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
	return f, nil
}

func (f *forger) flood(rate int, length time.Duration) (uint64, error) {
	return sendEvenly(rate, length, f.open)
}

func (f *forger) open() error {
	f.last++
	info := (*unix.Inet4Pktinfo)(unsafe.Pointer(&f.oob[unix.CmsgLen(0)]))
	info.Spec_dst = [4]byte{127, byte(f.last >> 16), byte(f.last >> 8), byte(f.last)}
	_, _, err := f.c.WriteMsgUDPAddrPort(f.opening, f.oob, f.to)
	return err
}

func (f *forger) close() { f.c.Close() }

// forgedRequest returns a request of netcode with a connect token that nobody has
// sealed.
func forgedRequest() ([]byte, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		if s, err := new(netcode.Dialer).DialWithKey(ctx, c.LocalAddr().String(), key, 0, 1); err == nil {
			s.Close()
		}
	}()
	buf := make([]byte, 2048)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	n, _, err := c.ReadFromUDPAddrPort(buf)
	if err != nil {
		return nil, fmt.Errorf("no request of netcode: %w", err)
	}
	_, _ = rand.Read(buf[n/2 : n])
	return buf[:n], nil
}
