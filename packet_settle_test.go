package volley

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/reliable"
	"volley/simnet"
)

// A message is acknowledged though it is not answered and nobody reads any more.
func TestPacketConnAcknowledgesWithoutAnswer(t *testing.T) {
	server := listenPacket(t, &ListenConfig{})
	c, err := Dial("udp", server.LocalAddr().String())
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := make([]byte, 100)
	for range 12 {
		sent, err := c.WriteMessage([]byte("the only one for a while"))
		require.NoError(t, err)
		server.SetReadDeadline(time.Now().Add(30 * time.Second))
		_, from, err := server.ReadFrom(b)
		require.NoError(t, err)
		receipts, err := c.WaitReceipts(ctx, nil) // nobody reads at the server
		require.NoError(t, err)
		require.Equal(t, sent, receipts[0].ID)
		require.Equal(t, reliable.FateDelivered, receipts[0].Fate)

		_, err = server.WriteTo([]byte("too late to carry it"), from)
		require.NoError(t, err)
		server.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, _, err = server.ReadFrom(b)
		wantTimeout(t, "ReadFrom", err)
	}
}

// Acknowledgements without a message to travel with leave within the AckDelay,
// and the lag of ticks.
func TestPacketConnAckDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		k := newTalk(t, n, time.Minute, time.Minute)
		defer k.close()
		for range 10 {
			k.send(k.a, k.b, 1, 100, 0)
			time.Sleep(defaultAckDelay/2 + packetTickLag)
			synctest.Wait()
			s, known := k.a.PeerStats(k.b.LocalAddr())
			require.True(t, known)
			require.Equal(t, s.MessagesSent, s.MessagesDelivered)
			k.read()
			time.Sleep(3 * time.Second)
		}
	})
}
