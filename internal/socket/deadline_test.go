package socket

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// TestSocketDeadlines checks that deadlines from before do not count.
func TestSocketDeadlines(t *testing.T) {
	for kind, makeSocket := range socketMakers {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t, func(t *testing.T, c *net.UDPConn) Socket {
				c.SetDeadline(time.Unix(1, 0))
				return makeSocket(t, c)
			}, "udp4", "udp4", "127.0.0.1", true)
			send(t, p.client, Packet{Buf: []byte("x"), Addr: p.serverAddr})
			expect(t, p.server, p.clientAddr, Packet{Buf: []byte("x")})
		})
	}
}

// TestSocketForeignDeadline checks that a socket goes on after a deadline that
// somebody else has set.
func TestSocketForeignDeadline(t *testing.T) {
	for kind, makeSocket := range socketMakers {
		t.Run(kind, func(t *testing.T) {
			var conns []*net.UDPConn
			p := newPair(t, func(t *testing.T, c *net.UDPConn) Socket {
				conns = append(conns, c)
				return makeSocket(t, c)
			}, "udp4", "udp4", "127.0.0.1", true)
			conns[0].SetReadDeadline(time.Unix(1, 0))
			if _, err := p.server.ReadBatch(make([]Packet, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("ReadBatch = %v, want os.ErrDeadlineExceeded", err)
			}
			send(t, p.client, Packet{Buf: []byte("x"), Addr: p.serverAddr})
			expect(t, p.server, p.clientAddr, Packet{Buf: []byte("x")})
		})
	}
}
