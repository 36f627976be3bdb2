package riptide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"volley/internal/wire"
)

// TestBeforeAcceptance: nothing but a disconnect means anything to a server
// that has not accepted, and nothing but a welcome, a reject and the like to a
// client that is not.
func TestBeforeAcceptance(t *testing.T) {
	for _, state := range []connState{statePending, stateConnecting} {
		for _, s := range []side{serverSide, clientSide} {
			c, r := newConnected(t, nil, s)
			c.state = state
			var in, out wire.Batch
			cd := codec{}
			cd.appendUnreliable(&in, []byte{0x10, 0})
			cd.appendNotify(&in, 1, ack{}, []byte{0})
			cd.appendReliable(&in, typeReliable, 1, []byte{0x10, 0})
			cd.appendHeartbeat(&in, 1-s, 0, 5)
			body := cd.idBody(7)
			cd.appendReliable(&in, typeClientConnected, 1, body[:])
			cd.appendReliable(&in, typeClientDisconnected, 1, body[:])
			if s == serverSide && state == statePending {
				cd.appendReliable(&in, typeWelcome, 1, body[:])
			}
			for i := range in.Len() {
				c.receive(start, slices.Clone(in.At(i)), &out)
			}
			if out.Len() > 0 || len(r.messages) > 0 || len(r.log) > 0 || c.state != state {
				t.Errorf("side %d, state %d: %d answers, %d messages, %v", s, state, out.Len(), len(r.messages), r.log)
			}
			if got := c.stats().PacketsInvalid; got != uint64(in.Len()) {
				t.Errorf("side %d, state %d: %d dropped, want %d", s, state, got, in.Len())
			}
		}
	}
}

// TestUnknownTypes: types 11 to 15 are dropped and not acknowledged, and what
// only servers send means nothing from a client.
func TestUnknownTypes(t *testing.T) {
	c, r := newConnected(t, nil, serverSide)
	var out wire.Batch
	for typ := byte(typeClientConnected); typ < 16; typ++ {
		c.receive(start, []byte{typ | 0x10, 0, 0x10, 0, 0, 0, 0, 0}, &out)
	}
	c.receive(start, []byte{0x23, 0}, &out)       // reject
	c.receive(start, make([]byte, 1232), &out)    // too long
	c.receive(start, nil, &out)                   // empty
	c.receive(start, []byte{typeByte(), 0}, &out) // a reliable message without an id
	if out.Len() > 0 || len(r.messages) > 0 || r.ends > 0 || c.stats().PacketsInvalid != 11 {
		t.Errorf("%d answers, %d messages, %v, %d dropped", out.Len(), len(r.messages), r.log, c.stats().PacketsInvalid)
	}
}

func typeByte() byte { return byte(typeReliable) }

// TestStops: a client understands both forms of a server's stop, and a kick.
func TestStops(t *testing.T) {
	kick := NewData()
	kick.AddString("out")
	var withData wire.Batch
	inner := new(Message)
	inner.init(packed, Unreliable, defaultMaxPayload)
	inner.AddRest(kick)
	codec{}.appendDisconnect(&withData, endKicked, inner.body())
	for hex, want := range map[string]endReason{
		"5500": endStopped, "0505": endStopped, "4500": endKicked, fmt.Sprintf("%x", withData.At(0)): endKicked,
	} {
		for _, state := range []connState{stateConnecting, statePending, stateConnected} {
			c, r := newConnected(t, nil, clientSide)
			c.state = state
			c.receive(start, unspace(t, hex), new(wire.Batch))
			if r.end != want || r.ends != 1 || c.state != stateClosed {
				t.Errorf("%s: %v, want %v", hex, r.log, want)
			}
			m := new(Message)
			if m.load(packed, Unreliable, r.data); len(hex) > 4 && m.ReadString() != "out" {
				t.Errorf("%s: data %x", hex, r.data)
			}
		}
	}
	for _, test := range []struct {
		v21  bool
		want string
	}{{false, "5500"}, {true, "0505"}} {
		var out wire.Batch
		c, r := newConnected(t, &Config{Version21: test.v21}, serverSide)
		c.kick(endStopped, endStopped, nil, &out)
		if out.Len() != disconnectRepeats || fmt.Sprintf("%x", out.At(0)) != test.want || r.end != endStopped {
			t.Errorf("%v: %d datagrams, %x, %v, want %s", test.v21, out.Len(), out.At(0), r.log, test.want)
		}
	}
}

// TestPending: the server says that it has not decided; both give up after
// 10 s, and the client sends no connects meanwhile.
func TestPending(t *testing.T) {
	for _, layout := range []layout{packed, notes} {
		s := newSimulation(t, &Config{NotesLayout: layout == notes}, 1)
		connects := 0
		s.sent = func(from side, b []byte) {
			if from == clientSide && b[0]&0xf == byte(typeConnect) {
				connects++
			}
		}
		var out wire.Batch
		s.ends[0].connect(s.now, nil, &out)
		s.transmit(clientSide, &out)
		s.ends[1].pend(&out)
		s.transmit(serverSide, &out)
		if layout == notes { // has no such answer; the client goes on asking
			continue
		}
		s.step(start.Add(9 * time.Second))
		if len(s.events[0].log)+len(s.events[1].log) > 0 || connects != 1 {
			t.Errorf("%v, %v, %d connects", s.events[0].log, s.events[1].log, connects)
		}
		s.step(start.Add(11 * time.Second))
		if s.events[0].ends != 1 || s.events[1].end != endRejected {
			t.Errorf("%v, %v", s.events[0].log, s.events[1].log)
		}
	}
}

// TestRejected: the client learns the reason and the data; a connected client
// takes no notice.
func TestRejected(t *testing.T) {
	for _, layout := range []layout{packed, notes} {
		for _, reason := range []rejectReason{rejectFull, rejectPlain, rejectData} {
			s := newSimulation(t, &Config{NotesLayout: layout == notes}, 1)
			var out wire.Batch
			s.ends[0].connect(s.now, nil, &out)
			var data []byte
			if reason == rejectData {
				data = []byte{0xa0, 0xbb}
			}
			s.ends[1].reject(reason, data, &out)
			s.transmit(serverSide, &out)
			s.step(s.now.Add(time.Second))
			r := s.events[0]
			if r.end != endRejected || r.rejected != reason || len(r.data) != len(data) {
				t.Errorf("%v: %v, %v, data %x", reason, r.log, r.rejected, r.data)
			}
		}
		c, r := newConnected(t, &Config{NotesLayout: layout == notes}, clientSide)
		var out wire.Batch
		c.set.appendReject(&out, rejectPlain, nil)
		if c.receive(start, out.At(0), &out); r.ends > 0 {
			t.Error("a connected client was rejected")
		}
	}
}

// TestRestart: two connects in a row from a connected client end the
// connection; one, or others with something between them, do not.
func TestRestart(t *testing.T) {
	connect, beat := []byte{2}, unspace(t, "04f0ff0f")
	type datagram struct {
		at time.Duration
		b  []byte
	}
	for name, test := range map[string]struct {
		in   []datagram
		ends bool
	}{
		"once":         {[]datagram{{0, connect}}, false},
		"repeated":     {[]datagram{{0, connect}, {100 * time.Millisecond, connect}}, false},
		"alive":        {[]datagram{{0, connect}, {900 * time.Millisecond, beat}, {time.Second, connect}}, false},
		"twice":        {[]datagram{{0, connect}, {time.Second, connect}}, true},
		"twice, later": {[]datagram{{0, beat}, {0, connect}, {time.Second, connect}}, true},
	} {
		c, r := newConnected(t, nil, serverSide)
		var out wire.Batch
		for _, d := range test.in {
			c.receive(start.Add(d.at), slices.Clone(d.b), &out)
		}
		if (r.ends == 1) != test.ends || test.ends && r.end != endLeft {
			t.Errorf("%s: %v", name, r.log)
		}
	}
}

// TestConnectAttempts: connects go out each second, and after the fifth the
// client gives up.
func TestConnectAttempts(t *testing.T) {
	s := newSimulation(t, nil, 1)
	s.blackout = func(time.Time) bool { return true }
	var at []time.Duration
	s.sent = func(side, []byte) { at = append(at, s.now.Sub(start)) }
	var out wire.Batch
	s.ends[0].connect(s.now, []byte{0x10}, &out)
	s.transmit(clientSide, &out)
	s.ends[1].state = stateClosed
	s.step(start.Add(10 * time.Second))
	if want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("connects at %v, want %v", at, want)
	}
	if r := s.events[0]; r.end != endUnconnected || r.rejected != rejectNoAnswer || r.ends != 1 {
		t.Errorf("%v", r.log)
	}
}

// TestPendingAcks: what a client acknowledges before it is accepted, when nothing
// has been sent, means nothing for what comes later.
func TestPendingAcks(t *testing.T) {
	set, err := newSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := new(connection)
	c.init(set, serverSide, start, new(recorder))
	var in, out wire.Batch
	set.appendAck(&in, ack{newest: 3, bits: 3})
	c.receive(start, in.At(0), &out)
	if st := c.stats(); st.PacketsInvalid != 1 || c.acks != (ackRecord{}) {
		t.Errorf("%d dropped, record %+v, want 1 and nothing", st.PacketsInvalid, c.acks)
	}
}

// TestWelcomeIsASignOfLife: the time-out begins anew with a welcome, at either
// side.
func TestWelcomeIsASignOfLife(t *testing.T) {
	set, err := newSettings(&Config{ConnectAttempts: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, as := range []side{clientSide, serverSide} {
		c := new(connection)
		c.init(set, as, start, new(recorder))
		var in, out wire.Batch
		if as == clientSide {
			c.connect(start, nil, &out)
		} else {
			c.accept(start, 1, &out)
		}
		body := set.idBody(1)
		set.appendReliable(&in, typeWelcome, 1, body[:set.idBodySize()])
		c.receive(start.Add(4900*ms), in.At(0), &out)
		if want := start.Add(9900 * ms); c.state != stateConnected || !c.deadline().Equal(want) {
			t.Errorf("side %d times out at %v, want %v", as, c.deadline().Sub(start), want.Sub(start))
		}
	}
}

// TestManyAttempts: a client tries as often as it may, however long that takes.
func TestManyAttempts(t *testing.T) {
	set, err := newSettings(&Config{ConnectAttempts: 12})
	if err != nil {
		t.Fatal(err)
	}
	c, r := new(connection), new(recorder)
	c.init(set, clientSide, start, r)
	var out wire.Batch
	c.connect(start, nil, &out)
	for d := time.Duration(0); d < 12*time.Second; d += 10 * ms {
		c.tick(start.Add(d), false, &out)
	}
	if c.state != stateConnecting || out.Len() != 12 {
		t.Errorf("after 12 s: state %v, %d attempts, log %q", c.state, out.Len(), r.log)
	}
	if c.tick(start.Add(12*time.Second), false, &out); c.state != stateClosed || out.Len() != 12 {
		t.Errorf("then: state %v, %d attempts", c.state, out.Len())
	}
}

// TestLateBeat: after a pause a client does not make up for the heartbeats that it
// has missed.
func TestLateBeat(t *testing.T) {
	c, _ := newConnected(t, &Config{Timeout: time.Minute}, clientSide)
	c.beat = start.Add(time.Second)
	var out wire.Batch
	for _, test := range []struct{ at, next time.Duration }{
		{1000 * ms, 2000 * ms},
		{2100 * ms, 3000 * ms}, // a little late: the rhythm stays
		{7500 * ms, 8500 * ms},
		{8500 * ms, 9500 * ms},
	} {
		out.Reset()
		c.tick(start.Add(test.at), false, &out)
		if next := c.beat.Sub(start); out.Len() != 1 || next != test.next {
			t.Errorf("at %v: %d heartbeats, the next at %v, want 1 and %v", test.at, out.Len(), next, test.next)
		}
	}
}
