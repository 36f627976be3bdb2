package riptide

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"

	"volley/internal/testenv"
)

// TestLossySession sends messages of each mode both ways through a network that
// loses a fifth, repeats some and changes their order. Unreliable messages have no
// id, so they come as often as the network delivers them, and with a window for
// copies at most once.
func TestLossySession(t *testing.T) {
	if testenv.Race {
		t.Skip("there is one goroutine, and no lock")
	}
	const n = 10_000
	for _, cfg := range []*Config{
		{IgnoreQuality: true},
		{IgnoreQuality: true, Version21: true},
		{IgnoreQuality: true, NotesLayout: true},
		{IgnoreQuality: true, DuplicateWindow: 200 * ms},
		{IgnoreQuality: true, NotesLayout: true, DuplicateWindow: 200 * ms},
	} {
		t.Run(fmt.Sprint(cfg.layout(), cfg.Version21, cfg.DuplicateWindow), func(t *testing.T) {
			cfg.Timeout = time.Minute
			s := newSimulation(t, cfg, 7)
			s.loss, s.dup, s.jitter = 0.2, 0.1, 15*time.Millisecond
			s.connect()
			var notifyIDs [2][]uint16
			arrived := s.countUnreliable()
			span, jump := s.watchIDs()
			for i := range n {
				for end := range s.ends {
					for _, m := range []Mode{Unreliable, Notify, Reliable} {
						id, err := s.send(side(end), m, numbered(cfg, m, i))
						if err != nil {
							t.Fatal(err)
						}
						if m == Notify {
							notifyIDs[end] = append(notifyIDs[end], id)
						}
					}
				}
				s.step(s.now.Add(10 * time.Millisecond))
			}
			for i := 0; s.ends[0].sender.waiting()+s.ends[1].sender.waiting() > 0; i++ {
				if i > 100_000 {
					t.Fatal("reliable messages never arrive")
				}
				s.step(s.now.Add(10 * time.Millisecond))
			}
			if cfg.NotesLayout {
				require.Equal(t, 16, *span, "what acknowledgements tell of")
			}
			require.Greater(t, *jump, 1, "ids ahead of the newest")
			require.LessOrEqual(t, *jump, 31, "what released receivers bear")
			for end, r := range s.events {
				counts := numbersOf(t, r, cfg.layout())
				checkCounts(t, cfg, counts, n)
				copies := checkUnreliable(t, cfg, arrived[end], counts[Unreliable])
				if cfg.layout() == packed {
					require.Equal(t, copies, s.ends[end].stats().UnreliableDuplicates)
				}
				if cfg.layout() == packed {
					checkFates(t, s.events[1-end].fates, notifyIDs[1-end], counts[Notify])
				}
			}
		})
	}
}

// countUnreliable returns how often each numbered unreliable message arrives at
// an end.
func (s *simulation) countUnreliable() (counts [2]map[int]int) {
	counts = [2]map[int]int{{}, {}}
	m := new(Message)
	s.arrives = func(at side, b []byte) {
		set := s.ends[at].set
		if p, ok := set.parse(1-at, b); ok && p.typ == typeUnreliable {
			m.loadUser(set.layout, Unreliable, p.body)
			counts[at][int(Read[uint32](m))]++
		}
	}
	return counts
}

// checkUnreliable checks how often unreliable messages were received that have
// arrived so often, and returns how many copies were dropped.
func checkUnreliable(t *testing.T, cfg *Config, arrived, received map[int]int) (copies uint64) {
	t.Helper()
	if cfg.DuplicateWindow == 0 {
		require.Equal(t, arrived, received)
		return 0
	}
	require.Len(t, received, len(arrived), "different messages")
	for i, n := range arrived {
		require.Equal(t, 1, received[i], "message %d, which arrived %d times", i, n)
		copies += uint64(n - 1)
	}
	require.Greater(t, copies, uint64(500))
	return copies
}

func checkCounts(t *testing.T, cfg *Config, counts [numModes]map[int]int, n int) {
	t.Helper()
	for i := range n {
		if counts[Reliable][i] != 1 {
			t.Fatalf("reliable message %d came %d times", i, counts[Reliable][i])
		}
		if (cfg.layout() == packed || cfg.DuplicateWindow > 0) && counts[Notify][i] > 1 {
			t.Fatalf("notify message %d came %d times", i, counts[Notify][i])
		}
	}
	for m, got := range counts[Unreliable:] {
		if len(got) < n/2 || len(got) > n {
			t.Errorf("%d different %v messages came of %d", len(got), recordedMode(m), n)
		}
	}
}

// checkFates checks that each message has one fate, in order, and that the
// fates are true.
func checkFates(t *testing.T, fates []fate, ids []uint16, arrived map[int]int) {
	t.Helper()
	if len(fates) < len(ids)-50 || len(fates) > len(ids) {
		t.Errorf("%d fates of %d messages", len(fates), len(ids))
	}
	unknown := 0
	for i, f := range fates {
		if f.id != ids[i] {
			t.Fatalf("fate %d is of message %d, want %d", i, f.id, ids[i])
		}
		if !f.known {
			unknown++
		}
		if f.delivered && arrived[i] == 0 || f.known && !f.delivered && arrived[i] > 0 {
			t.Fatalf("message %d: fate %+v, came %d times", i, f, arrived[i])
		}
	}
	if unknown > len(fates)/10 {
		t.Errorf("the fate of %d of %d messages is not known", unknown, len(fates))
	}
}

// TestWraparound takes every id around: reliable, notify and heartbeats.
func TestWraparound(t *testing.T) {
	n := testenv.Raced(140_000, 70_000)
	s := newSimulation(t, &Config{HeartbeatInterval: 5 * time.Millisecond, ConnectAttempts: 100}, 1)
	s.latency = time.Millisecond
	s.connect()
	for i := range n {
		for _, m := range []Mode{Notify, Reliable} {
			if _, err := s.send(clientSide, m, numbered(nil, m, i)); err != nil {
				t.Fatal(err)
			}
		}
		if i%4 == 0 {
			s.send(serverSide, Notify, numbered(nil, Notify, i))
		}
		s.step(s.now.Add(200 * time.Microsecond))
	}
	s.step(s.now.Add(time.Second))
	counts := numbersOf(t, s.events[serverSide], packed)
	for i := range n {
		if counts[Reliable][i] != 1 {
			t.Fatalf("reliable message %d came %d times", i, counts[Reliable][i])
		}
	}
	st := s.ends[clientSide].stats()
	if len(s.events[clientSide].ids) != n+1 || st.MessagesDelivered != uint64(n)+1 || st.Unacknowledged != 0 || st.QueuedBytes != 0 {
		t.Errorf("%d messages reported as delivered, %+v", len(s.events[clientSide].ids), st)
	}
	if st.NotifyDelivered < uint64(n)*9/10 {
		t.Errorf("%d of %d notify messages reported as delivered", st.NotifyDelivered, n)
	}
	if s.ends[clientSide].attempts != 1 || s.ends[clientSide].state != stateConnected {
		t.Errorf("state %d", s.ends[clientSide].state)
	}
	if st.RTT < 2*time.Millisecond || st.RTT > 5*time.Millisecond || s.ends[serverSide].stats().LastRTT <= 0 {
		t.Errorf("RTT %v, at the server %v", st.RTT, s.ends[serverSide].stats().LastRTT)
	}
}

// TestLossyWraparound takes the ids of reliable and of notify messages around in
// both directions, while some are lost, repeated and overtaken.
func TestLossyWraparound(t *testing.T) {
	const n = 1<<16 + 2000
	cfg := &Config{IgnoreQuality: true, Timeout: time.Hour, MinResend: 5 * time.Millisecond}
	s := newSimulation(t, cfg, 5)
	s.latency, s.jitter, s.loss, s.dup = time.Millisecond, 700*time.Microsecond, 0.05, 0.05
	s.connect()
	var reliable [2]int
	var ids [2][]uint16
	for min(reliable[0], reliable[1]) < n {
		for end, c := range s.ends {
			id, _ := s.send(side(end), Notify, numbered(cfg, Notify, len(ids[end])))
			ids[end] = append(ids[end], id)
			if c.sender.waiting() < 40 {
				s.send(side(end), Reliable, numbered(cfg, Reliable, reliable[end]))
				reliable[end]++
			}
		}
		s.step(s.now.Add(500 * time.Microsecond))
	}
	s.step(s.now.Add(10 * time.Second))
	for end, r := range s.events {
		counts := numbersOf(t, r, packed)
		for i := range reliable[1-end] {
			if counts[Reliable][i] != 1 {
				t.Fatalf("reliable message %d came %d times", i, counts[Reliable][i])
			}
		}
		for i := range ids[1-end] {
			if counts[Notify][i] > 1 {
				t.Fatalf("notify message %d came %d times", i, counts[Notify][i])
			}
		}
		require.Greater(t, len(counts[Notify]), n*3/4)
		require.Zero(t, s.ends[end].sender.waiting())
		checkFates(t, s.events[1-end].fates, ids[1-end], counts[Notify])
	}
}

// TestNoSpuriousResends: nothing is sent twice where nothing is lost.
func TestNoSpuriousResends(t *testing.T) {
	for _, latency := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond} {
		s := newSimulation(t, nil, 1)
		s.latency = latency
		s.connect()
		for i := range 5000 {
			s.send(clientSide, Reliable, numbered(nil, Reliable, i))
			s.send(serverSide, Reliable, numbered(nil, Reliable, i))
			s.step(s.now.Add(3 * time.Millisecond))
		}
		for _, c := range s.ends {
			if st := c.stats(); st.MessagesResent > 0 {
				t.Errorf("latency %v: %d resends", latency, st.MessagesResent)
			}
		}
	}
}

// TestBlackout: nothing gets through for 2 s, with much to be sent, and then
// all of it arrives; quality is not to end the connection.
func TestBlackout(t *testing.T) {
	s := newSimulation(t, &Config{IgnoreQuality: true}, 1)
	s.connect()
	dark := s.now.Add(time.Second)
	s.blackout = func(at time.Time) bool { return at.After(dark) && at.Before(dark.Add(2*time.Second)) }
	for i := range 300 {
		s.send(clientSide, Reliable, numbered(nil, Reliable, i))
		s.step(s.now.Add(10 * time.Millisecond))
	}
	s.step(s.now.Add(5 * time.Second))
	if n := len(s.events[serverSide].messages); n != 300 {
		t.Errorf("%d messages arrived, want 300", n)
	}
	s.blackout = func(at time.Time) bool { return true }
	s.step(s.now.Add(7 * time.Second))
	for i, r := range s.events {
		if r.end != endTimeout || r.ends != 1 {
			t.Errorf("end %d: %v", i, r.log)
		}
	}
}

// TestPoorConnection: a message that is never acknowledged is sent 15 times,
// and the next time the connection ends.
func TestPoorConnection(t *testing.T) {
	s := newSimulation(t, &Config{MinResend: 10 * time.Millisecond}, 1)
	s.connect()
	s.step(s.now.Add(2500 * time.Millisecond)) // for a round-trip time
	s.blackout = func(time.Time) bool { return true }
	var sends []time.Time
	s.sent = func(from side, b []byte) {
		if from == clientSide && b[0]&0xf == byte(typeReliable) {
			sends = append(sends, s.now)
		}
	}
	s.send(clientSide, Reliable, numbered(nil, Reliable, 1))
	s.step(s.now.Add(time.Second))
	if len(sends) != 15 {
		t.Errorf("sent %d times, want 15", len(sends))
	}
	for i := range sends[1:] {
		if d := sends[i+1].Sub(sends[i]); d != 48*time.Millisecond {
			t.Errorf("sent again after %v, want 1.2 times 40 ms", d)
		}
	}
	if r := s.events[clientSide]; r.end != endPoor || r.ends != 1 {
		t.Errorf("the client's end: %v", r.log)
	}
	if r := s.events[serverSide]; r.ends > 0 {
		t.Errorf("the server was told: %v", r.log)
	}
}

// TestLongRoundTrip: a connection over a long path without loss lasts from its first message on,
// though a round trip takes longer than the first interval between two sends, or than 15 of them.
func TestLongRoundTrip(t *testing.T) {
	for _, from := range []side{clientSide, serverSide} {
		for _, latency := range []time.Duration{30 * ms, 150 * ms, 300 * ms, 450 * ms} {
			s := newSimulation(t, nil, 1)
			s.latency = latency
			s.connect()
			const n = 200
			for i := range n {
				s.send(from, Reliable, numbered(nil, Reliable, i))
				s.step(s.now.Add(20 * ms))
			}
			s.step(s.now.Add(5 * time.Second)) // at most 31 messages pass in a round trip
			c := s.ends[from]
			if r := s.events[from]; r.ends > 0 {
				t.Errorf("from %v over %v: %v", from, latency, r.log)
			} else if c.sender.waiting() > 0 || c.counts.MessagesResent > n/4 {
				t.Errorf("from %v over %v: %d messages wait, %d were sent again", from, latency, c.sender.waiting(), c.counts.MessagesResent)
			}
		}
	}
}

// TestNothingComesBack: as long as no round trip was measured, 15 sends end no connection whose
// oldest message is younger than 5 s. After these it is sent once a second, because the address
// may be forged.
func TestNothingComesBack(t *testing.T) {
	c, r := newConnected(t, nil, serverSide)
	c.set.timeout = -1
	var out wire.Batch
	c.send(start, Reliable, []byte{0x10, 0}, &out)
	now := start
	for r.ends == 0 {
		now = c.next()
		c.tick(now, false, &out)
	}
	if d := now.Sub(start); r.end != endPoor || d != 5*time.Second || out.Len() != 20 {
		t.Errorf("%v after %v and %d sends, want the end after 5 s and 20 sends", r.log, d, out.Len())
	}
}

// TestMeanSends: a mean of more than 5 sends ends the connection when it has
// lasted for 64 messages, and not before.
func TestMeanSends(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		c, r := newConnected(t, &Config{IgnoreQuality: ignore, MaxSends: -1}, clientSide)
		c.beat, c.set.timeout = start.Add(time.Hour), -1
		now, n := start, 0
		var out wire.Batch
		for ; n < 70 && r.ends == 0; n++ {
			id, err := c.send(now, Reliable, []byte{0x10, 0}, &out)
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				now = c.next()
				c.tick(now, false, &out)
			}
			out.Reset()
			(codec{}).appendAck(&out, ack{newest: id})
			c.receive(now, out.At(0), new(wire.Batch))
		}
		if want := 64; !ignore && (n != want || r.end != endPoor) {
			t.Errorf("after %d messages: %v, want the end after %d", n, r.log, want)
		}
		if ignore && (n != 70 || c.quality.meanSends() != 6) {
			t.Errorf("after %d messages of %v sends: %v", n, c.quality.meanSends(), r.log)
		}
	}
}

// TestNotifyLoss: a loss above 5 % ends the connection when it has lasted for
// 64 messages.
func TestNotifyLoss(t *testing.T) {
	for _, test := range []struct {
		lossEvery int
		ignore    bool
		ends      bool
	}{{10, false, true}, {10, true, false}, {32, false, false}} {
		s := newSimulation(t, &Config{IgnoreQuality: test.ignore}, 1)
		s.connect()
		n := 0
		s.blackout = func(time.Time) bool { return n%test.lossEvery == 0 }
		for ; n < 400; n++ {
			s.send(clientSide, Notify, numbered(nil, Notify, n))
			s.step(s.now.Add(time.Millisecond))
			if s.ends[serverSide].state == stateConnected {
				var out wire.Batch
				s.ends[serverSide].send(s.now, Notify, numbered(nil, Notify, n).body(), &out)
				s.ends[clientSide].receive(s.now, out.At(0), &out) // this way nothing is lost
			}
		}
		if r := s.events[clientSide]; (r.end == endPoor) != test.ends {
			t.Errorf("one in %d lost, ignored %v: %v", test.lossEvery, test.ignore, r.log)
		}
	}
}

// TestSendBuffer: what waits is bounded, and accounted to the last byte.
func TestSendBuffer(t *testing.T) {
	c, _ := newConnected(t, &Config{SendBuffer: 10_000}, clientSide)
	var out wire.Batch
	body := bytes.Repeat([]byte{0x10}, 100)
	n := 0
	for ; n < 1000; n++ {
		if _, err := c.send(start, Reliable, body, &out); err != nil {
			if err != ErrSendBuffer {
				t.Fatal(err)
			}
			break
		}
	}
	if want := 10_000 / (100 + 64); n != want || out.Len() != 31 {
		t.Errorf("%d messages taken, %d sent, want %d, 31", n, out.Len(), want)
	}
	out.Reset()
	for id := range uint16(n) {
		(codec{}).appendAck(&out, ack{newest: id + 1})
	}
	for i := range n {
		c.receive(start, out.At(i), new(wire.Batch))
	}
	if c.sender.bytes != 0 || c.sender.waiting() != 0 {
		t.Errorf("%d bytes, %d messages wait", c.sender.bytes, c.sender.waiting())
	}
	c.tick(start.Add(time.Second), false, &out)
	if c.sender.slots == nil {
		t.Error("memory is given back too early")
	}
	if c.tick(start.Add(idleMemory), false, &out); c.sender.slots != nil {
		t.Error("memory is kept")
	}
}

// TestSendBufferMemory: messages take the memory that they are charged, while they come and
// while they leave, and not what they have taken when there were more.
func TestSendBufferMemory(t *testing.T) {
	c, _ := newConnected(t, nil, clientSide)
	var out wire.Batch
	n := 0
	check := func() {
		t.Helper()
		memory := c.sender.queue.memory()
		for i := range c.sender.slots {
			memory += cap(c.sender.slots[i].body)
		}
		if limit := c.sender.bytes + 2*pieceSize; memory > limit {
			t.Fatalf("%d messages of %d bytes hold %d bytes of memory, want at most %d", c.sender.waiting(), c.sender.bytes, memory, limit)
		}
	}
	for ; ; n++ {
		if _, err := c.send(start, Reliable, bytes.Repeat([]byte{0x10}, 1100+n%100), &out); err != nil {
			break
		}
		check()
	}
	if c.sender.bytes < 1<<20-2000 {
		t.Fatalf("%d bytes fill the send buffer", c.sender.bytes)
	}
	for id := range uint16(n) {
		out.Reset()
		(codec{}).appendAck(&out, ack{newest: id + 1})
		c.receive(start, out.At(0), new(wire.Batch))
		check()
	}
	if c.sender.waiting() != 0 {
		t.Errorf("%d messages wait", c.sender.waiting())
	}
}

// TestRefused: a reliable message that the application does not take is not
// acknowledged, and taken when it comes again; a notify message counts as lost.
func TestRefused(t *testing.T) {
	c, r := newConnected(t, nil, serverSide)
	var in, out wire.Batch
	c.set.appendReliable(&in, typeReliable, 1, []byte{0x10, 0})
	c.set.appendNotify(&in, 1, ack{}, []byte{0})
	for _, r.refuse = range []bool{true, false} {
		for i := range in.Len() {
			c.receive(start, slices.Clone(in.At(i)), &out)
		}
		if taken := !r.refuse; (out.Len() == 1) != taken || (c.notify.newest == 1) != taken || (len(r.messages) == 2) != taken {
			t.Errorf("refused: %v: %d acks, newest notify %d, %d messages", r.refuse, out.Len(), c.notify.newest, len(r.messages))
		}
	}
	if st := c.stats(); st.MessagesRefused != 2 {
		t.Errorf("%d refused, want 2", st.MessagesRefused)
	}
}

// TestForgedAcks: acknowledgements of what was never sent mean nothing.
func TestForgedAcks(t *testing.T) {
	c, r := newConnected(t, nil, clientSide)
	var out wire.Batch
	for range 3 {
		c.send(start, Reliable, []byte{0x10, 0}, &out)
		c.send(start, Notify, []byte{0}, &out)
	}
	for id := uint16(4); id != 0; id++ {
		out.Reset()
		(codec{}).appendAck(&out, ack{newest: id, id: id + 7, has: true})
		(codec{}).appendNotify(&out, id, ack{newest: id}, []byte{0})
		c.receive(start, slices.Clone(out.At(0)), new(wire.Batch))
		c.receive(start, slices.Clone(out.At(1)), new(wire.Batch))
		if id == 1<<15 { // what is older than that is older than anything
			break
		}
	}
	if len(r.ids) > 0 || len(r.fates) > 0 || c.sender.waiting() != 3 {
		t.Errorf("delivered %v, fates %v", r.ids, r.fates)
	}
}

// TestNotifyUnanswered: if the other side never says what has arrived, ids go
// around all the same, and each message has one fate.
func TestNotifyUnanswered(t *testing.T) {
	c, r := newConnected(t, nil, clientSide)
	var out wire.Batch
	for range 100_000 {
		out.Reset()
		if _, err := c.send(start, Notify, []byte{0}, &out); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.fates) != 100_000-maxUnreported+1 {
		t.Errorf("%d fates", len(r.fates))
	}
	for i, f := range r.fates {
		if f.id != uint16(i+1) || f.delivered || f.known {
			t.Fatalf("fate %d: %+v", i, f)
		}
	}
	if c.state != stateConnected {
		t.Error("what is not known ended the connection")
	}
}

func TestConnectionAllocs(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	a, ra := newConnected(t, nil, clientSide)
	b, rb := newConnected(t, nil, serverSide)
	msg := numbered(nil, Reliable, 1).body()
	var to, back wire.Batch
	now := start
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		ra.ids, ra.fates, rb.messages, rb.refuse = ra.ids[:0], ra.fates[:0], rb.messages[:0], false
		for _, m := range []Mode{Unreliable, Notify, Reliable} {
			a.send(now, m, msg, &to)
		}
		for i := range to.Len() {
			b.receive(now, to.At(i), &back)
		}
		for i := range back.Len() {
			a.receive(now, back.At(i), &to)
		}
		a.tick(now, false, &to)
		to.Reset()
		back.Reset()
	}); n > 3 { // the recorder's own strings
		t.Errorf("%v allocations a round", n)
	}
}

// TestLateAcks: when acknowledgements become late and none is lost, what is sent
// again for nothing soon ends, before any heartbeat tells of the longer round
// trip.
func TestLateAcks(t *testing.T) {
	s := newSimulation(t, &Config{HeartbeatInterval: 4 * time.Second}, 1)
	s.latency = 2 * time.Millisecond
	s.connect()
	s.step(s.now.Add(4100 * time.Millisecond)) // a heartbeat
	s.latency = 100 * time.Millisecond
	c := s.ends[clientSide]
	early := uint64(0)
	for i := range 300 {
		s.send(clientSide, Reliable, numbered(nil, Reliable, i))
		s.step(s.now.Add(10 * time.Millisecond))
		if i == 100 {
			early = c.stats().MessagesResent
		}
	}
	if late := c.stats().MessagesResent - early; early == 0 || late > 0 {
		t.Errorf("%d resends in the first second, %d in the next two", early, late)
	}
}

// TestForgedHeartbeats: answers to heartbeats that were never sent are no sign
// of life.
func TestForgedHeartbeats(t *testing.T) {
	c, _ := newConnected(t, nil, clientSide)
	c.ping = 5
	later := start.Add(time.Second)
	for ping, counts := range map[uint8]bool{5: false, 6: false, 200: false, 4: true} {
		c.heard = start
		var out wire.Batch
		codec{}.appendHeartbeat(&out, serverSide, ping, 0)
		c.receive(later, out.At(0), new(wire.Batch))
		if c.heard.Equal(later) != counts {
			t.Errorf("ping %d counts: %v, want %v", ping, !counts, counts)
		}
	}
}
