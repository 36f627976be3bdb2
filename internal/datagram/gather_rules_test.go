package datagram

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is gathered leaves by itself when the parts are 64 already, or the bytes 256 KiB,
// or when there is a 17th socket; and then all of it at once.
func TestGatheringBounds(t *testing.T) {
	s := &countingSocket{fakeSocket: newFakeSocket()}
	_, conns := dialMany(t, s, 65)
	var g Gathering
	for _, p := range conns[:64] {
		gather(&g, p, "x")
	}
	require.Zero(t, s.calls)
	gather(&g, conns[64], "x")
	require.Equal(t, 1, s.calls)
	require.Len(t, s.sent, 64)
	require.NoError(t, g.Flush())
	require.Equal(t, 2, s.calls)

	s.calls = 0
	gather(&g, conns[0], string(make([]byte, 256<<10-1)))
	gather(&g, conns[1], "x")
	require.Zero(t, s.calls)
	gather(&g, conns[2], "x")
	require.Equal(t, 1, s.calls)
	require.NoError(t, g.Flush())
	require.Equal(t, 2, s.calls)

	var socks []*countingSocket
	var peers []*Peer
	for range 17 {
		s := &countingSocket{fakeSocket: newFakeSocket()}
		_, list := dialMany(t, s, 1)
		socks, peers = append(socks, s), append(peers, list...)
	}
	calls := func() (n int) {
		for _, s := range socks {
			n += s.calls
		}
		return n
	}
	for range 3 {
		for _, p := range peers[:16] {
			gather(&g, p, "x")
		}
	}
	require.Zero(t, calls())
	gather(&g, peers[16], "x")
	require.Equal(t, 16, calls())
	for _, s := range socks[:16] {
		require.Len(t, s.datagrams(), 3)
	}
	require.NoError(t, g.Flush())
	require.Equal(t, 17, calls())
	require.NoError(t, g.Flush())
	require.Equal(t, 17, calls(), "nothing was left")
}

// What one peer gets lies side by side, also when it was gathered in several parts or
// needs several packets; different sizes go one by one.
func TestGatheringPackets(t *testing.T) {
	s := &countingSocket{fakeSocket: newFakeSocket()}
	_, conns := dialMany(t, s, 3)
	var g Gathering
	gather(&g, conns[0], "aaa", "bbb", "c")
	gather(&g, conns[1], "one", "three")
	gather(&g, conns[1], "four")
	gather(&g, conns[0], "ddd", "eee")
	require.NoError(t, g.Flush())
	var got []string
	for _, p := range s.sent {
		got = append(got, fmt.Sprint(p.Addr.Addr().As4()[3], " ", p.Segment, " ", string(p.Buf)))
	}
	require.Equal(t, []string{"0 3 aaabbbc", "1 0 one", "1 0 three", "1 0 four", "0 3 dddeee"}, got)
	require.Equal(t, 1, s.calls)

	// Of one peer more packets than leave in a call.
	s.sent, s.calls = nil, 0
	var many []string
	for i := range 65 {
		many = append(many, string(make([]byte, i+1)))
	}
	sender, next := gather(&g, conns[0], many...), gather(&g, conns[2], "next")
	require.NoError(t, g.Flush())
	require.Equal(t, append(many, "next"), s.datagrams())
	require.Equal(t, 2, s.calls)
	require.Equal(t, &fakeSender{told: 1}, sender)
	require.Equal(t, &fakeSender{told: 1}, next)
}

// Of the errors that end sockets Flush tells the first, and each Sender that of its own.
func TestGatheringFirstError(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	var g Gathering
	var senders []*fakeSender
	for _, err := range []error{nil, one, two} {
		s := &countingSocket{fakeSocket: newFakeSocket()}
		s.refuses = func(int) error { return err }
		_, conns := dialMany(t, s, 1)
		senders = append(senders, gather(&g, conns[0], "x", "yy"))
	}
	require.Equal(t, one, g.Flush())
	require.NoError(t, g.Flush())
	for i, err := range []error{nil, one, two} {
		require.Equal(t, &fakeSender{told: 1, err: err}, senders[i])
	}
}

// A batch for the use of who gathers stays empty in between, and a Gathering can be used
// again.
func TestGatheringAgain(t *testing.T) {
	s := &countingSocket{fakeSocket: newFakeSocket()}
	_, conns := dialMany(t, s, 1)
	var g Gathering
	require.Same(t, g.Scratch(), g.Scratch())
	require.Zero(t, g.Scratch().Len())
	for range 3 {
		s.sent = nil
		gather(&g, conns[0], "x")
		require.Equal(t, 1, conns[0].Gather(&g).Len(), "what is in it stays")
		require.NoError(t, g.Flush())
		require.Equal(t, []string{"x"}, s.datagrams())
		require.Zero(t, conns[0].Gather(&g).Len())
		require.NoError(t, g.Flush())
	}
}
