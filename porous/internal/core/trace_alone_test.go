package core

import (
	"fmt"
	"testing"
	"time"
)

// TestRecordedAlone compares one peer with a recording whose other side does what
// chance says: acknowledges anything at any time or nothing, moves windows, and
// sends messages in any order.
func TestRecordedAlone(t *testing.T) {
	f := openTrace(t, "alone")
	for i := range 12 {
		f.scene(t, fmt.Sprint("sender ", i+1), func(r *notebook) {
			c := traceConfig(0, func(c *Config) {
				if narrow(c); i%2 == 0 {
					c.SendFrames = 16
				}
				c.Controller, c.Redundancy, c.LowShare = ControllerKind(i%3), i%4 > 1, i*10
				c.TimeoutOnly, c.Channels, c.AckRepeats = i%6 == 5, 1+i%4, i%3
				c.SendBuffer = 60_000
				c.AwaitAcks, c.VerifyDisconnect = i&1 != 0, i&2 != 0
			})
			sceneSender(r.play(uint64(i), c, c, simLink{}), i)
		})
		f.scene(t, fmt.Sprint("receiver ", i+1), func(r *notebook) {
			budget := 30_000 + i*20_000
			c := traceConfig(uint8(i%2), func(c *Config) {
				narrow(c)
				if i%3 == 0 {
					c.Packets, c.ReceiveGroup = 600, 100 // three pages
				}
				c.Channels, c.AckRepeats, c.MaxPacket, c.ReceiveBuffer = 1+i%3, i%3, 6000, 30_000+i*10_000
				if i%2 == 1 {
					c.Reserve = func(delta, _ int) bool {
						ok := delta <= budget
						if ok {
							budget -= delta
						}
						r.note('m', nil, int64(delta), truth(ok))
						return ok
					}
				}
			})
			sceneReceiver(r.play(uint64(i), c, c, simLink{}))
		})
	}
	for i := range 3 {
		f.scene(t, fmt.Sprint("many frames in a batch, repeats ", i), func(r *notebook) {
			c := traceConfig(uint8(i%2), func(c *Config) { c.AckRepeats = i })
			sceneManyAcks(r.play(uint64(i), c, c, simLink{}))
		})
	}
}

// sceneManyAcks is batches of up to hundreds of frames, in any order and twice.
func sceneManyAcks(st *stage) {
	p := st.alone()
	id := p.ownID
	for _, n := range []uint32{1, 31, 2, 32, 33, 34, 299, 300, 366, 367, 368, 700, 1, 1, 2, 40, 3} {
		for range n + n/4 {
			p.Receive(st.now, AppendDataHeader(nil, id+uint32(st.rand.IntN(int(n))), 0), &st.out)
		}
		id += n
		if n == 40 {
			p.requestEnd(st.now, &st.out)
		}
		p.EndBatch(st.now, &st.out)
		st.a.flush()
		st.notes.step(st.a, 0, true)
	}
	st.notes.phase("batches", st.now, p)
}

// alone connects a with nobody.
func (st *stage) alone() *Peer {
	p := &st.a.p
	st.a.link.dark = func(Clock) bool { return true }
	p.Receive(0, AppendConnect(nil, Connect{p.cfg.Version, p.cfg.Channels, 200_000, ^uint32(99)}), &st.out)
	p.Receive(0, AppendConnectAck(nil, p.ownID), &st.out)
	st.a.flush()
	return p
}

// give has a receive a frame, and ends the batch now and then.
func (st *stage) give(b []byte) {
	st.a.p.Receive(st.now, b, &st.out)
	if st.rand.IntN(3) > 0 {
		st.a.p.EndBatch(st.now, &st.out)
	}
	st.a.flush()
}

func sceneSender(st *stage, i int) {
	p := st.alone()
	for phase, acked := range []float64{0.9, 0.5, 0.05, 0.7, 0, 0.9} {
		for range 250 {
			st.now += time.Duration(st.rand.IntN(8)) * time.Millisecond
			if st.rand.IntN(60) == 0 {
				st.now += time.Duration(st.rand.IntN(1200)) * time.Millisecond
			}
			st.act(p, acked, phase)
			at, ok := p.Next(st.now)
			st.notes.step(st.a, at, ok)
		}
		st.notes.phase(fmt.Sprint("acknowledged ", acked), st.now, p)
	}
	p.Disconnect(st.now, i%2 == 0)
	st.a.wakeAt = -1
	st.a.step()
	st.events = nil
	for range 30 {
		st.now += time.Duration(st.rand.IntN(1000)) * time.Millisecond
		st.act(p, 0.9, 0)
		at, ok := p.Next(st.now)
		st.notes.step(st.a, at, ok)
	}
	st.notes.phase("end", st.now, p)
}

// act is one random thing that happens to a peer that sends.
func (st *stage) act(p *Peer, acked float64, phase int) {
	switch st.rand.IntN(12) {
	case 0, 1, 2, 3:
		if phase%2 == 1 && st.rand.IntN(3) > 0 {
			break
		}
		var expires Clock
		if st.rand.IntN(4) == 0 {
			expires = st.now + time.Duration(st.rand.IntN(300))*time.Millisecond
		}
		size := []int{0, 20, 100, 399, 400, 401, 1000, 1452, 3000, 20_000}[st.rand.IntN(10)]
		st.send(st.a, st.rand.IntN(p.cfg.Channels), size, Mode(st.rand.IntN(3)), expires)
	case 4, 5:
		p.Transmit(st.now, &st.out, 1+st.rand.IntN(3))
	case 6:
		p.Transmit(st.now, &st.out, 64)
	case 7, 8:
		var ids []uint32
		q := &p.send.queue
		for id := q.base; id != q.next; id++ {
			if st.rand.Float64() < acked/2 {
				ids = append(ids, id)
			}
		}
		if st.rand.IntN(5) == 0 {
			ids = append(ids, q.next+uint32(st.rand.IntN(3)), q.base-1)
		}
		st.give(AppendDataAck(nil, ids))
	case 9:
		n := st.rand.IntN(p.cfg.Channels)
		if s := p.send.channel(n); acked > 0 {
			id := (s.base + uint32(st.rand.IntN(2+int(packetLead(s.next, s.base))))) & (packetIDs - 1)
			st.give(AppendMessage(AppendDataHeader(nil, p.recv.window.next, 1), &Message{Type: MessageWindowAck, Channel: uint8(n), Packet: id}))
		}
	case 10:
		p.Tick(st.now, &st.out)
	case 11:
		switch st.rand.IntN(3) {
		case 0:
			p.SetPriority(st.rand.IntN(p.cfg.Channels), st.rand.IntN(2) == 0)
		case 1:
			st.give(AppendPing(nil, TypePingAck, p.pingID-uint16(st.rand.IntN(2))))
		default:
			st.give(AppendPing(nil, TypePing, uint16(st.counter)))
		}
	}
	st.a.flush()
}

// An origin makes the messages of a channel as a sender does.
type origin struct {
	number         uint8
	next, reliable uint32
	any            bool
	waiting        []Message
}

// add makes a packet of a size.
func (o *origin) add(st *stage, size int) {
	mode := Mode(st.rand.IntN(3))
	id, lead := o.next, uint16(0)
	o.next = nextPacket(o.next)
	if d := packetLead(id, o.reliable); o.any && d < 64 {
		lead = uint16(d)
	}
	if mode == Reliable {
		o.reliable, o.any = id, true
	}
	data, piece := st.payload(size), FragmentSize(st.a.p.cfg.MTU)
	last := uint16(max(0, size-1) / piece)
	for i := uint16(0); i <= last; i++ {
		n := min(piece, len(data))
		o.waiting = append(o.waiting, Message{Channel: o.number, Packet: id, Lead: lead, Fragment: i, Last: last, Data: data[:n]})
		data = data[n:]
	}
	if closes(id, 8) && mode != Reliable {
		o.waiting = append(o.waiting, Message{Type: MessageSentinel, Channel: o.number, Packet: id, Lead: lead})
	}
	if mode == Unreliable && st.rand.IntN(3) == 0 {
		o.waiting = o.waiting[:len(o.waiting)-1] // lost
	}
}

func sceneReceiver(st *stage) {
	p := st.alone()
	list := make([]*origin, p.cfg.Channels)
	for i := range list {
		list[i] = &origin{number: uint8(i), next: packetIDs - 200}
		c := p.recv.channel(i)
		c.base = list[i].next
	}
	id := p.ownID
	for _, disorder := range []int{1, 5, 20, 60, 3} {
		if disorder == 60 {
			st.a.unread[0] = 0
		}
		for range 250 {
			st.now += time.Duration(st.rand.IntN(20)) * time.Millisecond
			o := list[st.rand.IntN(len(list))]
			r := p.recv.channel(int(o.number))
			for len(o.waiting) < 30 && packetLead(o.next, r.base) < r.window {
				o.add(st, []int{0, 10, 64, 65, 256, 500, 737, 1452, 2000, 6000, 7000}[st.rand.IntN(11)])
			}
			before := p.stats.Refused
			b, rest := st.pack(id, o, disorder)
			st.give(b)
			if p.stats.Refused == before {
				o.waiting = rest
				id++
			} else if st.rand.IntN(20) == 0 {
				st.now += time.Duration(st.rand.IntN(4)) * time.Second
			}
			p.Transmit(st.now, &st.out, 2)
			st.a.flush()
			st.notes.step(st.a, 0, true)
		}
		delete(st.a.unread, 0)
		st.now += time.Second
		p.EndBatch(st.now, &st.out)
		st.a.flush()
		st.notes.phase(fmt.Sprint("disorder ", disorder), st.now, p)
	}
	p.Compact()
	p.Abort(st.now, &st.out, false)
	st.a.flush()
	st.notes.step(st.a, 0, true)
	st.notes.phase("end", st.now, p)
}

// wrong returns a message that is out of the window, or contradicts what is there.
func (st *stage) wrong(o *origin) Message {
	r := st.a.p.recv.channel(int(o.number))
	m := Message{Type: MessageType(st.rand.IntN(2)), Channel: o.number, Packet: r.base - 1 - uint32(st.rand.IntN(20)), Last: uint16(st.rand.IntN(2))}
	switch st.rand.IntN(5) {
	case 0:
		m.Packet = r.base + r.window + uint32(st.rand.IntN(20))
	case 3:
		m.Channel = uint8(st.a.p.cfg.Channels + st.rand.IntN(2))
	case 1:
		m.Packet = r.base
		if e := r.find(markThere, r.base); e != nil {
			m.Packet, m.Lead, m.Last = e.id, e.lead, e.last
		}
		switch st.rand.IntN(4) {
		case 0:
			m.Lead++
		case 1:
			m.Last++
		case 2:
			m.Fragment = m.Last + 1
		default:
			m.Type, m.Last, m.Data = MessageFragment, 0, make([]byte, 1453)
		}
		if r.find(markThere, r.base) == nil {
			m.Packet--
		}
	case 2:
		m.Type, m.Packet, m.Last = MessageFragment, r.base, uint16(4+st.rand.IntN(3))
		m.Fragment, m.Data = m.Last, make([]byte, 300)
		if r.get(m.Packet) == nil && int(m.Last)*r.fragmentSize < r.maxPacket {
			m.Packet--
		}
	}
	m.Packet &= packetIDs - 1
	return m
}

// pack puts some of the messages that wait into a frame, in disorder, and returns
// what is left. One may be there twice, or wrong.
func (st *stage) pack(id uint32, o *origin, disorder int) (b []byte, rest []Message) {
	rest = append(rest, o.waiting...)
	var out []Message
	size := DataHeaderSize
	for range 1 + st.rand.IntN(4) {
		if len(rest) == 0 {
			break
		}
		i := st.rand.IntN(min(disorder, len(rest)))
		if size += rest[i].Size(); size > st.a.p.cfg.MTU {
			size -= rest[i].Size()
			break
		}
		out = append(out, rest[i])
		if st.rand.IntN(20) > 0 {
			rest = append(rest[:i], rest[i+1:]...)
		}
	}
	if m := st.wrong(o); st.rand.IntN(4) == 0 && size+m.Size() <= st.a.p.cfg.MTU {
		i := st.rand.IntN(len(out) + 1)
		out = append(out[:i], append([]Message{m}, out[i:]...)...)
	}
	b = AppendDataHeader(nil, id, len(out))
	for i := range out {
		b = AppendMessage(b, &out[i])
	}
	return b, rest
}
