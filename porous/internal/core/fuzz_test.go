package core

import (
	"bytes"
	"testing"

	"volley/internal/wire"
)

// FuzzFrame parses and appends again; what is accepted comes out as it was.
func FuzzFrame(f *testing.F) {
	f.Add(AppendConnect(nil, Connect{0, 2, 1 << 20, 77}))
	f.Add(AppendConnectAck(nil, 77))
	f.Add([]byte{2})
	f.Add([]byte{3})
	f.Add(AppendPing(nil, TypePing, 5))
	f.Add(AppendDataAck(nil, []uint32{1, 2}))
	b := AppendMessage(AppendDataHeader(nil, 9, 3), &Message{Packet: 5, Lead: 1, Fragment: 1, Last: 2, Data: []byte("data")})
	b = AppendMessage(b, &Message{Type: MessageSentinel, Packet: 6})
	f.Add(AppendMessage(b, &Message{Type: MessageWindowAck, Packet: 7}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if again, ok := parseFrame(b); ok && !bytes.Equal(again, b) {
			t.Fatalf("%x came out as %x", b, again)
		}
	})
}

// FuzzPeer gives a connected peer datagrams, time and packets to send.
func FuzzPeer(f *testing.F) {
	f.Add([]byte{23, 6, 0, 0, 3, 232, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3, 200, 201, 202}, uint32(0))
	f.Add([]byte{7, 7, 0, 1, 0, 0, 7, 208, 210, 7, 7, 0, 1, 0, 0, 7, 209}, uint32(1))
	f.Add([]byte{1, 2, 230, 255}, uint32(2))
	f.Add([]byte{230, 231, 203, 1, 2, 240, 7, 7, 0, 1, 0, 0, 7, 208, 200, 255}, uint32(4+8*20))
	f.Add([]byte{221, 222, 201, 240, 223, 7, 7, 0, 1, 0, 0, 7, 208, 202, 224, 225, 255, 210}, uint32(1<<8+1<<10))
	f.Fuzz(func(t *testing.T, script []byte, kind uint32) {
		cfg := testConfig()
		cfg.ReceiveBuffer, cfg.SendBuffer = 128<<10, 64<<10
		cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = 256, 16, 16
		cfg.TimeoutOnly, cfg.VerifyDisconnect, cfg.AwaitAcks = kind&1 != 0, kind&2 != 0, kind&4 != 0
		cfg.LowShare = int(kind >> 3 & 31)
		cfg.Redundancy, cfg.AckRepeats = kind>>8&1 != 0, int(kind>>9&1)*2
		cfg.Controller = []ControllerKind{Cubic, Tolerant, Paper, Cubic}[kind>>10&3]
		life := Clock(kind>>12&3) * ms(150) // of packets; 0: no limit
		p, h := connectedPeer(t, cfg)
		if kind>>14&1 != 0 {
			h.unread = map[int]int{1: 0} // nobody reads channel 1
		}
		p.SetPriority(1, kind>>15&1 != 0)
		var out wire.Batch
		now := Clock(0)
		sent := 0
		for len(script) > 0 {
			n := int(script[0])
			script = script[1:]
			switch {
			case n >= 240:
				now += ms(100 * (n - 239))
				p.Tick(now, &out)
			case n >= 220:
				var expires Clock
				if life > 0 {
					expires = now + life
				}
				if _, ok := p.Send(now, n%2, make([]byte, n*n%5000), Mode(n%3), expires); ok {
					sent++
				}
			case n >= 200:
				p.EndBatch(now, &out)
				p.Transmit(now, &out, n-199)
			default:
				n = min(n, len(script))
				p.Receive(now, script[:n], &out)
				script = script[n:]
			}
			for i := range out.Len() {
				if b := out.At(i); len(b) > cfg.MTU {
					t.Fatalf("a frame of %d bytes", len(b))
				} else if _, ok := parseFrame(b); !ok {
					t.Fatalf("sent %x, which is no frame", b)
				}
			}
			out.Reset()
			p.Next(now)
			if p.recv.held < 0 || p.send.queued < 0 || p.send.queue.flight < 0 || p.send.queue.waiting < 0 {
				t.Fatalf("accounts below zero: %+v", p.Stats())
			}
			_, unread := h.Unread(0)
			bounded(t, p, unread)
		}
		p.Abort(now, &out, false)
		if len(h.fates) != sent {
			t.Fatalf("%d fates of %d packets", len(h.fates), sent)
		}
		if p.recv.held != 0 || p.send.queued != 0 {
			t.Fatalf("%d and %d bytes are left", p.recv.held, p.send.queued)
		}
	})
}
