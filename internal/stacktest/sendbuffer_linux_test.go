package stacktest

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/internal/netnstest"
)

// TestFullSendBuffer writes to a link that takes 8 kbit/s. Once the send buffer
// is full, a Write waits, and neither past its deadline nor past Close.
func TestFullSendBuffer(t *testing.T) {
	if !netnstest.Inside(t, "ip", "tc") {
		return
	}
	netnstest.Do(t, "ip link set lo up", "tc qdisc add dev lo root tbf rate 8kbit burst 10kb limit 100mb")
	// What waits in the queue would keep the namespace for a minute, with ICMP errors
	// that share one small send buffer with those of all namespaces of the machine.
	defer netnstest.Do(t, "tc qdisc del dev lo root")
	l, err := volley.Listen("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var d volley.Dialer
	d.Config = &volley.Config{SocketBuffer: 64 << 10}
	c, err := d.Dial(context.Background(), "udp4", l.Addr().String())
	require.NoError(t, err)
	msg := make([]byte, 1000)

	begin := time.Now()
	c.SetWriteDeadline(begin.Add(300 * time.Millisecond))
	n := 0
	for err = error(nil); err == nil && n < 10_000; n++ {
		_, err = c.Write(msg)
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "after %d messages", n)
	require.Less(t, n, 10_000)
	require.Less(t, time.Since(begin), 30*time.Second, "room comes after 64 s")

	c.SetWriteDeadline(time.Time{})
	failed := make(chan error)
	go func() {
		for {
			if _, err := c.Write(msg); err != nil {
				failed <- err
				return
			}
		}
	}()
	time.Sleep(100 * time.Millisecond) // so that it waits
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-failed, net.ErrClosed)
}
