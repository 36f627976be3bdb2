package riptide

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A broadcast is one pass over the socket for all clients over UDP, in all
// modes.
func TestBroadcastInOnePass(t *testing.T) {
	const clients = 70
	joined := make(chan *Peer, clients)
	s := &Server{NoAnnouncements: true, MaxClients: clients, Connected: func(p *Peer) { joined <- p }}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()
	got := make(chan uint64, 3*clients)
	take := func(_ *Client, m *Message) error {
		if m.Mode() == Notify {
			m.Uvarint() // the id
		}
		got <- m.Uint64()
		return m.Err()
	}
	for range clients {
		c := &Client{Unhandled: take, Notify: take}
		require.NoError(t, c.Connect(t.Context(), "udp", pc.LocalAddr().String()))
		defer func() {
			c.Close()
			<-c.Done()
		}()
	}
	first := <-joined
	for range clients - 1 {
		<-joined
	}
	calls := func() uint64 { return s.muxes[0].Stats().Socket.SendCalls }
	for i, mode := range []Mode{Unreliable, Notify, Reliable} {
		m := NewMessage(mode, 3)
		m.AddUint64(uint64(i))
		before := calls()
		require.NoError(t, s.SendAll(m))
		require.LessOrEqual(t, calls()-before, uint64(clients/64+2), "system calls of a broadcast of mode %v", mode)
		for range clients {
			require.EqualValues(t, i, <-got)
		}
		if mode == Unreliable {
			require.NoError(t, s.SendAllBut(first, m))
			for range clients - 1 {
				require.EqualValues(t, i, <-got)
			}
		}
		m.Release()
	}
	s.Close()
	<-served
}
