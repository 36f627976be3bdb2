package riptide

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"volley/internal/wire"
)

// A recorder is told of events and keeps them.
type recorder struct {
	messages  []string // mode and body of user messages
	ids       []uint16 // reliable messages delivered
	fates     []fate
	log       []string
	requests  []string
	refuse    bool
	connectID uint16
	end       endReason
	rejected  rejectReason
	data      []byte
	ends      int
}

type fate struct {
	id               uint16
	delivered, known bool
}

func (r *recorder) received(m Mode, body []byte) bool {
	if !r.refuse {
		r.messages = append(r.messages, string(rune(m))+string(body))
	}
	return !r.refuse
}
func (r *recorder) delivered(id uint16) { r.ids = append(r.ids, id) }
func (r *recorder) connected(id uint16) { r.connectID = id; r.log = append(r.log, "connected") }
func (r *recorder) request(data []byte) { r.requests = append(r.requests, string(data)) }
func (r *recorder) client(id uint16, here bool) bool {
	if !r.refuse {
		r.log = append(r.log, map[bool]string{true: "client connected", false: "client disconnected"}[here])
	}
	return !r.refuse
}
func (r *recorder) notifyFate(id uint16, delivered, known bool) {
	r.fates = append(r.fates, fate{id, delivered, known})
}
func (r *recorder) ended(reason endReason, rejected rejectReason, data []byte) {
	r.ends++
	r.end, r.rejected, r.data = reason, rejected, slices.Clone(data)
	r.log = append(r.log, "ended: "+reason.String())
}

// start is a time to begin tests with.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newConnected returns a connected connection that has neither sent nor
// received anything.
func newConnected(t testing.TB, cfg *Config, s side) (*connection, *recorder) {
	set, err := newSettings(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c, r := new(connection), new(recorder)
	c.init(set, s, start, r)
	c.state, c.asked = stateConnected, true
	c.beat = start.Add(time.Hour)
	return c, r
}

type datagramCase struct {
	Name, Direction, Type string
	Fields                struct {
		Offset       *int   `json:"payload_bit_offset"`
		PingID       uint8  `json:"ping_id"`
		RTT          int16  `json:"rtt"`
		Sequence     uint16 `json:"sequence"`
		ClientID     uint16 `json:"client_id"`
		Reason       uint8  `json:"reason"`
		MessageID    uint16 `json:"message_id"`
		LastReceived uint16 `json:"last_received"`
		AckBits      uint16 `json:"ack_bits"`
		HasExplicit  bool   `json:"has_explicit"`
		Explicit     uint16 `json:"trailing_or_explicit"`
		AckLast      uint16 `json:"ack_last_received"`
	}
	Hex hexBytes
}

var typeNames = map[string]packetType{
	"unreliable": typeUnreliable, "ack": typeAck, "connect": typeConnect, "reject": typeReject,
	"heartbeat": typeHeartbeat, "disconnect": typeDisconnect, "notify": typeNotify, "reliable": typeReliable,
	"welcome": typeWelcome, "client_connected": typeClientConnected, "client_disconnected": typeClientDisconnected,
}

// testDatagrams parses every kind of datagram, compares what it says, and
// appends it again.
func testDatagrams(t *testing.T, v21 bool, data []byte) {
	for _, c := range decodeFile[datagramCase](t, data) {
		t.Run(c.Name, func(t *testing.T) {
			from := clientSide
			if c.Direction == "s2c" {
				from = serverSide
			}
			p, ok := codec{packed, v21}.parse(from, c.Hex)
			if !ok {
				t.Fatal("dropped")
			}
			c.compare(t, p)
			var out wire.Batch
			c.append(codec{packed, v21}, from, p, &out)
			if out.Len() != 1 || !bytes.Equal(out.At(0), c.Hex) {
				t.Errorf("appended again it is %x, want %x", out.At(0), []byte(c.Hex))
			}
		})
	}
}

func (c *datagramCase) compare(t *testing.T, p packet) {
	f := &c.Fields
	want := packet{typ: typeNames[c.Type], reason: f.Reason, pingID: f.PingID, seq: f.Sequence, client: f.ClientID, rtt: f.RTT}
	if want.reason == 0x50 {
		want.reason = byte(endStopped) // the fault of 2.1
	}
	if want.typ == typeHeartbeat && c.Direction == "s2c" {
		want.rtt = noRTT
	}
	want.ack = ack{newest: f.LastReceived + f.AckLast, bits: f.AckBits, has: f.HasExplicit}
	if f.HasExplicit {
		want.ack.id = f.Explicit
	}
	body := p.body
	p.body = nil
	if !equalPackets(p, want) {
		t.Errorf("parsed: %+v, want %+v", p, want)
	}
	if f.Offset == nil {
		return
	}
	m := new(Message)
	if want.typ == typeUnreliable || want.typ == typeReliable {
		m.loadUser(packed, modeOf(p.typ), body)
	} else {
		m.load(packed, modeOf(p.typ), body)
	}
	if m.ID() != f.MessageID {
		t.Errorf("message id %d, want %d", m.ID(), f.MessageID)
	}
	if unread := max(0, 8*len(c.Hex)-*f.Offset); m.Unread() != unread {
		t.Errorf("%d bits behind the header, want %d", m.Unread(), unread)
	}
}

func equalPackets(p, q packet) bool {
	return p.typ == q.typ && p.reason == q.reason && p.pingID == q.pingID && p.seq == q.seq &&
		p.client == q.client && p.rtt == q.rtt && p.ack == q.ack && bytes.Equal(p.body, q.body)
}

func (c *datagramCase) append(cd codec, from side, p packet, out *wire.Batch) {
	switch {
	case p.typ == typeUnreliable:
		cd.appendUnreliable(out, p.body)
	case p.typ == typeAck:
		cd.appendAck(out, p.ack)
	case p.typ == typeConnect:
		cd.appendConnect(out, p.body)
	case p.typ == typeReject:
		cd.appendReject(out, rejectReason(p.reason), p.body)
	case p.typ == typeHeartbeat:
		cd.appendHeartbeat(out, from, p.pingID, p.rtt)
	case p.typ == typeDisconnect && from == clientSide:
		cd.appendLeave(out)
	case p.typ == typeDisconnect:
		cd.appendDisconnect(out, endReason(p.reason), p.body)
	case p.typ == typeNotify:
		cd.appendNotify(out, p.seq, p.ack, p.body)
	case p.typ == typeReliable:
		cd.appendReliable(out, p.typ, p.seq, p.body)
	default:
		body := cd.idBody(p.client)
		cd.appendReliable(out, p.typ, p.seq, body[:])
	}
}

type receiveStep struct {
	Seq     uint16
	Handled bool
	Ack     hexBytes
}

type receiveRun struct {
	Name        string
	JumpsFar    bool `json:"gap_of_32_or_more"`
	PrefixStep  int  `json:"prefix_step"`
	PrefixCount int  `json:"prefix_count"`
	Steps       []receiveStep
}

func testReliableReceive(t *testing.T, v21 bool, data []byte) {
	for _, run := range decodeFile[receiveRun](t, data) {
		t.Run(run.Name, func(t *testing.T) { run.test(t, v21) })
	}
}

// test gives a receiver the messages of a run. After a jump of 32 ids and more
// the acknowledgements of the reference name what never came: ours must not.
func (run *receiveRun) test(t *testing.T, v21 bool) {
	c, r := newConnected(t, &Config{Version21: v21}, clientSide)
	var in, out wire.Batch
	receive := func(seq uint16) (handled bool, ack []byte) {
		in.Reset()
		out.Reset()
		before := len(r.messages)
		c.set.appendReliable(&in, typeReliable, seq, []byte{0x10, 0})
		c.receive(start, in.At(0), &out)
		if out.Len() != 1 {
			t.Fatalf("message %d has %d answers", seq, out.Len())
		}
		return len(r.messages) > before, out.At(0)
	}
	got := make(map[uint16]bool)
	for i := range run.PrefixCount {
		receive(uint16((i + 1) * run.PrefixStep))
	}
	jumped, newest := false, uint16(0)
	for i, s := range run.Steps {
		g := gap(s.Seq, newest)
		if g > 0 {
			newest = s.Seq
		}
		jumped = jumped || run.JumpsFar && g >= 32
		handled, ack := receive(s.Seq)
		if !jumped && (handled != s.Handled || !bytes.Equal(ack, s.Ack)) {
			t.Fatalf("step %d: message %d: handled %v, ack %x, want %v, %x", i, s.Seq, handled, ack, s.Handled, []byte(s.Ack))
		}
		if jumped && handled != s.Handled {
			t.Fatalf("step %d: message %d: handled %v, want %v", i, s.Seq, handled, s.Handled)
		}
		got[s.Seq] = true
		if jumped {
			checkAck(t, ack, got)
		}
	}
}

// checkAck checks that an acknowledgement names what has come, and nothing
// else.
func checkAck(t *testing.T, b []byte, got map[uint16]bool) {
	t.Helper()
	p, _ := codec{}.parse(clientSide, b)
	for i := range uint16(16) {
		id := p.ack.newest - 1 - i
		if named := p.ack.bits>>i&1 == 1; named != (got[id] || id == 0) {
			t.Errorf("ack %x names %d: %v, which came: %v", b, id, named, got[id])
		}
	}
}

type ackStep struct {
	Ack       hexBytes
	Delivered []uint16
}

type ackRun struct {
	Name         string
	Sent         int
	Steps        []ackStep
	PendingAfter []uint16 `json:"pending_after"`
}

func testReliableAcks(t *testing.T, v21 bool, data []byte) {
	for _, run := range decodeFile[ackRun](t, data) {
		t.Run(run.Name, func(t *testing.T) {
			c, r := newConnected(t, &Config{Version21: v21}, serverSide)
			var out wire.Batch
			for range run.Sent {
				if _, err := c.send(start, Reliable, []byte{0x10, 0}, &out); err != nil {
					t.Fatal(err)
				}
			}
			for i, s := range run.Steps {
				r.ids = nil
				c.receive(start, s.Ack, &out)
				if !slices.Equal(r.ids, s.Delivered) {
					t.Fatalf("step %d: delivered %v, want %v", i, r.ids, s.Delivered)
				}
			}
			var pending []uint16
			for id := range uint16(run.Sent) {
				if c.sender.inFlight(id+1) != nil {
					pending = append(pending, id+1)
				}
			}
			if !slices.Equal(pending, run.PendingAfter) || c.sender.waiting() != len(pending) {
				t.Errorf("pending %v, want %v", pending, run.PendingAfter)
			}
		})
	}
}

type notifyStep struct {
	From             string
	Sequence         uint16
	Hex              hexBytes
	Dropped          bool
	Handled          bool
	DuplicateHandled *bool                              `json:"duplicate_handled"`
	Events           []struct{ Delivered, Lost uint16 } `json:"receiver_events"`
}

type notifyMetrics struct{ Delivered, Lost, Received, Discarded uint64 }

type notifyRun struct {
	Name  string
	Steps []notifyStep
	A     notifyMetrics `json:"a_metrics"`
	B     notifyMetrics `json:"b_metrics"`
}

func testNotifyRuns(t *testing.T, _ bool, data []byte) {
	for _, run := range decodeFile[notifyRun](t, data) {
		t.Run(run.Name, run.test)
	}
}

func (run *notifyRun) test(t *testing.T) {
	a, ra := newConnected(t, nil, clientSide)
	b, rb := newConnected(t, nil, serverSide)
	for i, s := range run.Steps {
		from, to, r := a, b, rb
		if s.From == "b" {
			from, to, r = b, a, ra
		}
		var out, none wire.Batch
		p, _ := codec{}.parse(clientSide, s.Hex) // for the payload
		id, err := from.send(start, Notify, p.body, &out)
		if err != nil || id != s.Sequence || !bytes.Equal(out.At(0), s.Hex) {
			t.Fatalf("step %d: sent %d: %x, %v, want %d: %x", i, id, out.At(0), err, s.Sequence, []byte(s.Hex))
		}
		if s.Dropped {
			continue
		}
		if handled := deliverNotify(to, r, s.Hex, &none); handled != s.Handled {
			t.Fatalf("step %d: handled: %v", i, handled)
		}
		s.compare(t, i, r)
		if s.DuplicateHandled != nil {
			if handled := deliverNotify(to, r, s.Hex, &none); handled != *s.DuplicateHandled {
				t.Fatalf("step %d: duplicate handled: %v", i, handled)
			}
		}
		if none.Len() > 0 {
			t.Fatalf("step %d: a notify message was answered", i)
		}
	}
	run.A.compare(t, a)
	run.B.compare(t, b)
}

func deliverNotify(to *connection, r *recorder, d []byte, out *wire.Batch) (handled bool) {
	r.messages = nil
	to.receive(start, slices.Clone(d), out)
	return len(r.messages) > 0
}

// compare compares the fates that a step brought.
func (s *notifyStep) compare(t *testing.T, step int, r *recorder) {
	t.Helper()
	if len(r.fates) != len(s.Events) {
		t.Fatalf("step %d: fates %v, want %v", step, r.fates, s.Events)
	}
	for i, f := range r.fates {
		want := s.Events[i]
		if f.delivered && f.id != want.Delivered || !f.delivered && f.id != want.Lost {
			t.Fatalf("step %d: fates %v, want %v", step, r.fates, s.Events)
		}
	}
	r.fates = nil
}

func (m *notifyMetrics) compare(t *testing.T, c *connection) {
	t.Helper()
	s := c.stats()
	got := notifyMetrics{s.NotifyDelivered, s.NotifyLost - s.NotifyUnknown, s.MessagesReceived[Notify] + s.Late, s.Late}
	if got != *m {
		t.Errorf("metrics %+v, want %+v", got, *m)
	}
}
