package core

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// TestRecordedEnds compares how connections begin and end with a recording, on
// links with loss, with options and without, and beside forged frames.
func TestRecordedEnds(t *testing.T) {
	f := openTrace(t, "ends")
	one, other := traceConfig(0, nil), traceConfig(0, nil)
	cases := []struct {
		name string
		a, b *Config
		play func(st *stage)
	}{
		{"both", one, other, sceneBoth},
		{"one asks", one, other, sceneOneAsks},
		{"eager", traceConfig(0, func(c *Config) { c.EagerRequest = true }), other, sceneOneAsks},
		{"accepted", traceConfig(0, func(c *Config) { c.EagerRequest = true }), other, sceneAccepted},
		{"versions", one, traceConfig(1, nil), sceneBoth},
		{"channels", one, traceConfig(0, func(c *Config) { c.Channels = 256 }), sceneBoth},
		{"bandwidths", traceConfig(0, func(c *Config) { c.ReceiveBandwidth = 30_000 }),
			traceConfig(0, func(c *Config) { c.SendBandwidth = 50_000; c.ReceiveBandwidth = 400_000 }), sceneBandwidths},
		{"bandwidths of tolerant ones", traceConfig(0, func(c *Config) { c.ReceiveBandwidth = 30_000; c.Controller = Tolerant }),
			traceConfig(0, func(c *Config) { c.ReceiveBandwidth = 60_000; c.Controller = Tolerant }), sceneBandwidths},
		{"bandwidths of the paper", traceConfig(0, func(c *Config) { c.ReceiveBandwidth = 30_000; c.Controller = Paper }),
			traceConfig(0, func(c *Config) { c.ReceiveBandwidth = 150_000; c.Controller = Paper }), sceneBandwidths},
		{"nobody", one, other, sceneNobody},
	}
	for i, c := range cases {
		for _, loss := range []float64{0, 0.5} {
			f.scene(t, fmt.Sprintf("beginning: %s, loss %v", c.name, loss), func(r *notebook) {
				c.play(r.play(uint64(i), c.a, c.b, lossy(loss, 0)))
			})
		}
	}
	for i := range 16 {
		for _, loss := range []float64{0, 0.25} {
			await, verify, flush, both := i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0
			name := fmt.Sprintf("end: await %v, verify %v, flush %v, both %v, loss %v", await, verify, flush, both, loss)
			f.scene(t, name, func(r *notebook) {
				c := traceConfig(0, func(c *Config) { c.AwaitAcks, c.VerifyDisconnect, c.AckRepeats = await, verify, i%3 })
				sceneEnd(r.play(uint64(100+i), c, c, lossy(loss, 2*time.Millisecond)), flush, both)
			})
		}
	}
	for _, verify := range []bool{false, true} {
		f.scene(t, fmt.Sprint("forged, verify ", verify), func(r *notebook) {
			c := traceConfig(0, func(c *Config) { narrow(c); c.VerifyDisconnect, c.AwaitAcks, c.MaxPacket = verify, verify, 5000 })
			sceneForged(r.play(200, c, c, lossy(0.05, 0)))
		})
	}
	f.scene(t, "aborts", func(r *notebook) { sceneAborts(r, one) })
}

func sceneBoth(st *stage) {
	st.a.step()
	st.b.step()
	st.phase("a moment", 60*time.Millisecond)
	st.phase("handshake", 3*time.Second)
	st.stream(st.a, 0, Reliable, 50*time.Millisecond, time.Second, 100)
	st.stream(st.b, 3, Reliable, 50*time.Millisecond, time.Second, 100)
	st.phase("stream", 2*time.Second)
	st.phase("rest", 50*time.Second)
}

func sceneOneAsks(st *stage) {
	st.send(st.a, 0, 10, Reliable, 0)
	st.send(st.a, 0, 10, Reliable, time.Millisecond)
	st.a.step()
	st.phase("a moment", 110*time.Millisecond)
	st.phase("handshake", 3*time.Second)
	st.b.step()
	st.phase("other", 30*time.Second)
}

func sceneAccepted(st *stage) {
	st.b.p.InitAccepted(st.now, st.b.p.cfg, 77, st.b)
	sceneOneAsks(st)
}

func sceneBandwidths(st *stage) {
	st.begin()
	st.bulk(st.a, 0, Reliable, 2*time.Second, 5000)
	st.bulk(st.b, 0, Reliable, 2*time.Second, 5000)
	st.phase("bulk", time.Second)
	st.phase("more", 2*time.Second)
	st.phase("rest", 2*time.Second)
	st.phase("silence", 8*time.Second)
	st.bulk(st.b, 0, Reliable, 500*time.Millisecond, 5000)
	st.phase("again", 2*time.Second)
}

func sceneNobody(st *stage) {
	st.a.link.dark = func(Clock) bool { return true }
	st.a.step()
	st.send(st.a, 0, 10, Reliable, 0)
	st.phase("requests", 5*time.Second)
	st.phase("unanswered", 60*time.Second)
}

// sceneEnd ends a connection while there is something under way in both
// directions.
func sceneEnd(st *stage, flush, both bool) {
	st.begin()
	st.stream(st.a, 0, Reliable, 10*time.Millisecond, time.Second, 300, 4000)
	st.stream(st.b, 1, Passive, 10*time.Millisecond, time.Second, 300)
	st.stream(st.b, 2, Reliable, 30*time.Millisecond, 700*time.Millisecond, 300)
	st.phase("streams", time.Second)
	st.a.p.Disconnect(st.now, flush)
	st.a.step()
	if both {
		st.run(5 * time.Millisecond)
		st.b.p.Disconnect(st.now, true)
		st.b.step()
	}
	st.phase("a moment", 80*time.Millisecond)
	st.phase("soon", time.Second)
	st.send(st.a, 0, 10, Reliable, 0)
	st.b.other.link.send(st.sim, st.b, []byte{byte(TypeDisconnect)})
	st.phase("later", 15*time.Second)
	st.phase("over", 60*time.Second)
}

// sceneForged is a stream beside frames that somebody forges.
func sceneForged(st *stage) {
	st.begin()
	st.stream(st.a, 0, Reliable, 10*time.Millisecond, 3*time.Second, 300, 3000)
	st.stream(st.b, 1, Passive, 10*time.Millisecond, 3*time.Second, 300, 3000)
	for i, f := range []func() []byte{st.forgeShort, st.forgeData, st.forgeAck} {
		st.every(5*time.Millisecond, 500*time.Millisecond, func(int) {
			b := f()
			st.notes.note('f', b)
			st.b.p.Receive(st.now, b, &st.out)
			st.b.p.EndBatch(st.now, &st.out)
			st.b.flush()
		})
		st.phase(fmt.Sprint("forgery ", i+1), 700*time.Millisecond)
	}
	st.stream(st.a, 0, Reliable, 100*time.Millisecond, 3*time.Second, 20)
	for range 4 {
		st.run(200 * time.Millisecond)
		st.b.p.Receive(st.now, []byte{byte(TypeDisconnect)}, &st.out)
		st.b.flush()
		st.phase("disconnect", 150*time.Millisecond)
	}
	st.phase("rest", 40*time.Second)
}

// forgeShort returns a frame of the handshake, a ping, or none.
func (st *stage) forgeShort() []byte {
	b := make([]byte, st.rand.IntN(14))
	for i := range b {
		b[i] = byte(st.rand.IntN(256))
	}
	if len(b) > 0 {
		b[0] %= 9
		if b[0] == byte(TypeDisconnect) {
			b[0] = byte(TypePing)
		}
	}
	switch st.rand.IntN(8) {
	case 0:
		return AppendPing(nil, TypePingAck, st.b.p.pingID-uint16(st.rand.IntN(4)))
	case 1:
		return AppendPing(nil, TypePing, uint16(st.rand.IntN(3)))
	case 2:
		return AppendConnect(nil, Connect{0, 4, uint32(st.rand.IntN(1 << 20)), uint32(st.rand.IntN(100))})
	case 3:
		return AppendConnect(nil, Connect{1, 4, 1000, 1})
	case 4:
		return AppendConnectAck(nil, st.b.p.ownID^uint32(st.rand.IntN(2)))
	}
	return b
}

// forgeData returns a data frame that might be of the peer.
func (st *stage) forgeData() []byte {
	r := &st.b.p.recv
	n := st.rand.IntN(4)
	id := r.window.next + uint32(st.rand.IntN(300)) - 150
	b := AppendDataHeader(nil, id, n)
	for range n {
		base := uint32(0)
		if c := r.channel(st.rand.IntN(4)); c != nil {
			base = c.base
		}
		m := Message{Type: MessageType(st.rand.IntN(3)), Channel: uint8(st.rand.IntN(5)), Packet: (base + uint32(st.rand.IntN(100)) - 20) & (packetIDs - 1),
			Lead: uint16(st.rand.IntN(5)), Fragment: uint16(st.rand.IntN(3)), Last: uint16(st.rand.IntN(5))}
		m.Data = make([]byte, []int{0, 10, 100, 1452, 400}[st.rand.IntN(5)])
		if m.Type != MessageFragment || len(b)+m.Size() > MTU0 {
			m.Data = nil
		}
		b = AppendMessage(b, &m)
	}
	if st.rand.IntN(10) == 0 {
		b = b[:len(b)-1]
	}
	if st.rand.IntN(10) == 0 {
		b = append(b, 0)
	}
	return b
}

// forgeAck returns acknowledgements of frames that are in flight or may be.
func (st *stage) forgeAck() []byte {
	q := &st.b.p.send.queue
	var ids []uint32
	for range st.rand.IntN(4) {
		ids = append(ids, q.base+uint32(st.rand.IntN(20))-6)
	}
	b := AppendDataAck(nil, ids)
	if st.rand.IntN(10) == 0 {
		binary.BigEndian.PutUint16(b[1:], uint16(len(ids)+1))
	}
	return b
}

// sceneAborts ends connections at once, in each state.
func sceneAborts(r *notebook, c *Config) {
	for i := range 5 {
		st := r.play(uint64(300+i), c, c, traceLink)
		st.a.step()
		if i > 0 {
			st.b.step()
			st.run(time.Duration(i) * 30 * time.Millisecond)
		}
		st.stream(st.a, 0, Reliable, time.Millisecond, 10*time.Millisecond, 3000)
		st.run(20 * time.Millisecond)
		if i == 4 {
			st.a.p.Disconnect(st.now, false)
			st.a.step()
		}
		st.a.p.Abort(st.now, &st.out, false)
		st.a.flush()
		st.a.transmit()
		st.phase(fmt.Sprint("aborted ", i), time.Second)
		st.phase("over", 40*time.Second)
	}
	st := r.play(310, c, c, traceLink)
	st.a.step()
	st.a.p.Disconnect(st.now, false)
	st.a.step()
	st.phase("disconnect before the beginning", 40*time.Second)
	st.b.p.Receive(st.now, []byte{byte(TypeDisconnect)}, &st.out)
	st.b.flush()
	st.phase("and of the other", 40*time.Second)
}
