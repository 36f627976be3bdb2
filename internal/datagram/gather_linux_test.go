package datagram

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/internal/wire"
)

const (
	benchPeers = 1000
	benchSize  = 100
)

// benchSockets returns a socket to send from and the addresses of many that
// nobody reads.
func benchSockets(b *testing.B) (from *net.UDPConn, to []netip.AddrPort) {
	listen := func() *net.UDPConn {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(b, err)
		b.Cleanup(func() { c.Close() })
		return c
	}
	for range benchPeers {
		to = append(to, listen().LocalAddr().(*net.UDPAddr).AddrPort())
	}
	return listen(), to
}

// BenchmarkManyPeers is one datagram to each of 1,000 peers, by a Gathering, one
// by one, and by sendmmsg with no library, 1,000 in a call.
func BenchmarkManyPeers(b *testing.B) {
	mux := func(b *testing.B) (peers []*Peer) {
		udp, to := benchSockets(b)
		sock, err := socket.NewUDP(udp, socket.Config{})
		require.NoError(b, err)
		m := NewMux(sock, MuxConfig{MaxDatagram: 1000})
		for _, addr := range to {
			p, err := m.Dial(addr)
			require.NoError(b, err)
			require.NoError(b, p.Attach(silentHandler{}))
			peers = append(peers, p)
			b.Cleanup(func() { p.Close() })
		}
		b.Cleanup(func() { m.Close() })
		b.ReportAllocs()
		return peers
	}
	var batch wire.Batch
	batch.Append(make([]byte, benchSize))
	b.Run("gathered", func(b *testing.B) {
		peers := mux(b)
		var g Gathering
		for b.Loop() {
			for _, p := range peers {
				p.Gather(&g).Append(batch.At(0))
				p.Gathered(&g, nil)
			}
			g.Flush()
		}
	})
	b.Run("one by one", func(b *testing.B) {
		peers := mux(b)
		for b.Loop() {
			for _, p := range peers {
				p.WriteBatch(&batch)
			}
		}
	})
	b.Run("sendmmsg", benchSendmmsg)
}

type bareMessage struct {
	hdr syscall.Msghdr
	n   uint32
}

func benchSendmmsg(b *testing.B) {
	udp, to := benchSockets(b)
	raw, err := udp.SyscallConn()
	require.NoError(b, err)
	payload := make([]byte, benchSize)
	iov := syscall.Iovec{Base: &payload[0]}
	iov.SetLen(len(payload))
	names := make([]syscall.RawSockaddrInet4, len(to))
	msgs := make([]bareMessage, len(to))
	for i, addr := range to {
		port := addr.Port()
		names[i] = syscall.RawSockaddrInet4{Family: syscall.AF_INET, Port: port<<8 | port>>8, Addr: addr.Addr().As4()}
		msgs[i].hdr = syscall.Msghdr{
			Name: (*byte)(unsafe.Pointer(&names[i])), Namelen: syscall.SizeofSockaddrInet4, Iov: &iov, Iovlen: 1,
		}
	}
	sendmmsg := map[string]uintptr{"amd64": 307, "arm64": 269}[runtime.GOARCH]
	if sendmmsg == 0 || len(to) > 1024 {
		b.Skip("no number of the system call")
	}
	for b.Loop() {
		raw.Write(func(fd uintptr) bool {
			for sent := 0; sent < len(msgs); {
				n, _, errno := syscall.Syscall6(sendmmsg, fd, uintptr(unsafe.Pointer(&msgs[sent])), uintptr(len(msgs)-sent), 0, 0, 0)
				if errno != 0 {
					b.Fatal(os.NewSyscallError("sendmmsg", errno))
				}
				sent += int(n)
			}
			return true
		})
	}
}
