package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// smallWindows returns a Config whose channels have windows of 64 packets, so that
// their acknowledgements matter soon.
func smallWindows() *Config {
	cfg := simConfig()
	cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = 64, 8, 8
	return cfg
}

// A side whose channel of high priority has always something to send keeps back
// nothing that the other direction waits for.
func TestHighPriorityDoesNotStarveTheOtherDirection(t *testing.T) {
	s := newSim(1, smallWindows(), smallWindows(), theLink(0.01))
	s.connect(t)
	s.a.p.SetPriority(1, true)
	high := &feed{n: s.a, channel: 1, size: 1000, total: 1 << 30}
	high.keepFull()
	low := &feed{n: s.b, size: 10, total: 2000}
	low.keepFull()
	s.until(t, time.Minute, func() bool { return len(s.a.packets) == low.total })
	require.NotZero(t, s.a.p.send.schedule.active[1], "the channel of high priority is as busy as before")
}

// A program that writes and never reads can go on writing, though its receive
// buffer has been full for long and everything that needs room is refused.
func TestWritingWithoutReadingGoesOn(t *testing.T) {
	cfg := smallWindows()
	cfg.ReceiveBuffer = 256 << 10
	for name, channel := range map[string]int{"one channel": 0, "two channels": 1} {
		t.Run(name, func(t *testing.T) {
			s := newSim(1, cfg, cfg, simLink{delay: 10 * time.Millisecond})
			s.connect(t)
			s.a.unread = map[int]int{channel: 0}
			back := &feed{n: s.b, channel: channel, size: 1000, total: 1 << 30}
			back.keepFull()
			s.run(20 * time.Second)
			require.NotZero(t, s.a.p.stats.Refused)
			f := &feed{n: s.a, size: 10, total: 2000}
			f.keepFull()
			s.until(t, time.Minute, func() bool { return len(s.b.packets) == f.total })
		})
	}
}

// A refused frame is not acknowledged; what is in it for windows counts.
func TestRefusedFramesMoveWindows(t *testing.T) {
	cfg := testConfig()
	cfg.Reserve = func(int, int) bool { return false }
	p, _ := connectedPeer(t, cfg)
	sendFrames(t, p, 0, 4, Reliable)
	b := AppendMessage(AppendDataHeader(nil, 1000, 3), &Message{Packet: 3, Lead: 3, Data: make([]byte, 1000)})
	b = AppendMessage(b, &Message{Type: MessageWindowAck, Packet: 2})
	b = AppendMessage(b, &Message{Type: MessageWindowAck, Channel: 200, Packet: 2})
	var out wire.Batch
	p.Receive(0, b, &out)
	p.EndBatch(0, &out)
	require.EqualValues(t, 1, p.stats.Refused)
	require.Zero(t, out.Len())
	require.EqualValues(t, 3, p.send.channels[0].base)
}

// Where data has to wait, for a congestion window or for frames that are sent again,
// window acknowledgements leave alone; else they share a frame with data.
func TestWindowAcksWaitForNoData(t *testing.T) {
	for name, test := range map[string]struct {
		window int
		lost   bool
		want   string
	}{
		"there is room":       {window: 1 << 20, want: "0:ack 1:ack 0:data|"},
		"no room":             {window: 1, want: "0:ack 1:ack|"},
		"frames are resent":   {window: 1 << 20, lost: true, want: "0:ack 1:ack|0:data|0:data|"},
		"they wait for room":  {window: 1, lost: true, want: "0:ack 1:ack|"},
		"a channel is choked": {window: 1 << 20, want: "0:ack 1:ack|0:data|"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := connectedPeer(t, testConfig())
			p.send.sample(ms(50))
			p.send.control = &fixedController{window: 1 << 20}
			ids := sendFrames(t, p, 0, 5, Reliable)
			var out wire.Batch
			if test.lost {
				p.Receive(ms(50), AppendDataAck(nil, ids[1:]), &out)
				require.Equal(t, 1, p.send.queue.waits)
			}
			p.send.control = &fixedController{window: test.window}
			if name == "a channel is choked" {
				p.send.channels[0].trust.level = choked
			}
			p.Send(ms(50), 0, []byte("data"), Reliable, 0)
			p.send.mark(0, 7)
			p.send.mark(1, 7)
			out.Reset()
			p.Transmit(ms(50), &out, 10)
			require.Equal(t, test.want, kinds(t, &out))
			out.Reset()
			p.Transmit(ms(50), &out, 10)
			require.Zero(t, out.Len())
		})
	}
}

// kinds returns what the data frames of a batch consist of.
func kinds(t *testing.T, out *wire.Batch) (s string) {
	for i := range out.Len() {
		_, n, body, ok := ParseData(out.At(i))
		if !ok {
			continue
		}
		for j := range n {
			var m Message
			m, body, _ = NextMessage(body)
			if j > 0 {
				s += " "
			}
			s += string('0'+rune(m.Channel)) + map[MessageType]string{MessageFragment: ":data", MessageWindowAck: ":ack"}[m.Type]
		}
		s += "|"
	}
	return s
}

// Window acknowledgements that were in the frames of a channel whose messages are
// taken back leave at once, and not when that channel is tried again.
func TestTakenBackWindowAcksLeaveAtOnce(t *testing.T) {
	p, _ := connectedPeer(t, testConfig())
	p.send.control = &fixedController{window: 1 << 20}
	p.send.mark(0, 7)
	sendFrames(t, p, 0, 1, Reliable)
	ch := p.send.channels[0]
	ch.trust = trust{level: choked, wait: time.Second, probeAt: ms(1000)}
	id, f := p.send.queue.oldest()
	require.True(t, p.send.suspect(0, id, f, ms(50), 1))
	require.Len(t, ch.back, 1, "the message waits")
	var out wire.Batch
	p.Transmit(0, &out, 10)
	require.Equal(t, "0:ack||", kinds(t, &out), "and the emptied frame")
}

// T2: no frame leaves outside the window of frame ids, whatever is in it.
func TestWindowAcksKeepToTheWindowOfFrames(t *testing.T) {
	cfg := testConfig()
	cfg.SendFrames = 4
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 4 * MTU0}
	ids := sendFrames(t, p, 0, 4, Reliable)
	p.send.control = &fixedController{window: 1}
	p.send.mark(0, 7)
	var out wire.Batch
	p.Transmit(0, &out, 10)
	require.Zero(t, out.Len())
	p.Receive(0, AppendDataAck(nil, ids[:1]), &out)
	p.Transmit(0, &out, 10)
	require.Equal(t, "0:ack|", kinds(t, &out))
}
