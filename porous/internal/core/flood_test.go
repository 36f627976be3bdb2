package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// A frame is its messages, one behind the other, those that are sent again
// first, whatever they are and however short the last ones.
func TestFrameOfAllKinds(t *testing.T) {
	ch := &sender{number: 3, fragmentSize: 100}
	packet := &outgoing{ch: ch, data: make([]byte, 130), id: 0xabcdef, lead: 0x1234, last: 1, hasID: true}
	for i := range packet.data {
		packet.data[i] = byte(i)
	}
	empty := &outgoing{ch: ch, id: 5, hasID: true}
	kinds := []part{
		{kind: MessageWindowAck, reliable: true, id: 0x010203, ch: ch},
		{kind: MessageSentinel, reliable: true, id: 0xfedcba, lead: 7, ch: ch},
		{kind: MessageFragment, reliable: true, fragment: 1, ch: ch, packet: packet},
		{kind: MessageFragment, fragment: 0, ch: ch, packet: packet},
		{kind: MessageFragment, ch: ch, packet: empty},
	}
	for n := range 5 * 5 * 5 * 5 {
		var q transfer
		q.init(9, 100, 100)
		id, f := q.add()
		for range 4 {
			f.parts = append(f.parts, kinds[n%5])
			n /= 5
		}
		q.seal(id, f)
		want := AppendDataHeader(nil, 9, 4)
		for _, reliable := range []bool{true, false} {
			for _, p := range f.parts {
				if p.reliable == reliable {
					want = appendPart(want, &p)
				}
			}
		}
		var out wire.Batch
		f.append(id, &out)
		require.Equal(t, want, out.At(0))
		_, _, _, ok := ParseData(want)
		require.True(t, ok)
	}
}

// takeRun takes what take would, one by one, and leaves what needs more thought.
func TestTakeRun(t *testing.T) {
	newSender := func() *sender {
		s := new(sender)
		s.init(0, 100, 60, 8)
		for i := range 200 {
			n := i % 90
			if i%25 == 24 {
				n = 250 // three fragments
			}
			o := &outgoing{ch: s, data: make([]byte, n), last: uint16(max(0, n-1) / 100), mode: Mode(i % 11 % 3)}
			if i%5 == 0 {
				o.expires = ms(9)
			}
			s.push(o)
		}
		s.mark, s.markDue = 77, true
		return s
	}
	one, many := newSender(), newSender()
	inRuns := 0
	for one.markDue || one.ready() {
		var a, b []byte
		room, left := 300, 300
		for (one.markDue || one.ready()) && one.nextSize() <= room {
			p := one.take()
			room -= p.size()
			a = appendPart(a, &p)
		}
		for (many.markDue || many.ready()) && many.nextSize() <= left {
			parts, after := many.takeRun(ms(8), nil, left)
			inRuns += len(parts)
			if after == left {
				parts = append(parts, many.take())
				after -= parts[0].size()
			}
			for i := range parts {
				b = appendPart(b, &parts[i])
			}
			left = after
		}
		require.Equal(t, a, b)
		require.Equal(t, room, left)
		one.base, many.base = one.next, many.next
	}
	require.False(t, many.ready())
	require.Nil(t, many.head)
	require.Greater(t, inRuns, 100)

	s := newSender()
	s.take()
	parts, _ := s.takeRun(ms(9), nil, 1000)
	require.Empty(t, parts, "the time of the first is over")
	require.False(t, s.head.hasID)
	s = newSender()
	s.take()
	s.base, s.next = 5, 60
	parts, _ = s.takeRun(0, nil, 1000)
	require.Len(t, parts, 5, "as far as the window reaches")
	require.False(t, s.open())
	s = newSender()
	s.take()
	s.base, s.next = 62, 62
	parts, _ = s.takeRun(0, nil, 1000)
	require.Len(t, parts, 2, "up to the one that a sentinel follows")
	require.True(t, s.hasMark)
}

func appendPart(b []byte, p *part) []byte {
	var m Message
	p.message(&m)
	return AppendMessage(b, &m)
}

// Held says whether more could leave if there were more, or what is waited for.
func TestHeld(t *testing.T) {
	cfg := testConfig()
	cfg.SendFrames = 8
	p, _ := connectedPeer(t, cfg)
	p.send.control = &fixedController{window: 3 * MTU0}
	require.Equal(t, NotHeld, p.Held(), "nothing was sent")
	ids := sendFrames(t, p, 0, 2, Reliable)
	require.Equal(t, NotHeld, p.Held(), "there is room for more")
	ids = append(ids, sendFrames(t, p, 0, 2, Reliable)...)
	require.Equal(t, HeldByPeer, p.Held(), "the window is full")
	var out wire.Batch
	p.Receive(0, AppendDataAck(nil, ids), &out)
	p.Transmit(0, &out, 10)
	require.Equal(t, NotHeld, p.Held())
	p.send.control = &fixedController{window: 1 << 20}
	sendFrames(t, p, 0, 10, Reliable)
	require.Equal(t, HeldByPeer, p.Held(), "the window of frame ids is full")

	p, _ = connectedPeer(t, testConfig())
	p.send.pace.credit = 1
	require.Len(t, sendFrames(t, p, 0, 5, Reliable), 1)
	require.Equal(t, HeldByTime, p.Held(), "what may leave at once has left")
	at, ok := p.Next(0)
	require.True(t, ok)
	require.Less(t, at, ms(50), "and there is a time")
}
