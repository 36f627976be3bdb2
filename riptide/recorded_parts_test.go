package riptide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"volley/internal/tape"
	"volley/internal/wire"
)

// TestRecordedParts plays with the parts of a connection, each by itself.
func TestRecordedParts(t *testing.T) {
	p := tape.Open(t, "parts", "What the parts of a connection do in the scenes of TestRecordedParts.")
	recordHistory(p.Scene("history"))
	recordQuality(p.Scene("quality"))
	recordTimes(p.Scene("times"))
	recordAcks(p.Scene("acks"))
	recordNotifier(p.Scene("notify"))
	recordParse(p.Scene("parse"))
	recordAppend(p.Scene("append"))
	recordNames(p.Scene("names"))
	recordStats(p.Scene("stats"))
	recordLobby(p.Scene("lobby"))
}

// Ids that come in order, with gaps, late, and from far away, around and around.
func recordHistory(s *tape.Scene) {
	rng := tape.Rand(1)
	for _, stride := range []int{1, 3, 40, 200, 5000, 40000} {
		var h history
		id := uint16(rng.Below(200))
		for range 400 {
			id += uint16(rng.Below(stride + 1))
			x := id - uint16(rng.Below(2)*rng.Below(stride*4+2))
			s.Note(int64(x), tape.Truth(h.has(x)))
			h.add(x)
			for range 4 {
				y := id + uint16(rng.Below(8*stride+64)) - uint16(rng.Below(16*stride+128))
				a := h.ack(y)
				s.Note(tape.Truth(h.has(y)), int64(a.newest), int64(a.bits), int64(a.id), tape.Truth(a.has))
			}
		}
		s.Phase("stride", "stride", stride, "newest", h.newest, "span", h.span, "bits", h.bits.Size())
	}
	for _, d := range []int{0, 1, -1, 32767, 32768, 32769, -32767, -32768, -32769, 65535, -65535} {
		for _, b := range []int{0, 1, 32767, 32768, 65535} {
			if a := b + d; a >= 0 && a <= 65535 {
				s.Note(int64(gap(uint16(a), uint16(b))))
			}
		}
	}
	s.Phase("gaps")
}

func recordQuality(s *tape.Scene) {
	rng := tape.Rand(2)
	for _, bad := range []int{0, 20, 60, 200, 700, 1000} {
		var q quality
		poor, lossy := 0, 0
		for range 400 {
			sends := 1
			if rng.Chance(bad) {
				sends += rng.Below(20) * rng.Below(30)
			}
			a, b := q.delivered(sends, 5), q.notified(!rng.Chance(bad), 0.05)
			s.Note(tape.Truth(a), tape.Truth(b), int64(math.Float64bits(q.meanSends())), int64(math.Float64bits(q.notifyLoss())))
			poor, lossy = poor+int(tape.Truth(a)), lossy+int(tape.Truth(b))
		}
		s.Phase("bad", "chance", bad, "poor", poor, "lossy", lossy, "sends", q.meanSends(), "loss", q.notifyLoss())
	}
}

func recordTimes(s *tape.Scene) {
	rng := tape.Rand(3)
	for _, most := range []int{3, 100, 40000} {
		r := newRoundTrip()
		var a ackTime
		now := start
		for range 500 {
			now = now.Add(time.Duration(rng.Below(int(50 * ms))))
			d := time.Duration(rng.Uint64()%uint64(most))*ms + time.Duration(rng.Below(int(ms))) - 500*time.Microsecond
			r.measured(toMillis(d))
			if rng.Chance(950) {
				a.measured(now, max(d, 0))
			} else {
				a.late(d)
			}
			s.Note(int64(r.last), int64(r.smooth), int64(a.smooth), int64(a.variance), int64(a.worst), int64(a.limit()), int64(fromMillis(r.smooth)))
		}
		s.Phase("times", "most", most, "rtt", r.smooth, "ack", a.smooth, "variance", a.variance, "limit", a.limit())
	}
}

func recordAcks(s *tape.Scene) {
	rng := tape.Rand(4)
	for _, stride := range []int{2, 20, 70, 30000} {
		var r ackRecord
		moves := 0
		newest := uint16(65000)
		for range 500 {
			newest += uint16(rng.Below(stride))
			a := ack{newest: newest - uint16(rng.Below(2)*rng.Below(40)), bits: uint16(rng.Uint64())}
			news, moved := r.update(a)
			moves += int(tape.Truth(moved))
			s.Note(int64(news), tape.Truth(moved), int64(r.newest))
		}
		s.Phase("stride", "stride", stride, "moves", moves)
	}
}

// A fateNote notes fates.
type fateNote struct{ *tape.Scene }

func (s fateNote) notifyFate(id uint16, delivered, known bool) {
	s.Note(int64(id), tape.Truth(delivered), tape.Truth(known))
}

func recordNotifier(s *tape.Scene) {
	rng := tape.Rand(5)
	var out wire.Batch
	for _, layout := range []layout{packed, notes} {
		var n notifier
		n.init()
		c := codec{layout: layout}
		for range 3000 {
			switch rng.Below(4) {
			case 0:
				for range rng.Below(30) {
					n.send(c, []byte{1, 2}, fateNote{s}, &out)
				}
			case 1:
				n.acked(ack{newest: n.reported + uint16(rng.Below(40)) - 5, bits: uint16(rng.Uint64() & 0xff)}, fateNote{s})
			default:
				id := n.newest + uint16(rng.Below(14)) - 4
				isNew := n.isNew(id)
				s.Note(tape.Truth(isNew))
				if isNew {
					n.received(id)
				}
			}
			s.Note(int64(n.next), int64(n.reported), int64(n.newest), int64(n.bits))
		}
		s.Phase("random", "delivered", n.fates.delivered, "lost", n.fates.lost, "beyond", n.fates.beyond)
		for range maxUnreported + 3 {
			n.send(c, nil, fateNote{s}, &out)
		}
		s.Phase("unreported", "delivered", n.fates.delivered, "lost", n.fates.lost, "beyond", n.fates.beyond)
		for i := range out.Len() {
			s.Data(out.At(i))
		}
		out.Reset()
		s.Phase("datagrams")
	}
}

// Datagrams of every type, of every length up to 10, and with any content.
func recordParse(s *tape.Scene) {
	rng := tape.Rand(6)
	for _, layout := range []layout{packed, notes} {
		for from := range side(2) {
			parsed := 0
			for first := range 256 {
				for n := range 11 {
					for range 3 {
						b := make([]byte, n)
						rng.Bytes(b)
						if n > 0 {
							b[0] = byte(first)
						}
						if n > 1 && rng.Chance(200) {
							b[1] = 5
						}
						p, ok := codec{layout: layout}.parse(from, b)
						if s.Note(tape.Truth(ok)); !ok {
							continue
						}
						parsed++
						s.Note(int64(p.typ), int64(p.reason), int64(p.pingID), int64(p.seq), int64(p.client), int64(p.rtt),
							int64(p.ack.newest), int64(p.ack.bits), int64(p.ack.id), tape.Truth(p.ack.has), tape.Truth(p.body == nil))
						s.Data(p.body)
					}
				}
			}
			s.Phase("parse", "layout", layout, "from", from, "parsed", parsed)
		}
	}
}

// Datagrams of all kinds with any content.
func recordAppend(s *tape.Scene) {
	rng := tape.Rand(7)
	var out wire.Batch
	for _, c := range []codec{{packed, false}, {packed, true}, {notes, false}} {
		for range 60 {
			body := make([]byte, rng.Below(20))
			rng.Bytes(body)
			v := uint16(rng.Uint64())
			a := ack{newest: v, bits: uint16(rng.Uint64()), id: uint16(rng.Uint64()), has: rng.Chance(500)}
			c.appendUnreliable(&out, body)
			c.appendReliable(&out, typeReliable+packetType(rng.Below(4)), v, body)
			c.appendNotify(&out, uint16(rng.Uint64()), a, body)
			id := c.idBody(v)
			c.appendReliable(&out, typeWelcome, 1, id[:c.idBodySize()])
			c.appendAck(&out, a)
			c.appendConnect(&out, body)
			c.appendReject(&out, rejectReason(rng.Below(7)), body)
			c.appendDisconnect(&out, endReason(rng.Below(9)), body)
			c.appendLeave(&out)
			c.appendHeartbeat(&out, side(rng.Below(2)), uint8(v), int16(rng.Uint64()))
		}
		for i := range out.Len() {
			s.Data(out.At(i))
		}
		s.Phase("append", "layout", c.layout, "version", versionName(c.v21), "datagrams", out.Len())
		out.Reset()
	}
}

func recordNames(s *tape.Scene) {
	for i := range 12 {
		mode := recordedMode(i)
		s.Phase("names", "layout", layout(i), "version", enumName("Version", i, "2.2", "2.1"), "mode", modeName(i),
			"reject", rejectReason(i), "disconnect", endReason(i),
			"valid", layout(i) <= notes, "valid", i < 2, "reliable", packetType(i).reliable(),
			"mode", modeOf(packetType(i)), "type", int(typeOf(mode)),
			"bits", packed.headerBits(mode), "bits", notes.headerBits(mode), "start", layout(i).bodyStart())
	}
}

func recordStats(s *tape.Scene) {
	var sum Stats
	for i := range uint64(3) {
		x := Stats{MessagesResent: i, Duplicates: i + 1, UnreliableDuplicates: i + 2, Late: i + 3, MessagesRefused: i + 4, PacketsInvalid: i + 5,
			MessagesDelivered: i + 6, NotifyDelivered: i + 7, NotifyLost: i + 8, NotifyUnknown: i + 9, LastRTT: 1, RTT: 2, Unacknowledged: 3}
		for m := range 3 {
			mode := recordedMode(m)
			x.MessagesSent[mode], x.BytesSent[mode] = i+10, 100*i
			x.MessagesReceived[mode], x.BytesReceived[mode] = 1, i*uint64(m)
		}
		sum.plus(&x)
	}
	traffic := func(messages, bytes [numModes]uint64) (v [3]struct{ Messages, Bytes uint64 }) {
		for m := range v {
			v[m].Messages, v[m].Bytes = messages[recordedMode(m)], bytes[recordedMode(m)]
		}
		return v
	}
	s.Phase("sum", "stats", fmt.Sprintf("{%v %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v}",
		traffic(sum.MessagesSent, sum.BytesSent), traffic(sum.MessagesReceived, sum.BytesReceived),
		sum.MessagesResent, sum.Duplicates, sum.UnreliableDuplicates, sum.Late, sum.MessagesRefused, sum.PacketsInvalid, sum.MessagesDelivered,
		sum.NotifyDelivered, sum.NotifyLost, sum.NotifyUnknown, sum.LastRTT, sum.RTT, sum.Unacknowledged, sum.QueuedBytes,
		sum.MeanSends, sum.NotifyLoss))
}

// Clients that come and go, in a lobby with few places.
func recordLobby(s *tape.Scene) {
	rng := tape.Rand(8)
	var l lobby
	l.init(6, 4)
	now := start
	for i := range uint64(600) {
		now = now.Add(time.Duration(rng.Below(int(200 * ms))))
		s.Note(tape.Truth(l.enter(&Peer{order: i})))
		for range 2 {
			there := l.all()
			slices.SortFunc(there, func(p, q *Peer) int { return cmp.Compare(p.order, q.order) })
			p := there[rng.Below(len(there))]
			s.Note(int64(p.order), int64(p.stage))
			switch {
			case p.stage == stagePending && rng.Chance(700):
				var ok bool
				p.id, ok = l.accept(p, now)
				s.Note(int64(p.id), tape.Truth(ok))
			case p.stage == stageAccepted && rng.Chance(500):
				l.connected(p)
			case rng.Chance(300) && len(there) > 1:
				was := l.left(p)
				if s.Note(int64(was), int64(p.stage)); was != stagePending {
					l.free(p.id)
				}
			}
		}
		if p := l.unanswered(now); p != nil {
			s.Note(int64(p.order))
		}
		s.Note(tape.Truth(l.full()), int64(len(l.pending[overDatagrams].peers)), int64(len(l.peers)), int64(len(l.called)), int64(len(l.freed)), int64(l.nextID))
		if i%150 == 149 {
			s.Phase("clients", "pending", len(l.pending[overDatagrams].peers), "there", len(l.peers), "called", len(l.called), "free", len(l.freed), "next", l.nextID)
		}
	}
}
