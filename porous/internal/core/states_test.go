package core

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// S1: whatever happens, in whichever order, only these arrows are taken, and each
// of them is.
func TestS1Arrows(t *testing.T) {
	allowed := map[[2]State]bool{
		{Connecting, Connected}: true, {Connecting, Disconnected}: true, {Connecting, Zombie}: true,
		{Connected, Disconnecting}: true, {Connected, Disconnected}: true, {Connected, Zombie}: true,
		{Disconnecting, Disconnected}: true, {Disconnecting, Zombie}: true,
		{Disconnected, Zombie}: true,
	}
	seen := map[[2]State]bool{}
	rng := rand.New(rand.NewPCG(1, 1))
	for life := range 5000 {
		cfg := testConfig()
		cfg.AwaitAcks, cfg.VerifyDisconnect, cfg.EagerRequest = life&1 != 0, life&2 != 0, life&4 != 0
		p, h := newPeer(cfg)
		now := Clock(0)
		var out wire.Batch
		for range 40 {
			before := p.State()
			happen(rng, p, &now, &out)
			out.Reset()
			if after := p.State(); after != before {
				require.True(t, allowed[[2]State{before, after}], "from %v to %v", before, after)
				seen[[2]State{before, after}] = true
			}
		}
		ends := 0 // D5
		for i, e := range h.events {
			if e != EventConnect {
				ends++
				require.Equal(t, len(h.events)-1, i, "the end is the last event: %v", h.events)
			}
		}
		require.LessOrEqual(t, ends, 1)
	}
	require.Equal(t, allowed, seen)
}

// happen does something at random to a peer.
func happen(rng *rand.Rand, p *Peer, now *Clock, out *wire.Batch) {
	datagrams := [][]byte{
		request(p.cfg, 2000), AppendConnectAck(nil, p.ownID), AppendConnectAck(nil, p.ownID+1),
		AppendConnect(nil, Connect{9, 2, 1, 2000}),
		AppendDisconnect(nil), AppendDisconnectAck(nil), AppendPing(nil, TypePing, 1), AppendPing(nil, TypePingAck, 1),
		AppendDataHeader(nil, p.ownID, 0), AppendDataAck(nil, []uint32{2000}),
	}
	switch n := rng.IntN(40); {
	case n < 4:
		p.Receive(*now, datagrams[n%2], out)
	case n < 14:
		p.Receive(*now, datagrams[rng.IntN(len(datagrams))], out)
		p.EndBatch(*now, out)
	case n < 20:
		p.Send(*now, 0, []byte("x"), Reliable, 0)
		p.Transmit(*now, out, 10)
	case n == 20:
		p.Disconnect(*now, rng.IntN(2) == 0)
	case n == 21 && rng.IntN(4) == 0:
		p.Abort(*now, out, rng.IntN(2) == 0)
	default:
		*now += ms(rng.IntN(8000) >> rng.IntN(12))
		p.Tick(*now, out)
	}
}
