package volley

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
	"volley/reliable"
	"volley/simnet"
)

// strangerAt returns an address of many.
func strangerAt(n int) netip.AddrPort {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 20<<24+uint32(n))
	return netip.AddrPortFrom(netip.AddrFrom4(b), 7)
}

// openingPacket is a first packet of the reference.
func openingPacket() []byte {
	return append(reliable.AppendHeader(nil, reliable.Header{Ack: 65535}), make([]byte, 32)...)
}

// forgeOpenings has so many strangers send datagrams, and returns how many would become
// connections. None does.
func forgeOpenings(l *Listener, first, n int, out *wire.Batch, datagrams ...[]byte) (admitted int) {
	for i := range n {
		if (*acceptor)(l).HandleUnknown(time.Now(), strangerAt(first+i), false, datagrams, out) != nil {
			admitted++
		}
	}
	return admitted
}

// flooded has no stranger come without a proof for an hour.
func flooded(l *Listener) { l.proofs.openings.spent, l.proofs.openings.last = time.Hour, time.Now() }

// Without a proof 8,192 strangers become connections at once, and 2,048 in a second.
// Those of them that send a hello are asked, by a datagram that is not larger; others get no
// answer, and nothing is kept of either.
func TestFloodOfOpenings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _ := network(t, &ListenConfig{})
		var out wire.Batch
		admitted := 0
		const perMilli = 30
		for ms := range 10_000 {
			admitted += forgeOpenings(l, ms*perMilli, perMilli, &out, openingPacket())
			time.Sleep(time.Millisecond)
		}
		require.Zero(t, out.Len())
		require.InDelta(t, 8192+10*2048, admitted, 10)
		require.Zero(t, l.Stats().Notices)
		opening := [][]byte{openingPacket()}
		allocs := testing.AllocsPerRun(1000, func() { forgeOpenings(l, 1, 10, &out, opening...) })
		require.Less(t, allocs, 0.01)

		require.Zero(t, forgeOpenings(l, 0, 100, &out, hello(5), openingPacket()))
		require.Zero(t, forgeOpenings(l, 0, 100, &out, hello(5)))
		require.EqualValues(t, 200, l.Stats().Notices)
		require.Equal(t, 200, out.Len())
		seen := make(map[uint64]bool)
		for i := range 200 {
			s, ok := parseSalute(out.At(i))
			require.True(t, ok)
			require.EqualValues(t, questionPrefix, out.At(i)[0])
			require.Len(t, out.At(i), len(hello(5)))
			require.Zero(t, s.echo)
			seen[s.token] = true
		}
		require.Len(t, seen, 100, "one for each address")
		for ms := range 2000 {
			forgeOpenings(l, ms*perMilli, perMilli, &out, hello(5))
			time.Sleep(time.Millisecond)
		}
		require.InDelta(t, 2000+2*20_000, l.Stats().Notices, 50)
	})
}

// A client that dials beside a flood is asked, and is connected within two round trips and
// the time of its next packet. Its connection is as any other.
func TestDialBesideFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{Config: &Config{ProtocolID: 9}})
		for i := range 20 {
			flooded(l)
			c := dial("10.0.0.2:1", &Dialer{Config: &Config{ProtocolID: 9}}) // again and again from one port
			begin := time.Now()
			c.Write([]byte("lost"))
			s := accept(t, l)
			require.LessOrEqual(t, time.Since(begin), 2*simRTT)
			require.True(t, s.proved())
			time.Sleep(2 * simRTT)
			require.True(t, greetingOf(c).proved)
			require.Equal(t, greetingOf(c).own, greetingOf(s).peer)
			require.Equal(t, greetingOf(c).peer, greetingOf(s).own)
			c.Write([]byte("up"))
			wantMessage(t, s, "up")
			s.Write([]byte("down"))
			wantMessage(t, c, "down")
			if i%2 == 0 {
				c.Close()
				wantEnd(t, s)
			} else {
				s.Close()
				wantEnd(t, c)
			}
			c.Close()
			s.Close()
			time.Sleep(10 * time.Second)
		}
		require.Zero(t, l.Stats().Conns)
	})
}

// Beside a flood in which three of ten datagrams are lost, a client that sends 30 messages a
// second is connected within 2 s in 99 of 100 cases, because both sides ask again.
func TestDialBesideLossyFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{})
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Loss: 0.3})
		const dials = 300
		flooded(l)
		var clients []*Conn
		for i := range dials {
			clients = append(clients, dial(fmt.Sprintf("10.1.%d.%d:1", i/100, i%100), &Dialer{}))
		}
		for range 60 {
			time.Sleep(time.Second / 30)
			for _, c := range clients {
				c.Write([]byte("hello"))
			}
		}
		t.Logf("%d of %d are connected", l.Stats().Accepted, dials)
		require.GreaterOrEqual(t, l.Stats().Accepted, uint64(dials*99/100))
		for _, c := range clients {
			c.Close()
		}
	})
}

// Tokens that are guessed, of another address, port or stranger, or too old, prove nothing.
func TestProofsAreNotForged(t *testing.T) {
	p := newProofs(0)
	from, now := strangerAt(1), p.start.Add(time.Hour)
	answer := func(token, echo uint64) [][]byte {
		return [][]byte{saluted(answerPrefix, salute{token: token, echo: echo})}
	}
	token := p.token(from, 5, p.epoch(now))
	good := answer(5, token)
	s, ok := p.answer(now, from, good)
	require.True(t, ok)
	require.Equal(t, salute{token: 5, echo: token}, s)
	wrong := func(why string, now time.Time, from netip.AddrPort, bufs [][]byte) {
		_, ok := p.answer(now, from, bufs)
		require.False(t, ok, why)
	}
	wrong("address", now, strangerAt(2), good)
	wrong("port", now, netip.AddrPortFrom(from.Addr(), 8), good)
	wrong("stranger", now, from, answer(6, token))
	wrong("question", now, from, [][]byte{saluted(questionPrefix, salute{token: 5, echo: token})})
	wrong("confirm", now, from, [][]byte{saluted(confirmPrefix, salute{token: 5, echo: token})})
	wrong("short", now, from, [][]byte{good[0][:greetingSize-1]})
	wrong("another server", now, from, answer(5, newProofs(0).token(from, 5, p.epoch(now))))
	for bit := range 64 {
		wrong("bit", now, from, answer(5, token^1<<bit))
	}
	_, ok = p.answer(now.Add(proofEpoch), from, good)
	require.True(t, ok)
	wrong("old", now.Add(2*proofEpoch), from, good)
	wrong("early", now.Add(-proofEpoch), from, good)
	r := rand.New(rand.NewPCG(3, 4))
	for range 1_000_000 {
		wrong("guess", now, from, answer(5, r.Uint64()))
	}
	late := p.start.Add(10 * 365 * 24 * time.Hour)
	_, ok = p.answer(late, from, answer(5, p.token(from, 5, p.epoch(late))))
	require.True(t, ok)
}

// A proof opens one connection: its copies open none after that has ended.
func TestProofAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{})
		raw, err := n.Listen("10.0.0.9:1")
		require.NoError(t, err)
		defer raw.Close()
		flooded(l)
		raw.WriteTo(hello(5), l.Addr())
		b := make([]byte, 100)
		k, _, err := raw.ReadFrom(b)
		require.NoError(t, err)
		s, ok := parseSalute(b[:k])
		require.True(t, ok)
		proof := saluted(answerPrefix, salute{token: 5, echo: s.token})
		raw.WriteTo(proof, l.Addr())
		c := accept(t, l)
		c.Close()
		time.Sleep(3 * time.Second)
		require.Zero(t, l.Stats().Conns)
		raw.WriteTo(proof, l.Addr())
		time.Sleep(time.Second)
		require.Zero(t, l.Stats().Conns)
		require.EqualValues(t, 1, l.Stats().Accepted)
	})
}

// A stranger with a proof is told if it may not come in.
func TestProofRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{MaxConns: 2, Config: &Config{ProtocolID: 8}})
		comes := func(protocol uint64) (admitted bool, reason string) {
			from := strangerAt(1)
			s := salute{token: 5, echo: l.proofs.token(from, 5, 1), protocol: protocol}
			var out wire.Batch
			admitted = (*acceptor)(l).HandleUnknown(time.Now(), from, false, [][]byte{saluted(answerPrefix, s)}, &out) != nil
			if out.Len() > 0 {
				token, why, ok := parseToken(out.At(0), refusalPrefix, maxRefusal)
				require.True(t, ok)
				require.EqualValues(t, 5, token)
				reason = why
			}
			return admitted, reason
		}
		flooded(l)
		admitted, reason := comes(8)
		require.True(t, admitted)
		require.Empty(t, reason)
		admitted, reason = comes(9)
		require.False(t, admitted)
		require.Equal(t, refusedProtocol, reason)
		for i := range 2 {
			c := dial(fmt.Sprintf("10.0.0.3:%d", 1+i), &Dialer{Config: &Config{ProtocolID: 8}})
			defer c.Close()
			defer accept(t, l).Close()
		}
		admitted, reason = comes(8)
		require.False(t, admitted)
		require.Equal(t, refusedFull, reason)
	})
}

// A Listener that does not greet, or without a limit of connections, asks nobody and takes in
// all. A large limit lets more in.
func TestNoProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3 * openingsAtOnce
		for _, test := range []struct {
			lc   ListenConfig
			want int
		}{
			{ListenConfig{}, openingsAtOnce},
			{ListenConfig{MaxConns: 10}, openingsAtOnce},
			{ListenConfig{MaxConns: 2 * openingsAtOnce * 16}, 2 * openingsAtOnce},
			{ListenConfig{MaxConns: -1}, n},
			{ListenConfig{Config: ReferenceConfig()}, n},
		} {
			_, l, _ := network(t, &test.lc)
			var out wire.Batch
			require.Equal(t, test.want, forgeOpenings(l, 0, n, &out, openingPacket()))
			require.Zero(t, out.Len())
		}
		_, l, _ := network(t, &ListenConfig{MaxConns: 1 << 20})
		require.EqualValues(t, 1<<14, l.proofs.openings.perSecond)
	})
}
