package volley

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A blockedSocket takes no datagrams until it is closed.
type blockedSocket struct {
	net.PacketConn
	closed chan struct{}
}

func (s *blockedSocket) WriteTo([]byte, net.Addr) (int, error) {
	<-s.closed
	return 0, net.ErrClosed
}

func (s *blockedSocket) Close() error {
	close(s.closed)
	return s.PacketConn.Close()
}

// Where the socket blocks, Close gives what was written to all peers together as
// long as it gives that to one.
func TestPacketConnCloseWhileTheSocketBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		below, err := n.Listen("10.0.0.1:7")
		require.NoError(t, err)
		pc, err := NewPacketConn(&blockedSocket{below, make(chan struct{})}, nil)
		require.NoError(t, err)
		var writers sync.WaitGroup
		for i := range 200 {
			writers.Go(func() {
				pc.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1 + i})
			})
		}
		synctest.Wait()
		require.Equal(t, 200, pc.Stats().Peers)
		began := time.Now()
		pc.Close()
		require.LessOrEqual(t, time.Since(began), time.Second)
		writers.Wait()
	})
}
