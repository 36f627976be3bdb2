package volley

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A peer of a PacketConn takes little more than a connection of a Listener.
func TestPacketPeerSize(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		size := unsafe.Sizeof(packetPeer{})
		require.LessOrEqual(t, size, uintptr(1272), "beyond it and the allocator's 8, the next size is 1408")
	}
}
