package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// T14: a path that becomes longer than the time between pings is measured all the
// same, though the last ping is never answered before the next one leaves, and no
// message arrives before it is sent again. So is one that was so long from the
// beginning.
func TestT14PathThatBecomesLonger(t *testing.T) {
	for _, before := range []Clock{ms(10), ms(1500)} {
		s := newSim(1, simConfig(), simConfig(), simLink{delay: before})
		s.connect(t)
		s.b.quiet()
		var send func()
		send = func() {
			s.a.p.Send(s.now, 0, make([]byte, 100), Reliable, 0)
			s.a.transmit()
			s.at(s.now+time.Second, send)
		}
		send()
		s.run(10 * time.Second)
		s.a.link.delay, s.b.link.delay = ms(1500), ms(1500)
		s.run(time.Minute)
		require.InDelta(t, 3, s.a.p.Stats().RTT.Seconds(), 0.5)
		resent := s.a.p.Stats().FramesResent
		s.run(time.Minute)
		require.Equal(t, resent, s.a.p.Stats().FramesResent)
	}
}

// The same for a connection that says nothing.
func TestT14IdleOnALongPath(t *testing.T) {
	s := newSim(1, simConfig(), simConfig(), simLink{delay: ms(10)})
	s.connect(t)
	s.run(10 * time.Second)
	s.a.link.delay, s.b.link.delay = ms(1500), ms(1500)
	s.run(3 * time.Minute)
	require.Greater(t, s.a.p.Stats().RTT, time.Second)
	sent := s.a.link.sent
	s.run(time.Minute)
	require.Less(t, s.a.link.sent-sent, 40, "pings of both sides, each 5 s or more")
}

// T14: the ping that is timed may get lost: then an answer to a later one ends that,
// and the next ping is timed. Answers to pings that were never sent do nothing.
func TestT14TimedPing(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	var out wire.Batch
	ping := func(now Clock) uint16 {
		p.ping(now, &out)
		out.Reset()
		return p.pingID
	}
	answer := func(now Clock, id uint16) {
		p.Receive(now, AppendPing(nil, TypePingAck, id), &out)
	}
	p.pingID = 1<<16 - 3 // ids go on at 0
	first, second, third := ping(ms(0)), ping(ms(1000)), ping(ms(2000))
	answer(ms(2500), third+1)
	answer(ms(2500), first-1)
	require.Zero(t, p.send.rtt.samples)
	answer(ms(2600), second)
	require.Zero(t, p.send.rtt.samples, "the first one was lost, when this one left is not known")
	answer(ms(2600), first)
	require.Zero(t, p.send.rtt.samples, "too late")
	fourth := ping(ms(3000))
	fifth := ping(ms(4000))
	answer(ms(5700), fourth)
	require.Equal(t, ms(2700), p.send.rtt.latest)
	answer(ms(6600), fifth)
	require.Equal(t, ms(2600), p.send.rtt.latest)
	require.False(t, p.pinging)
	answer(ms(9000), fifth)
	require.EqualValues(t, 2, p.send.rtt.samples, "once each")
}

// An answer to a ping of before a request to end says nothing about that.
func TestVerifyDisconnectBySinceSentPings(t *testing.T) {
	cfg := testConfig()
	cfg.VerifyDisconnect = true
	p, _ := connectedPeer(t, cfg)
	p.send.sample(ms(100))
	var out wire.Batch
	p.ping(ms(0), &out)
	before := p.pingID
	p.Receive(ms(100), AppendDisconnect(nil), &out)
	p.Receive(ms(150), AppendPing(nil, TypePingAck, before), &out)
	out.Reset()
	p.Receive(ms(2000), AppendDisconnect(nil), &out)
	require.Equal(t, Disconnected, p.State(), "it has asked again, and answered no later ping")
}

// T14: pings are not bound to the congestion window, and take none of it.
func TestT14OutsideTheWindow(t *testing.T) {
	p, c := timeoutPeer(t)
	sendFrames(t, p, 0, 100, Reliable)
	require.Greater(t, p.Stats().InFlight+1420, c.window)
	flight := p.Stats().InFlight
	var out wire.Batch
	for now := ms(0); now < ms(1000); now += ms(10) {
		p.Receive(now, AppendPing(nil, TypePing, uint16(now)), &out)
		require.Equal(t, 1, out.Len())
		require.Equal(t, AppendPing(nil, TypePingAck, uint16(now)), out.At(0), "with the same id")
		out.Reset()
	}
	p.Tick(ms(5000), &out)
	pings := 0
	for i := range out.Len() {
		if _, ok := ParsePing(out.At(i), TypePing); ok {
			pings++
		}
	}
	require.Equal(t, 1, pings)
	require.Equal(t, flight, p.Stats().InFlight)
}

// T14: where pings are to be frequent, those after one that was not answered are,
// too: the watchdog may be about to end the connection.
func TestT14FrequentPings(t *testing.T) {
	cfg := testConfig()
	cfg.PingInterval = ms(200)
	p, _ := connectedPeer(t, cfg)
	for range 20 {
		p.send.sample(ms(10))
	}
	var out wire.Batch
	var pings []Clock
	for now := ms(0); now < ms(1000); now += ms(10) {
		if p.Tick(now, &out); out.Len() > 0 {
			pings = append(pings, now)
		}
		out.Reset()
	}
	require.Equal(t, []Clock{ms(200), ms(400), ms(600), ms(800)}, pings)
}
