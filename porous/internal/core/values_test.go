package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The defaults are those of docs/porous.md.
func TestDefaultConfig(t *testing.T) {
	want := Config{
		MTU:              1472,
		Channels:         1,
		MaxPacket:        65536,
		SendBandwidth:    4294967295,
		ReceiveBandwidth: 4294967295,
		SendBuffer:       4194304,
		ReceiveBuffer:    4194304,
		SendFrames:       32768,
		ReceiveFrames:    65536,
		SentinelFrames:   16384,
		Packets:          65536,
		SendGroup:        2048,
		ReceiveGroup:     8192,
		RequestInterval:  500 * time.Millisecond,
		HandshakeTimeout: 20 * time.Second,
		Watchdog:         20 * time.Second,
		Linger:           20 * time.Second,
		PingInterval:     5 * time.Second,
		RTOFloor:         25 * time.Millisecond,
		MaxTimeout:       time.Second,
		AckRepeats:       2,
	}
	require.Equal(t, want, DefaultConfig(0))
	want.Version, want.MTU = 1, 1200
	require.Equal(t, want, DefaultConfig(1))
}

// A channel may have two thirds of what the others leave of three quarters of a
// buffer, and an equal part of the last quarter in any case.
func TestBufferShare(t *testing.T) {
	for _, test := range []struct{ buffer, others, channels, want int }{
		{1200, 0, 1, 1200},
		{1200, 1200, 1, 1200},
		{1200, 0, 2, 600},
		{1200, 0, 256, 600},
		{1200, 300, 2, 400},
		{1200, 600, 3, 200},
		{1200, 750, 3, 100},
		{1200, 897, 3, 100},
		{1200, 900, 300, 1},
		{1200, 5000, 4, 75},
		{1203, 0, 2, 602},
	} {
		require.Equal(t, test.want, bufferShare(test.buffer, test.others, test.channels), "%+v", test)
	}
}

// Messages are repeated so often that all of it is lost for one in 800.
func TestCopiesByLoss(t *testing.T) {
	want := []struct {
		permille, copies int
	}{{0, 0}, {3, 1}, {23, 2}, {85, 3}, {158, 4}, {228, 5}}
	for permille := range 1001 {
		if len(want) > 1 && permille == want[1].permille {
			want = want[1:]
		}
		require.Equal(t, want[0].copies, copies(float64(permille)/1000), "%d in a thousand", permille)
	}
	require.Len(t, want, 1)
}

// The first window is that of RFC 6928, and the largest one the product of
// bandwidth and delay, a frame at least.
func TestWindowsInBytes(t *testing.T) {
	for mtu, want := range map[int]int{500: 5000, 1200: 12000, 1472: 14720, 1473: 14720, 7360: 14720, 8000: 16000} {
		require.Equal(t, want, initialWindow(mtu), "mtu %d", mtu)
	}
	for _, test := range []struct {
		avg       time.Duration
		bandwidth uint64
		want      int
	}{
		{100 * time.Millisecond, 1e6, 100_000},
		{1234567 * time.Nanosecond, 1e9, 1_234_000},
		{time.Millisecond, 1e6, 1472},
		{time.Second, 1 << 30, 1 << 30},
		{time.Second, 1<<30 - 1, 1<<30 - 1},
		{10 * time.Second, NoBandwidthLimit, 1 << 30},
	} {
		require.Equal(t, test.want, windowLimit(test.avg, test.bandwidth, MTU0), "%+v", test)
	}
}

// A bandwidth whose product with the round-trip time is as large as numbers of 32
// bits limits no window.
func TestCubicOfLargeProducts(t *testing.T) {
	c := newCubic(MTU0)
	c.SetRTT(time.Second, NoBandwidthLimit-1)
	for range 100 {
		c.HandleAck(Ack{Bytes: 15_000, Frames: 10, Limited: true})
	}
	require.Equal(t, 14_720+1_500_000, c.Window())
}

// The least receive buffer has room for the largest packet, or for a frame of the
// smallest, and for where they are found.
func TestMinReceiveBuffer(t *testing.T) {
	for _, test := range []struct {
		mtu, packet int
		packets     uint32
		want        int
	}{
		{MTU0, 64 << 10, 65536, 46*(1472+32) + 80 + 2160 + 2048},
		{MTU0, 1451, 65536, 113*(64+32+80) + 2*2160 + 2048},
		{MTU1, 1 << 20, 256, 889*(1472+32) + 80 + 2160 + 8},
		{500, 20_000, 512, 42*(736+32) + 80 + 2160 + 16},
		{5000, 60_000, 65536, 384*(64+32+80) + 2*2160 + 2048},
		{5000, 200_000, 65536, 41*(4980+32) + 80 + 2160 + 2048},
	} {
		c := DefaultConfig(0)
		c.MTU, c.MaxPacket, c.Packets = test.mtu, test.packet, test.packets
		require.Equal(t, test.want, MinReceiveBuffer(&c), "%+v", test)
	}
}
