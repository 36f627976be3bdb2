package riptide

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/socket"
	"volley/internal/wire"
)

// resentAt returns when, after it was sent, a message without an answer is sent
// again for the first time.
func resentAt(t *testing.T, c *connection) time.Duration {
	t.Helper()
	var out wire.Batch
	_, err := c.send(start, Reliable, []byte{0x10, 1}, &out)
	require.NoError(t, err)
	require.Equal(t, 1, out.Len())
	for d := time.Duration(0); d < time.Minute; d += time.Millisecond {
		out.Reset()
		if c.resend(start.Add(d), false, &out); out.Len() > 0 {
			return d
		}
	}
	return 0
}

// A message is sent again after 1.2 round trips, but not before MinResend; after
// 50 ms while no round trip is known; and when late acknowledgements make that
// longer, then to a second at most.
func TestResendInterval(t *testing.T) {
	for _, test := range []struct {
		min   time.Duration
		rtt   int16
		delay time.Duration
		want  time.Duration
	}{
		{0, noRTT, 0, 50 * ms},
		{ms, noRTT, 0, 50 * ms},
		{80 * ms, noRTT, 0, 80 * ms},
		{0, 1, 0, 50 * ms},
		{10 * ms, 1, 0, 10 * ms},
		{10 * ms, 100, 0, 120 * ms},
		{200 * ms, 100, 0, 200 * ms},
		{0, 100, 400 * ms, 450 * ms}, // an eighth more than the worst
		{0, 100, 20 * time.Second, time.Second},
		{0, 2000, 20 * time.Second, 2400 * ms},
	} {
		c, _ := newConnected(t, &Config{MinResend: test.min}, clientSide)
		if test.rtt != noRTT {
			c.rtt.measured(test.rtt)
		}
		if test.delay > 0 {
			c.sender.delay.measured(start, test.delay)
		}
		require.Equal(t, test.want, resentAt(t, c), "%+v", test)
	}
}

// The worst time of an acknowledgement is remembered for some seconds, however
// many come.
func TestWorstAcknowledgement(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Microsecond, ms, 25 * ms, time.Second} {
		var a ackTime
		a.measured(start, 400*ms)
		now, steps := start, 0
		for a.worst > 200*ms {
			now = now.Add(every)
			a.measured(now, ms)
			steps++
		}
		if every < worstDecay {
			require.InDelta(t, 2.2, now.Sub(start).Seconds(), .1, "half-life, an acknowledgement each %v", every)
		} else {
			require.Equal(t, 89, steps)
		}
		a.measured(now, 600*ms)
		require.Equal(t, 675*ms, a.limit())
	}
}

// Only an acknowledgement that left when a message arrived that was sent once tells
// how long that takes, or one that comes so soon after a message was sent again
// that it can only be about the time before.
func TestAckTimes(t *testing.T) {
	c, r := newConnected(t, nil, clientSide)
	c.sender.delay.decayed = start.Add(time.Hour) // the worst time stays
	var out wire.Batch
	at := start
	after := func(d time.Duration) { at = at.Add(d) }
	send := func() { c.send(at, Reliable, []byte{0x10, 1}, &out) }
	resend := func() {
		out.Reset()
		at = c.sender.due
		c.tick(at, false, &out)
		require.Equal(t, 1, out.Len())
	}
	acked := func(a ack, worst time.Duration) {
		t.Helper()
		var in wire.Batch
		(codec{}).appendAck(&in, a)
		c.receive(at, in.At(0), &out)
		require.Equal(t, worst, c.sender.delay.worst)
	}
	send() // 1
	send() // 2, whose acknowledgement is lost
	after(10 * ms)
	acked(ack{newest: 1}, 10*ms)
	after(20 * ms)
	send() // 3
	after(8 * ms)
	acked(ack{newest: 3, bits: 1<<0 | 1<<1}, 10*ms)
	require.Equal(t, []uint16{1, 3, 2}, r.ids)

	send() // 4, which is overtaken
	send() // 5
	after(9 * ms)
	acked(ack{newest: 5, bits: 1<<1 | 1<<2 | 1<<3}, 10*ms)
	after(2 * ms)
	acked(ack{newest: 5, id: 4, has: true}, 11*ms)

	send() // 6, which comes late
	resend()
	after(5 * ms)
	late := at.Sub(c.sender.slot(6).firstSent)
	require.Greater(t, late, 13*ms)
	acked(ack{newest: 6}, late)
	send() // 7, which got lost
	resend()
	after(7 * ms) // more than three quarters of the least
	acked(ack{newest: 7}, late)

	c, _ = newConnected(t, &Config{NotesLayout: true}, clientSide)
	c.send(start, Reliable, []byte{1, 0}, &out)
	out.Reset()
	notesCodec.appendAck(&out, ack{newest: 1}) // perhaps for an older one
	c.receive(start.Add(10*ms), out.At(0), &out)
	require.Zero(t, c.sender.delay.worst)
	require.Zero(t, c.sender.waiting())
}

// What is lost must not make the next one wait for longer: at a fifth, in both
// directions, reliable messages at 60 Hz arrive as fast as they are sent.
func TestLossIsNoDelay(t *testing.T) {
	for _, dup := range []float64{0, 0.1} {
		s := newSimulation(t, &Config{IgnoreQuality: true}, 3)
		s.loss, s.dup, s.jitter = 0.2, dup, 3*ms
		s.connect()
		s.step(s.now.Add(3 * time.Second))
		begin := s.now
		for i := range 2000 {
			s.send(clientSide, Reliable, numbered(nil, Reliable, i))
			s.step(s.now.Add(time.Second / 60))
			require.Less(t, s.ends[clientSide].pace().full, 100*ms)
		}
		for s.ends[clientSide].sender.waiting() > 0 {
			s.step(s.now.Add(ms))
		}
		require.Less(t, s.now.Sub(begin), 2000*time.Second/60+time.Second)
	}
}

// Where acknowledgements turn out to take longer than was thought when a message
// was sent, it is sent again when it would be now.
func TestResendLater(t *testing.T) {
	for name, longer := range map[string]func(*connection){
		"heartbeat":       func(c *connection) { c.rtt.measured(200) },
		"acknowledgement": func(c *connection) { c.sender.delay.late(240 * ms * 8 / 9) },
	} {
		c, _ := newConnected(t, nil, clientSide)
		var out wire.Batch
		c.send(start, Reliable, []byte{0x10, 1}, &out)
		out.Reset()
		longer(c)
		c.tick(start.Add(50*ms), false, &out)
		require.Zero(t, out.Len(), name)
		require.WithinDuration(t, start.Add(240*ms), c.sender.due, ms, name)
		c.tick(c.sender.due, false, &out)
		require.Equal(t, 1, out.Len(), name)
	}
}

// While datagrams wait that may be acknowledgements, nothing is sent again until
// they have been read; but not for longer than that would take for the next time.
func TestResendAfterReading(t *testing.T) {
	c, _ := newConnected(t, nil, clientSide)
	var out wire.Batch
	c.send(start, Reliable, []byte{0x10, 1}, &out)
	out.Reset()
	for now := start.Add(50 * ms); now.Before(start.Add(100 * ms)); now = c.sender.due {
		c.tick(now, true, &out)
		require.Zero(t, out.Len())
		require.Equal(t, now.Add(unreadWait), c.sender.due)
	}
	c.tick(start.Add(100*ms), true, &out)
	require.Equal(t, 1, out.Len(), "whatever comes")
	c.tick(start.Add(150*ms), true, &out)
	require.Equal(t, 1, out.Len())
	c.tick(start.Add(152*ms), false, &out)
	require.Equal(t, 2, out.Len(), "they have been read, and it was not among them")
}

// A busySocket is a socket in which something waits, or not.
type busySocket struct {
	nowhere
	unread bool
	asked  int
}

func (s *busySocket) Features() socket.Features { return socket.Features{Peek: s} }
func (s *busySocket) Unread() bool              { s.asked++; return s.unread }

// A session asks its transport whether something is unread, once a tick at which
// something may have to be sent again.
func TestTickLooksForAcks(t *testing.T) {
	for _, unread := range []bool{true, false} {
		sock := &busySocket{nowhere: nowhere{make(chan struct{})}, unread: unread}
		m := datagram.NewMux(sock, datagram.MuxConfig{MaxDatagram: 1200})
		conn, err := m.Dial(netip.MustParseAddrPort("10.0.0.1:1"))
		require.NoError(t, err)
		s := &Server{}
		require.NoError(t, s.init())
		p := &Peer{server: s, stage: stageGone} // not in the lobby
		now := time.Now().Add(time.Hour)        // so that no timer is in the way
		p.s.init((*peerOwner)(p), conn, s.set, serverSide, now)
		p.s.core.state = stateConnected
		var out wire.Batch
		for range 5 {
			_, err = p.s.core.send(now, Reliable, []byte{0x10, 1}, &out)
			require.NoError(t, err)
		}
		out.Reset()
		p.s.HandleTick(now.Add(49*ms), &out)
		require.Zero(t, sock.asked)
		p.s.HandleTick(now.Add(50*ms), &out)
		require.Equal(t, 1, sock.asked)
		require.Equal(t, unread, out.Len() == 0)
		conn.Close()
		m.Close()
	}
}

// While nothing is acknowledged, only the two oldest messages are sent again;
// the others are when something is that left as late as they.
func TestProbes(t *testing.T) {
	c, r := newConnected(t, nil, clientSide)
	var out wire.Batch
	for range 31 {
		c.send(start, Reliable, []byte{0x10, 1}, &out)
	}
	at, sent := time.Duration(0), make(map[uint16]int)
	until := func(end time.Duration) {
		for ; at < end; at += ms {
			out.Reset()
			c.tick(start.Add(at), false, &out)
			for i := range out.Len() {
				p, _ := (codec{}).parse(clientSide, out.At(i))
				sent[p.seq]++
			}
		}
	}
	acked := func(ids ...uint16) {
		for _, id := range ids {
			out.Reset()
			(codec{}).appendAck(&out, ack{newest: id})
			c.receive(start.Add(at), out.At(0), new(wire.Batch))
		}
	}
	until(210 * ms)
	require.Equal(t, map[uint16]int{1: 4, 2: 4}, sent)

	acked(5) // late, so from now on it takes 236 ms
	clear(sent)
	until(400 * ms)
	require.Len(t, sent, 28)
	for id := uint16(3); id <= 31; id++ {
		require.Equal(t, id != 5, sent[id] == 1, "message %d: %d times", id, sent[id])
	}

	clear(sent)
	until(660 * ms)
	require.Equal(t, map[uint16]int{1: 1, 2: 1}, sent)
	acked(1) // it was sent later than those
	clear(sent)
	until(790 * ms)
	require.Len(t, sent, 29)
	require.Equal(t, 1, sent[2])
	require.Equal(t, []uint16{5, 1}, r.ids)
}

// A look at a message that comes late shows that the process has not run, so who
// reads is given as long to find an acknowledgement that has arrived, up to the time
// between two sends; once, and then the message is sent again.
func TestLateTick(t *testing.T) {
	c, _ := newConnected(t, nil, clientSide)
	var out wire.Batch
	c.send(start, Reliable, []byte{0x10, 1}, &out)
	resends := func(at time.Duration) int {
		out.Reset()
		c.tick(start.Add(at), false, &out)
		return out.Len()
	}
	require.Zero(t, resends(70*ms), "20 ms late")
	require.Equal(t, start.Add(90*ms), c.sender.due)
	require.Zero(t, resends(89*ms))
	require.Equal(t, 1, resends(95*ms), "late again")
	require.Equal(t, 1, resends(95*ms+51*ms), "a little late")

	// After a pause of the process that was longer it is given no more than the
	// time between two sends.
	c, _ = newConnected(t, nil, clientSide)
	c.send(start, Reliable, []byte{0x10, 1}, &out)
	require.Zero(t, resends(4*time.Second))
	require.Equal(t, start.Add(4*time.Second+50*ms), c.sender.due)
	require.Equal(t, 1, resends(4*time.Second+50*ms))

	// The acknowledgement that was waiting.
	c, _ = newConnected(t, nil, clientSide)
	c.send(start, Reliable, []byte{0x10, 1}, &out)
	require.Zero(t, resends(70*ms))
	out.Reset()
	(codec{}).appendAck(&out, ack{newest: 1})
	c.receive(start.Add(71*ms), out.At(0), new(wire.Batch))
	require.Zero(t, resends(200*ms))
}

// A welcome without an answer is sent 15 times, whatever is thought of the
// quality, and it is the silence that ends the connection.
func TestWelcomeSends(t *testing.T) {
	for _, cfg := range []*Config{nil, {IgnoreQuality: true}} {
		set, err := newSettings(cfg)
		require.NoError(t, err)
		c, r := new(connection), new(recorder)
		c.init(set, serverSide, start, r)
		var out wire.Batch
		c.accept(start, 1, &out)
		for d := time.Duration(0); d < 4900*ms; d += ms {
			c.tick(start.Add(d), false, &out)
		}
		require.Equal(t, 15, out.Len())
		require.Equal(t, stateConnecting, c.state)
		c.tick(start.Add(5*time.Second), false, &out)
		require.Equal(t, stateClosed, c.state)
		require.Equal(t, 15, out.Len())
	}
}

// However much memory there may be, what waits has ids apart from those under
// way.
func TestManyQueued(t *testing.T) {
	c, _ := newConnected(t, &Config{SendBuffer: 1 << 30}, clientSide)
	var out wire.Batch
	n := 0
	for ; n < 1<<16; n++ {
		if _, err := c.send(start, Reliable, []byte{0x10}, &out); err != nil {
			require.Equal(t, ErrSendBuffer, err)
			break
		}
	}
	require.Equal(t, 31+maxQueued, n)
	require.Less(t, n, 1<<15)
}

// The limit of what waits is met to the byte.
func TestSendBufferExact(t *testing.T) {
	body := make([]byte, 100)
	c, _ := newConnected(t, &Config{SendBuffer: 20 * (100 + messageCost)}, clientSide)
	var out wire.Batch
	for range 20 {
		_, err := c.send(start, Reliable, body, &out)
		require.NoError(t, err)
	}
	_, err := c.send(start, Reliable, []byte{0x10}, &out)
	require.Equal(t, ErrSendBuffer, err)
}

// What is older than the first id that there can be has been received, as far as
// anybody can tell: no id from before the beginning is taken for new.
func TestBeforeTheFirst(t *testing.T) {
	var none history
	require.True(t, none.has(0))
	require.False(t, none.has(1))
	for _, first := range []uint16{1, 5, 63, 64, 1000} {
		var h history
		h.add(first)
		for id := uint16(1); id < first; id++ {
			require.False(t, h.has(id), "%d after %d", id, first)
		}
		for id := uint16(0); id > 0xffff-100 || id == 0; id-- {
			require.True(t, h.has(id), "%d after %d", id, first)
		}
	}
}
