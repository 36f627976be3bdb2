package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// The example of T1: messages 0, 2, 3 high and 1, 4 low.
func TestT1Q13Priorities(t *testing.T) {
	cfg := testConfig()
	cfg.MTU = 100
	p, _ := connectedPeer(t, cfg)
	p.SetPriority(1, true)
	p.send.control = &fixedController{window: 190}
	for i, size := range []int{40, 30, 25, 60, 30} {
		channel := 1
		if i == 1 || i == 4 {
			channel = 0
		}
		p.Send(0, channel, numbered(i, size), Reliable, 0)
	}
	var out wire.Batch
	p.Transmit(0, &out, 10)
	require.Equal(t, "0 2|3|", contents(t, &out), "0, 2, 3 fill frames a and b; neither 1 nor 4 leaves")
	p.send.control = &fixedController{window: 1000}
	p.Transmit(0, &out, 10)
	require.Equal(t, "1 4|", contents(t, &out))
}

// R10: low priority may be left a share of what is sent while there is something
// of both; by default it has none, and alone everything.
func TestR10LowShare(t *testing.T) {
	for _, share := range []int{0, 1, 10, 50} {
		cfg := testConfig()
		cfg.LowShare = share
		p, _ := connectedPeer(t, cfg)
		p.SetPriority(1, true)
		p.send.control = &fixedController{window: 1 << 30}
		send := func(channel, n int) {
			for range n {
				p.Send(0, channel, make([]byte, 100+channel), Reliable, 0)
			}
		}
		sent := [2]int{}
		transmit := func(frames int) {
			var out wire.Batch
			p.Transmit(0, &out, frames)
			for i := range out.Len() {
				_, n, body, _ := ParseData(out.At(i))
				for range n {
					var m Message
					m, body, _ = NextMessage(body)
					sent[m.Channel] += len(m.Data)
				}
			}
		}
		send(0, 5000)
		transmit(50) // alone, which is no debt
		sent = [2]int{}
		send(1, 5000)
		transmit(300)
		percent := 100 * float64(sent[0]) / float64(sent[0]+sent[1])
		require.InDelta(t, share, percent, 0.5)
		if share == 0 {
			require.Zero(t, sent[0])
		}
	}
}

// contents returns the numbers of the packets in each frame.
func contents(t *testing.T, out *wire.Batch) (s string) {
	for i := range out.Len() {
		_, n, body, ok := ParseData(out.At(i))
		require.True(t, ok)
		for j := range n {
			var m Message
			m, body, _ = NextMessage(body)
			if j > 0 {
				s += " "
			}
			s += fmt.Sprint(m.Data[3])
		}
		s += "|"
	}
	out.Reset()
	return s
}

// A fixedController never changes.
type fixedController struct {
	window int
	Ack
	losses, timeouts, spurious int
}

func (c *fixedController) Window() int                  { return c.window }
func (c *fixedController) Rate() float64                { return 0 }
func (c *fixedController) Reduced() bool                { return false }
func (c *fixedController) HandleAck(a Ack)              { c.Ack = a }
func (c *fixedController) HandleLoss(Clock, Loss)       { c.losses++ }
func (c *fixedController) HandleSpurious(Clock, Clock)  { c.spurious++ }
func (c *fixedController) HandleIdle(int)               {}
func (c *fixedController) HandleTimeout(Clock)          { c.timeouts++ }
func (c *fixedController) SetRTT(time.Duration, uint64) {}

// sendFrames sends n frames of one packet each and returns their ids.
func sendFrames(t *testing.T, p *Peer, now Clock, n int, mode Mode) (ids []uint32) {
	var out wire.Batch
	for range n {
		_, ok := p.Send(now, 0, make([]byte, 1400), mode, 0)
		require.True(t, ok)
	}
	p.Transmit(now, &out, n)
	for i := range out.Len() {
		id, _, _, ok := ParseData(out.At(i))
		require.True(t, ok)
		ids = append(ids, id)
	}
	return ids
}

func TestT2FrameWindow(t *testing.T) {
	cfg := testConfig()
	cfg.SendFrames = 4
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 1 << 20}
	require.Equal(t, []uint32{2000, 2001, 2002, 2003}, sendFrames(t, p, 0, 6, Reliable), "ids increment")
	require.Equal(t, LimitFrames, p.Stats().Limit)
	var out wire.Batch
	p.Receive(1, AppendDataAck(nil, []uint32{2001, 2002}), &out)
	require.Empty(t, sendFrames(t, p, 1, 1, Reliable), "the oldest one holds the window")
	p.Receive(1, AppendDataAck(nil, []uint32{2000}), &out)
	require.Len(t, sendFrames(t, p, 1, 3, Reliable), 3)
	p.Transmit(1, &out, 10)
	require.Equal(t, LimitFrames, p.Stats().Limit)
}

func TestT3ReceiveWindow(t *testing.T) {
	w := frameWindow{size: 4}
	require.True(t, w.accepts(3))
	w.move(3)
	require.EqualValues(t, 4, w.next)
	for id := range uint32(8) {
		require.True(t, w.accepts(id))
	}
	require.False(t, w.accepts(8))
	require.False(t, w.accepts(1<<32-1))
}

func TestT4T5R5Acks(t *testing.T) {
	var a ackList
	var out wire.Batch
	a.init(MTU0, 2)
	for i := range uint32(1000) {
		a.add(i)
		a.add(i)
	}
	a.flush(&out)
	seen := map[uint32]int{}
	for i := range out.Len() {
		for id, n := range ackIDs(t, out.At(i)) {
			require.Equal(t, 1, n, "never twice in one frame")
			seen[id]++
		}
	}
	require.Len(t, seen, 1000)
	require.Equal(t, 3, out.Len(), "367 ids fill a frame")
	require.Len(t, out.At(0), 3+4*367)
	out.Reset()

	var b ackList
	b.init(MTU0, 2)
	for batch, want := range []int{1, 2, 3, 3} {
		b.add(uint32(batch))
		b.flush(&out)
		require.Equal(t, 1, out.Len())
		require.Len(t, ackIDs(t, out.At(0)), want, "R5: the ids of the last two batches come again")
		out.Reset()
	}
	b.add(3) // a duplicate of the last one
	b.flush(&out)
	require.Len(t, ackIDs(t, out.At(0)), 2)
	out.Reset()
	b.flush(&out)
	require.Zero(t, out.Len(), "nothing new, nothing to say")
}

func ackIDs(t *testing.T, b []byte) map[uint32]int {
	list, ok := ParseDataAck(b)
	require.True(t, ok)
	ids := map[uint32]int{}
	for len(list) > 0 {
		var id uint32
		id, list = FrameID(list)
		ids[id]++
	}
	return ids
}

// The example of the transfer layer: drops and the window.
func TestT6T7T13Drops(t *testing.T) {
	cfg := testConfig()
	p, h := connectedPeer(t, cfg)
	control := &fixedController{window: 1 << 20}
	p.send.control = control
	var out wire.Batch
	for i := range 5 {
		p.Send(0, 0, numbered(2*i, 600), Unreliable, 0)
		p.Send(0, 0, numbered(2*i+1, 600), Reliable, 0)
		p.Transmit(0, &out, 10)
	}
	frames(&out)
	size := p.Stats().InFlight / 5
	require.Equal(t, DataHeaderSize+2*(FragmentHeaderSize+600), size, "T6")
	p.Receive(ms(50), AppendDataAck(nil, []uint32{2003, 2004, 4000}), &out)
	require.Equal(t, 1, control.losses, "frames 0 and 1 are lost; 2 may yet come")
	require.Equal(t, size+2*(DataHeaderSize+FragmentHeaderSize+600), p.Stats().InFlight, "T7: their unreliable parts are gone")
	lost := 0
	for _, f := range h.fates {
		if !f.Delivered {
			lost++
		}
	}
	require.Equal(t, 2, lost)
	p.Transmit(ms(50), &out, 10)
	require.Equal(t, "1|3|", contents(t, &out), "under the same ids, the reliable parts")
}

// Optimistic, repeated and invented acknowledgements.
func TestT5ForgedAcks(t *testing.T) {
	p, h := connectedPeer(t, testConfig())
	var out wire.Batch
	ids := sendFrames(t, p, 0, 5, Reliable)
	flight := p.Stats().InFlight
	p.Receive(1, AppendDataAck(nil, []uint32{ids[0] - 1, ids[4] + 1, 0, 1 << 31}), &out)
	require.Equal(t, flight, p.Stats().InFlight, "never sent")
	for range 3 {
		p.Receive(1, AppendDataAck(nil, []uint32{ids[1], ids[1], ids[1]}), &out)
		require.Equal(t, flight*4/5, p.Stats().InFlight, "counted once")
	}
	require.Empty(t, h.fates, "the first one is missing")
	p.Receive(1, AppendDataAck(nil, ids), &out)
	require.Zero(t, p.Stats().InFlight)
	require.Len(t, h.fates, 5)
}

func TestT8Sentinels(t *testing.T) {
	cfg := testConfig()
	cfg.SentinelFrames, cfg.SendFrames = 4, 8
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 1 << 20}
	ids := sendFrames(t, p, 0, 20, Unreliable)
	require.Len(t, ids, 8)
	sentinels := 0
	var out wire.Batch
	for now := ms(1); len(ids) < 20 || sentinels < 4; now += ms(10) {
		require.Less(t, now, ms(60_000), "loss of everything unreliable stalls nothing")
		p.Tick(now, &out)
		p.Transmit(now, &out, 20)
		for i := range out.Len() {
			if id, n, _, ok := ParseData(out.At(i)); ok && n == 0 {
				require.EqualValues(t, 3, id%4)
				require.Len(t, out.At(i), DataHeaderSize)
				sentinels++
				var ignored wire.Batch
				p.Receive(now, AppendDataAck(nil, []uint32{id}), &ignored)
			} else if ok {
				ids = append(ids, id)
			}
		}
		out.Reset()
	}
}

func TestT9ResendsFirst(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	control := &fixedController{window: 1 << 20}
	p.send.control = control
	sendFrames(t, p, 0, 6, Reliable)
	var out wire.Batch
	p.Receive(ms(50), AppendDataAck(nil, []uint32{2005}), &out) // 0, 1 and 2 are lost
	control.window = 3 * 1420
	p.Send(ms(50), 0, make([]byte, 1400), Reliable, 0)
	p.Transmit(ms(50), &out, 10)
	require.Equal(t, 1, out.Len(), "two are on their way")
	id, _, _, _ := ParseData(out.At(0))
	require.EqualValues(t, 2000, id, "from the front")
	out.Reset()
	control.window = 1 << 20
	p.Transmit(ms(50), &out, 10)
	for i, want := range []uint32{2001, 2002, 2006} {
		id, _, _, _ := ParseData(out.At(i))
		require.Equal(t, want, id, "new frames come last")
	}
}

func TestT10T16Timeout(t *testing.T) {
	cfg := testConfig()
	cfg.TimeoutOnly = true
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 1 << 20}
	sendFrames(t, p, 0, 6, Reliable)
	var out wire.Batch
	p.Receive(0, AppendDataAck(nil, []uint32{2005}), &out)
	rto := p.Stats().RTO
	p.Tick(rto-1, &out)
	require.Zero(t, p.send.queue.waits, "later acknowledgements do not count")
	at, _ := p.Next(rto - 1)
	require.Equal(t, rto, at)
	p.Tick(rto, &out)
	require.Equal(t, 5, p.send.queue.waits)
}

func TestT11ResetAfterSilence(t *testing.T) {
	for _, timeoutOnly := range []bool{false, true} {
		cfg := testConfig()
		cfg.TimeoutOnly = timeoutOnly
		if timeoutOnly {
			cfg.Controller = Paper
		}
		p, _ := connectedPeer(t, cfg)
		sendFrames(t, p, 0, 20, Reliable)
		start := p.Stats().Window
		var out wire.Batch
		for now := ms(0); now < 12*p.Stats().RTO; now += ms(5) {
			p.Tick(now, &out)
			p.Transmit(now, &out, 10)
		}
		require.LessOrEqual(t, p.Stats().Window, 2*cfg.MTU)
		if !timeoutOnly {
			require.Less(t, p.Stats().Window, start)
		}
	}
}

func TestT12Growth(t *testing.T) {
	c := newPaperController(MTU0)
	require.Equal(t, MTU0, c.Window(), "one MTU at first")
	c.SetRTT(100*time.Millisecond, 100_000)
	c.HandleAck(Ack{Bytes: 5000, Frames: 4})
	require.Equal(t, 5*MTU0, c.Window(), "for each frame")
	for range 100 {
		c.HandleAck(Ack{Bytes: 1000, Frames: 1})
	}
	require.Equal(t, 10_000, c.Window(), "W_max = B·T_avg")
	c.SetRTT(time.Millisecond, 100)
	require.Equal(t, MTU0, c.Window(), "at least one MTU")
}

func TestT14R4Pings(t *testing.T) {
	cfg := testConfig()
	p, _ := connectedPeer(t, cfg)
	p.lastPing = -cfg.PingInterval
	var out wire.Batch
	var pings []Clock
	for now := ms(0); now < ms(19_000); now += ms(10) {
		p.Tick(now, &out)
		for _, f := range frames(&out) {
			id, ok := ParsePing([]byte(f), TypePing)
			require.True(t, ok)
			pings = append(pings, now)
			if len(pings) < 3 {
				p.Receive(now+ms(5), AppendPing(nil, TypePingAck, id+1), &out)
				p.Receive(now+ms(5), AppendPing(nil, TypePingAck, id), &out)
			}
		}
	}
	require.Equal(t, []Clock{0, ms(5010), ms(10_020), ms(11_020)}, pings[:4], "one when idle, and each second while unanswered")
	require.Equal(t, ms(5), p.Stats().RTT)

	p, _ = connectedPeer(t, cfg)
	p.send.sample(ms(5))
	for now := ms(0); now < ms(10_000); now += ms(100) {
		p.Receive(now, AppendDataAck(nil, nil), &out)
		p.Tick(now, &out)
	}
	require.Empty(t, frames(&out), "none while the peer is heard")
}
