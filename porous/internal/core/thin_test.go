package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// trickle sends small numbered packets now and then, and checks that each
// arrives once and in order, and has one fate.
func trickle(t *testing.T, seed uint64, cfg *Config, link simLink, total int) *sim {
	s := newSim(seed, cfg, cfg, link)
	s.connect(t)
	count := s.b.expect(t)
	for i := range total {
		s.at(s.now+ms(10*i), func() {
			s.a.p.Send(s.now, 0, numbered(i, 4+i%500), Reliable, 0)
			s.a.transmit()
		})
	}
	s.until(t, time.Hour, func() bool { return *count == total && s.a.p.Flushed() })
	s.run(time.Minute)
	require.Len(t, s.a.fates, total)
	seen := map[uint64]bool{}
	for _, f := range s.a.fates {
		require.True(t, f.Delivered)
		require.False(t, seen[f.Number], "one fate each")
		seen[f.Number] = true
	}
	require.Zero(t, s.a.p.Stats().InFlight)
	require.Zero(t, s.a.p.send.queue.copied)
	return s
}

func TestR9Delivery(t *testing.T) {
	for seed := range uint64(4) {
		for _, kind := range []ControllerKind{Cubic, Tolerant} {
			cfg := simConfig()
			cfg.Redundancy, cfg.Controller = true, kind
			for _, link := range []simLink{
				{delay: 20 * time.Millisecond, loss: 0.3, dup: 0.3, jitter: 40 * time.Millisecond},
				{delay: 100 * time.Millisecond, loss: 0.1},
				{loss: 0.5, jitter: time.Second},
			} {
				s := trickle(t, seed, cfg, link, 1500)
				require.NotZero(t, s.b.p.Stats().Duplicates)
			}
		}
	}
}

// Copies are written of what is unacknowledged, and their arrival settles a
// message whose own frame is lost.
func TestR9Copies(t *testing.T) {
	cfg := testConfig()
	cfg.Redundancy = true
	p, h := connectedPeer(t, cfg)
	p.send.sample(ms(50))
	p.send.loss.share, p.send.loss.noted = 0.01, firstNotes
	var out wire.Batch
	send := func(now Clock, n int) string {
		p.Send(now, 0, numbered(n, 100), Reliable, 0)
		p.Transmit(now, &out, 10)
		return contents(t, &out)
	}
	require.Equal(t, "0|", send(0, 0))
	require.Equal(t, "1 0|", send(ms(10), 1), "the one before is repeated")
	require.Equal(t, "2 1|", send(ms(20), 2), "once, at so little loss")
	p.Transmit(ms(26), &out, 10)
	require.Equal(t, "2|", contents(t, &out), "in a frame of its own if none comes")
	p.Transmit(ms(80), &out, 10)
	require.Empty(t, contents(t, &out))

	// Frame 2000 is lost, and 2001, which has the copy, arrives.
	p.Receive(ms(60), AppendDataAck(nil, []uint32{2001, 2002, 2003}), &out)
	p.Tick(ms(60), &out)
	p.Transmit(ms(60), &out, 10)
	require.Empty(t, contents(t, &out), "it need not be sent again")
	require.Len(t, h.fates, 3)
	for _, f := range h.fates {
		require.True(t, f.Delivered)
	}
	require.True(t, p.Flushed())

	// Without loss nothing is repeated, nor what is large or unreliable.
	p.send.loss.share, p.send.loss.recent = 0, 0
	require.Equal(t, "3|", send(ms(100), 3))
	require.Equal(t, "4|", send(ms(110), 4))
	p.send.loss.share = 0.01
	p.Send(ms(120), 0, numbered(5, copySize+1), Reliable, 0)
	p.Send(ms(120), 0, numbered(6, 100), Unreliable, 0)
	p.Transmit(ms(120), &out, 10)
	require.Equal(t, "5 6|", contents(t, &out))
	require.Equal(t, "7|", send(ms(130), 7))
}

func TestR9Budget(t *testing.T) {
	before := 0
	for loss := 0.0; loss < 1; loss += 0.001 {
		n := copies(loss)
		require.GreaterOrEqual(t, n, before, "more loss, more copies")
		require.LessOrEqual(t, n, maxCopies)
		before = n
	}
	require.Zero(t, copies(0.001))
	require.Equal(t, 1, copies(0.01))
	require.Equal(t, 2, copies(0.05))
	require.Equal(t, 4, copies(0.2))
}

// Where losses are rare, the last one is remembered for a while, in which messages
// are repeated once; not if it turns out to be none.
func TestR9RareLosses(t *testing.T) {
	var d lossDetector
	d.init()
	arrive := func(n int) {
		for range n {
			d.note(&frame{sends: 1}, false)
		}
	}
	arrive(100)
	require.Zero(t, d.repeats(), "none is lost")
	d.note(&frame{sends: 1}, true)
	arrive(lossMemory - 1)
	require.Zero(t, copies(d.share))
	require.Equal(t, 1, d.repeats())
	d.note(&frame{sends: 2}, false)
	require.Equal(t, 1, d.repeats(), "a resend tells nothing")
	arrive(1)
	require.Zero(t, d.repeats())
	arrive(1)
	require.Zero(t, d.repeats())

	d.note(&frame{sends: 1}, true)
	arrive(5)
	require.Equal(t, 1, d.repeats())
	d.undo()
	require.Zero(t, d.repeats(), "it was none")
	d.note(&frame{sends: 1}, true)
	arrive(200)
	d.note(&frame{sends: 1}, true)
	d.undo()
	require.Equal(t, 1, d.repeats(), "the one before was one")
	arrive(lossMemory - 200)
	require.Zero(t, d.repeats())
	d.share = 0.2
	require.Equal(t, 4, d.repeats())
}

// A thin stream sends a lost frame again a little more than a round trip after
// it left, whatever has been acknowledged, at most three times, and twice each
// from the second time on; a bulk transfer waits.
func TestThinResends(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	control := &fixedController{window: 1 << 20}
	p.send.control = control
	for range 50 {
		p.send.sample(ms(100))
	}
	p.send.loss.share, p.send.loss.noted = 0, firstNotes
	sendFrames(t, p, 0, 1, Reliable)
	delay := p.send.rtt.thinDelay()
	require.Less(t, delay, ms(110))
	var out wire.Batch
	var copies []int
	for now := ms(0); now < ms(400); now += ms(1) {
		at, ok := p.Next(now)
		require.True(t, ok)
		p.Tick(now, &out)
		out.Reset()
		p.Transmit(now, &out, 10)
		if out.Len() > 0 {
			require.InDelta(t, float64(delay)*float64(len(copies)+1), now, float64(ms(5)))
			require.GreaterOrEqual(t, now, at)
			copies = append(copies, out.Len())
		}
		out.Reset()
	}
	require.Equal(t, []int{1, 2, 2}, copies)
	require.Zero(t, control.losses, "that says nothing about the network")

	bulk, _ := connectedPeer(t, testConfig())
	bulk.send.control = &fixedController{window: 10_000}
	for range 50 {
		bulk.send.sample(ms(100))
	}
	sendFrames(t, bulk, 0, 10, Reliable)
	bulk.Tick(ms(120), &out)
	require.Zero(t, bulk.send.queue.waits)
}

// Where the round-trip time varies a thin stream waits for that.
func TestThinDelayFollowsJitter(t *testing.T) {
	var calm, rough rtt
	calm.init(false, 0, 0)
	rough.init(false, 0, 0)
	for i := range 100 {
		calm.add(ms(100))
		rough.add(ms(80 + i%2*40))
	}
	require.Less(t, calm.thinDelay(), ms(110))
	require.Greater(t, rough.thinDelay(), ms(120))
}

// A frame of copies that is due while more waits than may leave asks for no
// tick: that would do nothing, and be asked for again at once.
func TestR9NoTickWhileBlocked(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		cfg := testConfig()
		cfg.Redundancy, cfg.AwaitAcks = true, true
		p, _ := connectedPeer(t, cfg)
		p.send.sample(ms(100)) // nothing is late before 300 ms
		p.send.loss.share, p.send.loss.noted = 0.01, firstNotes
		var out wire.Batch
		for i := range 5 {
			p.Send(ms(40*i), 0, numbered(i, 100), Reliable, 0)
			p.Transmit(ms(40*i), &out, 10)
		}
		require.NotZero(t, p.send.spare.extraAt)
		if leaving {
			p.Receive(ms(161), AppendDisconnect(nil), &out)
			require.True(t, p.leaving)
		} else {
			p.Send(ms(161), 0, make([]byte, 60_000), Reliable, 0)
		}
		for now := ms(161); now < ms(300); now += ms(1) {
			p.Tick(now, &out)
			for p.Transmit(now, &out, 16) {
			}
			out.Reset()
			at, ok := p.Next(now)
			require.True(t, ok)
			require.Greater(t, at, now)
		}
	}
}
