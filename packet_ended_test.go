package volley

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A write to a peer that just then turns out to have started again goes to the
// new one: an error that matches net.ErrClosed would be taken for the end of the
// PacketConn.
func TestPacketConnWritesToAPeerThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		a := packetAt(t, n, "10.0.0.1:7", &Config{RestartNotice: true})
		defer a.Close()
		b := packetAt(t, n, "10.0.0.2:7", nil)
		defer b.Close()
		_, err := a.WriteTo([]byte("one"), b.LocalAddr())
		require.NoError(t, err)
		c := &a.mux.Handler(addrPortOf(a.sock, b.LocalAddr())).(*peerHandler).conn
		c.mu.Lock()
		c.user.EndLocked(&c.out, ErrPeerRestarted) // as Conn.end begins
		c.mu.Unlock()
		_, err = a.WriteTo([]byte("two"), b.LocalAddr())
		require.NoError(t, err)
		c.set.onClose(c)
		require.Equal(t, 1, a.Stats().Peers)
	})
}
