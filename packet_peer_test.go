package volley

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

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
		a := packetAt(t, n, "10.0.0.1:7", nil)
		defer a.Close()
		b := packetAt(t, n, "10.0.0.2:7", nil)
		defer b.Close()
		_, err := a.WriteTo([]byte("one"), b.LocalAddr())
		require.NoError(t, err)
		c := &a.mux.Handler(addrPortOf(a.sock, b.LocalAddr())).(*peerHandler).conn
		c.mu.Lock()
		c.user.EndLocked(&c.out, errForgotten) // as HandleTick begins
		c.mu.Unlock()
		_, err = a.WriteTo([]byte("two"), b.LocalAddr())
		require.NoError(t, err)
		c.set.onClose(c)
		require.Equal(t, 1, a.Stats().Peers)
	})
}

// A peer that is let in while the PacketConn is being closed does not keep the
// socket open.
func TestPacketConnClosedWhileAPeerComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		below, err := n.Listen("10.0.0.1:7")
		require.NoError(t, err)
		var pc *PacketConn
		pc, err = NewPacketConn(below, &ListenConfig{
			Config: &Config{IdleTimeout: -1},
			Filter: func(netip.AddrPort) bool { pc.Close(); return true },
		})
		require.NoError(t, err)
		floodSocket(t, n, 0).WriteTo(forged(0, 10), pc.LocalAddr())
		synctest.Wait()
		require.Zero(t, pc.Stats().Peers)
		require.ErrorIs(t, below.SetReadDeadline(time.Time{}), net.ErrClosed)
	})
}

// A message that nobody reads does not hold what was known of a peer that is
// forgotten.
func TestPacketConnUnreadMessageHoldsNoPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		pc := packetAt(t, n, "10.0.0.1:7", nil)
		defer pc.Close()
		s := floodSocket(t, n, 0)
		s.WriteTo(forged(0, 10), pc.LocalAddr())
		other := floodSocket(t, n, 1)
		synctest.Wait()
		p := weak.Make((*packetPeer)(pc.mux.Handler(addrPortOf(pc.sock, s.LocalAddr())).(*peerHandler)))
		require.NotNil(t, p.Value())
		time.Sleep(31 * time.Second)
		other.WriteTo(forged(0, 10), pc.LocalAddr()) // so that nothing remembers who came last
		synctest.Wait()
		for range 3 {
			runtime.GC()
		}
		require.Nil(t, p.Value())
		_, from, err := pc.ReadFrom(make([]byte, 10))
		require.NoError(t, err)
		require.Equal(t, s.LocalAddr().String(), from.String())
	})
}

// While somebody is writing to a peer that is to be forgotten, its timer does not
// go off again at once, and again.
func TestPacketConnWaitsForAWriteBeforeItForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{})
		pc := packetAt(t, n, "10.0.0.1:7", nil)
		defer pc.Close()
		s := floodSocket(t, n, 0)
		s.WriteTo(forged(0, 10), pc.LocalAddr())
		synctest.Wait()
		h := pc.mux.Handler(addrPortOf(pc.sock, s.LocalAddr())).(*peerHandler)
		h.conn.mu.Lock()
		h.conn.out.Batch(h.conn.now()) // as if a Write were about to send
		h.conn.mu.Unlock()
		time.Sleep(31 * time.Second)
		now := time.Now()
		require.GreaterOrEqual(t, h.HandleTick(now, nil).Sub(now), time.Millisecond)
	})
}
