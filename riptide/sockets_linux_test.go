package riptide

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/listen"
	"volley/internal/loopback"
)

// Several sockets share the port of a server; a broadcast goes through all of
// them, and they close together.
func TestSockets(t *testing.T) {
	const clients = 24
	joined := make(chan *Peer, clients)
	var relayed atomic.Int64
	s := &Server{Config: patient, Sockets: 3, NoAnnouncements: true, Connected: func(p *Peer) { joined <- p }}
	s.Unhandled = func(p *Peer, m *Message) error {
		relayed.Add(1)
		return p.Send(m)
	}
	require.NoError(t, s.init())
	port, err := listen.Open(t.Context(), "udp4", loopback.Addr(), s.portOptions())
	require.NoError(t, err)
	address := port.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.servePort(port) }()
	got := make(chan uint64, clients)
	take := func(_ *Client, m *Message) error {
		got <- Read[uint64](m)
		return m.Err()
	}
	var all []*Client
	for range clients {
		c := &Client{Config: patient, Unhandled: take}
		require.NoError(t, c.Connect(t.Context(), "udp4", address))
		all = append(all, c)
		<-joined
	}
	m := NewMessage(Reliable, 3)
	Add[uint64](m, 7)
	for _, c := range all {
		require.NoError(t, c.Send(m))
	}
	for range clients {
		require.EqualValues(t, 7, <-got)
	}
	require.EqualValues(t, clients, relayed.Load())
	require.NoError(t, s.SendAll(m))
	for range clients {
		require.EqualValues(t, 7, <-got)
	}
	used := 0
	for _, mux := range s.muxes {
		if mux.Stats().Socket.SendCalls > 0 {
			used++
		}
	}
	require.Greater(t, used, 1, "sockets on which clients have come out")
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-served, net.ErrClosed)
	for _, c := range all {
		<-c.Done()
	}
	again, err := loopback.Again(func() (net.PacketConn, error) { return net.ListenPacket("udp4", address) })
	require.NoError(t, err)
	again.Close()
	require.ErrorIs(t, s.ListenAndServe("udp4", "127.0.0.1:0"), net.ErrClosed)
}
