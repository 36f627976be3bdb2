package volley

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/pattern"
	"volley/simnet"
)

// floodSocket returns one of many sockets of a flood.
func floodSocket(t *testing.T, n *simnet.Network, number int) *simnet.Conn {
	t.Helper()
	pc, err := n.Listen(fmt.Sprintf("10.1.%d.%d:9", number/250, number%250))
	require.NoError(t, err)
	return pc
}

// forged is a datagram with a message of a size, of a sender that has heard
// nothing.
func forged(sequence uint16, size int) []byte {
	b := make([]byte, 9+size)
	b[0] = 0x1e
	binary.LittleEndian.PutUint16(b[1:], sequence)
	b[3], b[4] = 0xff, 0xff
	return b
}

// Strangers make no more peers than MaxConns, and make these hold no more than
// MaxMemory together and ReadBuffer each; a peer that is known to hear us is
// heard all the same.
func TestPacketConnFloodOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		below, err := n.Listen("10.0.0.1:7")
		require.NoError(t, err)
		const maxMemory, readBuffer = 1 << 20, 64 << 10
		pc, err := NewPacketConn(below, &ListenConfig{
			Config:   &Config{ReadBuffer: readBuffer},
			MaxConns: 100, MaxMemory: maxMemory,
			Filter: func(a netip.AddrPort) bool { return a.Addr() != netip.MustParseAddr("10.1.0.13") },
		})
		require.NoError(t, err)
		defer pc.Close()
		friend := packetAt(t, n, "10.0.0.2:7", nil)
		defer friend.Close()
		_, err = friend.WriteTo([]byte("hello"), pc.LocalAddr())
		require.NoError(t, err)
		buf := make([]byte, 20000)
		_, from, err := pc.ReadFrom(buf)
		require.NoError(t, err)
		pc.WriteTo([]byte("hello"), from)
		time.Sleep(time.Second)
		friend.WriteTo([]byte("and that I hear you"), pc.LocalAddr())
		time.Sleep(time.Second)

		for i := range 300 {
			s := floodSocket(t, n, i)
			for sequence := range uint16(60) {
				s.WriteTo(forged(sequence, 1100), pc.LocalAddr())
			}
			synctest.Wait()
			s.Close()
		}
		s := pc.Stats()
		require.Equal(t, 100, s.Peers)
		require.NotZero(t, s.Refused)
		require.EqualValues(t, 60, s.Filtered)
		require.LessOrEqual(t, s.Memory, int64(maxMemory))
		require.Greater(t, s.Memory, int64(maxMemory/2), "the test does not fill the memory")

		for i := range 20 { // the last quarter is for those who are known
			_, err := friend.WriteTo(pattern.New(uint32(i), 1000), pc.LocalAddr())
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		heard := 0
		pc.SetReadDeadline(time.Now().Add(time.Millisecond))
		for {
			_, a, err := pc.ReadFrom(buf)
			if err != nil {
				break
			}
			if a.String() == from.String() {
				heard++
			}
		}
		require.Equal(t, 21, heard)
		pc.SetReadDeadline(time.Time{})
		time.Sleep(31 * time.Second)
		require.Zero(t, pc.Stats().Peers)
		require.Zero(t, pc.Stats().Memory)
	})
}

// A peer whose messages fill its share of the buffer does not keep out others'.
func TestPacketConnReadBufferIsOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		pc := packetAt(t, n, "10.0.0.1:7", &Config{ReadBuffer: 32 << 10})
		defer pc.Close()
		loud, quiet := packetAt(t, n, "10.0.0.2:7", nil), packetAt(t, n, "10.0.0.3:7", nil)
		defer loud.Close()
		defer quiet.Close()
		for range 100 {
			loud.WriteTo(make([]byte, 1000), pc.LocalAddr())
			time.Sleep(time.Millisecond)
		}
		quiet.WriteTo([]byte("hello"), pc.LocalAddr())
		time.Sleep(time.Second)
		s, _ := pc.PeerStats(loud.LocalAddr())
		require.LessOrEqual(t, s.ReadQueue, 32<<10)
		require.EqualValues(t, 100, s.MessagesReceived+s.MessagesRefused+s.PacketsStale) // one is parked by the jump guard
		require.NotZero(t, s.MessagesRefused)
		s, _ = pc.PeerStats(quiet.LocalAddr())
		require.EqualValues(t, 1, s.MessagesReceived)
		require.Equal(t, 9, s.ReadQueue)
		buf := make([]byte, 2000)
		for range 33 {
			_, _, err := pc.ReadFrom(buf)
			require.NoError(t, err)
		}
		s, _ = pc.PeerStats(loud.LocalAddr())
		require.Zero(t, s.ReadQueue)
	})
}
