package riptide

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A broadcast is one pass over the socket for all clients over UDP, in all
// modes. What the server says to single clients meanwhile takes system calls, too,
// so it is the least of several broadcasts that counts.
func TestBroadcastInOnePass(t *testing.T) {
	const clients = 70
	joined := make(chan *Peer, clients)
	cfg := *patient
	cfg.HeartbeatInterval = 10 * time.Second // which would be answered
	s := &Server{Config: &cfg, NoAnnouncements: true, MaxClients: clients, Connected: func(p *Peer) { joined <- p }}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.ServeOn(pc) }()
	got := make(chan uint64, 3*clients)
	take := func(_ *Client, m *Message) error {
		if m.Mode() == Notify {
			m.ReadUvarint() // the id
		}
		got <- Read[uint64](m)
		return m.Err()
	}
	for range clients {
		c := &Client{Config: &cfg, Unhandled: take, Notify: take}
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
		Add[uint64](m, uint64(i))
		least := uint64(clients)
		for range 20 {
			before := calls()
			require.NoError(t, s.SendAll(m))
			least = min(least, calls()-before)
			for range clients {
				require.EqualValues(t, i, <-got)
			}
			if least <= clients/64+2 {
				break
			}
		}
		require.LessOrEqual(t, least, uint64(clients/64+2), "system calls of a broadcast of mode %v", mode)
		if mode == Unreliable {
			require.NoError(t, s.SendAll(m, first))
			for range clients - 1 {
				require.EqualValues(t, i, <-got)
			}
		}
	}
	s.Close()
	<-served
}
