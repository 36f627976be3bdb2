package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

func verifyingConfig() *Config {
	cfg := testConfig()
	cfg.VerifyRequest = true
	return cfg
}

// count returns how many datagrams of a type a batch has, and empties it.
func count(out *wire.Batch, t FrameType) (n int) {
	for i := range out.Len() {
		if FrameType(out.At(i)[0]) == t {
			n++
		}
	}
	out.Reset()
	return n
}

// A request that is not for this connection is answered by a ping, and is no sign
// of life; if requests go on and no ping is answered, the connection ends.
func TestVerifyRequest(t *testing.T) {
	cfg := verifyingConfig()
	foreign := [][]byte{request(cfg, 7), request(cfg, 2000), AppendConnect(nil, Connect{1, 2, 1, 7}), AppendConnect(nil, Connect{0, 9, 1, 7})}
	for i, b := range foreign {
		p, h := connectedPeer(t, cfg)
		var out wire.Batch
		p.Receive(ms(10), AppendPing(nil, TypePing, 1), &out) // it is connected
		p.Tick(ms(1000), &out)
		out.Reset()

		p.Receive(ms(1000), b, &out)
		require.Equal(t, 1, count(&out, TypePing), "frame %d: and nothing else", i)
		p.Receive(ms(1001), b, &out)
		require.Zero(t, out.Len(), "frame %d", i)
		pings, now := 0, ms(1001)
		for ; now < ms(1000)+restartTime+3*time.Second; now += ms(10) {
			p.Tick(now, &out)
			pings += count(&out, TypePing)
		}
		require.GreaterOrEqual(t, pings, 8)
		require.LessOrEqual(t, pings, 60)
		require.Equal(t, Connected, p.State(), "frame %d: nobody asks any more", i)
		p.Receive(now, b, &out)
		require.Equal(t, Connected, p.State(), "frame %d: the answers may wait behind the request", i)
		patience := max(restartTime, restartTimeouts*p.send.rtt.rto())
		for left := patience - restartGap - ms(1); left > 0; left -= restartGap {
			for range 10 { // one read
				p.Receive(now, b, &out)
				require.Equal(t, Connected, p.State(), "frame %d", i)
			}
			now += min(left, restartGap)
		}
		p.Receive(now-time.Microsecond, b, &out)
		require.Equal(t, Connected, p.State(), "frame %d", i)
		p.Receive(now, b, &out)
		require.Equal(t, Zombie, p.State())
		require.Equal(t, []Event{EventConnect, EventReplaced}, h.events)

		p, _ = connectedPeer(t, cfg)
		p.Receive(ms(10), AppendPing(nil, TypePing, 1), &out)
		for now := ms(10); now < ms(10)+cfg.Watchdog; now += ms(5900) { // one after the other, which all end
			p.Receive(now, b, &out)
			p.Tick(now, &out)
			p.restart.there = false
		}
		p.Tick(ms(10)+cfg.Watchdog, &out)
		require.Equal(t, Zombie, p.State(), "frame %d: no sign of life", i)
	}
}

// The verification is as long as eight timeouts, on a path on which that is longer.
func TestVerifyRequestOnALongPath(t *testing.T) {
	p, _ := connectedPeer(t, verifyingConfig())
	var out wire.Batch
	for range 20 {
		p.send.sample(700 * time.Millisecond)
	}
	patience := 8 * p.send.rtt.rto()
	require.Greater(t, patience, restartTime)
	end := ms(1000) + patience
	for now := ms(1000); now < end; now += restartGap {
		p.Receive(now, request(p.cfg, 7), &out)
	}
	p.Receive(end-time.Microsecond, request(p.cfg, 7), &out)
	require.Equal(t, Connected, p.State())
	p.Receive(end+time.Microsecond, request(p.cfg, 7), &out)
	require.Equal(t, Zombie, p.State())
}

// The answer to a ping keeps the connection, if the ping was sent since.
func TestVerifyRequestAnswered(t *testing.T) {
	p, _ := connectedPeer(t, verifyingConfig())
	var out wire.Batch
	p.ping(ms(990), &out)
	old := p.pingID
	p.Receive(ms(1000), request(p.cfg, 7), &out)
	require.Equal(t, 1, count(&out, TypePing), "the one before: not two in a row")
	p.Receive(ms(1010), AppendPing(nil, TypePingAck, old), &out)
	p.Tick(ms(1100), &out)
	require.Equal(t, 1, count(&out, TypePing))
	require.True(t, p.restart.there, "that ping left before")
	p.Receive(ms(1110), AppendPing(nil, TypePingAck, p.pingID), &out)
	require.False(t, p.restart.there)
	p.Receive(ms(1000)+restartTime, request(p.cfg, 7), &out)
	require.Equal(t, Connected, p.State(), "a new verification")
	p.Receive(ms(1000)+3*restartTime, request(p.cfg, 7), &out)
	p.Receive(ms(1000)+3*restartTime, AppendPing(nil, TypePingAck, p.pingID), &out)
	require.Equal(t, Connected, p.State(), "nothing was read for longer")
	require.False(t, p.restart.there)
}

// C2, C8: as long as the peer has not shown that it is connected, its own request
// is acknowledged again, and ours is repeated: it may have started again in the
// middle of the handshake, and know nothing of ours.
func TestVerifyRequestInTheHandshake(t *testing.T) {
	cfg := verifyingConfig()
	p, _ := connectedPeer(t, cfg)
	var out wire.Batch
	p.Receive(ms(400), request(cfg, 2000), &out)
	require.Equal(t, 1, count(&out, TypeConnectAck))
	require.Equal(t, ms(400), p.lastHeard)
	at, _ := p.Next(ms(400))
	require.LessOrEqual(t, at, cfg.RequestInterval)
	p.Tick(cfg.RequestInterval-1, &out)
	require.Zero(t, count(&out, TypeConnect))
	p.Tick(cfg.RequestInterval, &out)
	require.Equal(t, 1, count(&out, TypeConnect))
	p.Receive(ms(600), AppendPing(nil, TypePing, 1), &out)
	p.Tick(ms(2000), &out)
	require.Zero(t, count(&out, TypeConnect), "it is connected")
	p.Receive(ms(2000), request(cfg, 2000), &out)
	require.Zero(t, count(&out, TypeConnectAck))
}

// A peer that starts again after it has acknowledged our request, and before it
// was connected, is taken back at once.
func TestStartsAgainInTheHandshake(t *testing.T) {
	for _, id := range []uint32{2000, 7} { // of the second life
		cfg := verifyingConfig()
		p := new(Peer)
		p.InitAccepted(0, cfg, 1000, &recorder{})
		q := new(Peer)
		q.Init(0, cfg, id, &recorder{})
		var out, back wire.Batch
		if id == 2000 {
			p.Receive(0, request(cfg, 2000), &out) // of the first life
			out.Reset()
		}
		for now := ms(0); q.State() != Connected; now += ms(20) {
			require.Less(t, now, ms(1500))
			q.Tick(now, &back)
			for i := range back.Len() {
				p.Receive(now, back.At(i), &out)
			}
			back.Reset()
			p.Tick(now, &out)
			for i := range out.Len() {
				q.Receive(now, out.At(i), &back)
			}
			out.Reset()
		}
		require.Equal(t, Connected, p.State())
		_, ok := q.Send(ms(1500), 0, []byte("again"), Reliable, 0)
		require.True(t, ok)
		q.Transmit(ms(1500), &back, 1)
		for i := range back.Len() {
			p.Receive(ms(1510), back.At(i), &out)
		}
		require.Equal(t, []received{{0, "again"}}, p.h.(*recorder).packets)
	}
}

// Who was sent two requests may acknowledge either, and begin with either; the
// first frame decides, and from then on there is one window.
func TestAlsoAsked(t *testing.T) {
	for _, first := range []uint32{1000, 9_000_000} {
		for _, acked := range []uint32{1000, 9_000_000} {
			p, h := newPeer(testConfig())
			p.AlsoAsked(9_000_000)
			var out wire.Batch
			p.Receive(0, AppendConnectAck(nil, acked), &out)
			p.Receive(0, request(p.cfg, 2000), &out)
			require.Equal(t, Connected, p.State())
			for id := first; id < first+3; id++ {
				p.Receive(0, AppendDataHeader(nil, id, 0), &out)
			}
			require.EqualValues(t, 3, p.stats.Accepted)
			p.Receive(0, AppendDataHeader(nil, 10_000_000-first-999_000, 0), &out)
			p.Receive(0, AppendDataHeader(nil, 9_001_000-first, 0), &out)
			require.EqualValues(t, 2, p.stats.OutOfWindow)
			require.Equal(t, []Event{EventConnect}, h.events)
		}
	}
	p, _ := newPeer(testConfig())
	p.AlsoAsked(9_000_000)
	var out wire.Batch
	p.Receive(0, AppendConnectAck(nil, 1001), &out)
	require.Equal(t, Disconnected, p.State(), "C5")
}

// D1: the answer to our request to end is waited for as long as the peer is heard,
// and as long as a path takes.
func TestAnswerDue(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	var out wire.Batch
	p.send.sample(ms(20))
	p.Disconnect(ms(1000), false)
	require.Equal(t, ms(2100), p.AnswerDue())
	p.Receive(ms(1500), AppendPing(nil, TypePing, 1), &out)
	require.Equal(t, ms(2600), p.AnswerDue())
	for range 20 {
		p.send.sample(ms(700))
	}
	require.Equal(t, ms(2000)+4*p.send.rtt.rto(), p.AnswerDue())

	// Each term counts alone, on either side of where they are equal.
	for _, test := range []struct{ begun, heard, avg, want Clock }{
		{ms(1000), 0, ms(100), ms(2100)}, // a timeout of 150 ms
		{ms(1000), 0, ms(101), ms(1000) + ms(500) + 4*(ms(101)+ms(101)/2)},
		{ms(1000), ms(999), ms(20), ms(2100)},
		{ms(1000), ms(1001), ms(20), ms(2101)},
		{ms(1000), ms(1001), ms(200), ms(1001) + ms(500) + 4*ms(300)},
	} {
		p, _ := connectedPeer(t, testConfig())
		p.Disconnect(test.begun, false)
		p.lastHeard = test.heard
		p.send.rtt.avg, p.send.rtt.dev = test.avg, 0
		require.Equal(t, test.want, p.AnswerDue(), "%+v", test)
	}
}
