package riptide

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/wire"
	"volley/simnet"
)

// A heartbeat is a sign of life at the server, which takes the round-trip time
// from it, if the client knows one.
func TestServerHeartbeat(t *testing.T) {
	c, _ := newConnected(t, nil, serverSide)
	beat := func(at time.Duration, rtt int16) {
		var in, out wire.Batch
		(codec{}).appendHeartbeat(&in, clientSide, 7, rtt)
		c.receive(start.Add(at), in.At(0), &out)
		require.Equal(t, []byte{0x74, 0}, out.At(0))
	}
	beat(4*time.Second, noRTT)
	require.Equal(t, start.Add(9*time.Second), c.deadline())
	require.Zero(t, c.stats().LastRTT)
	beat(5*time.Second, 0)
	require.Equal(t, ms, c.stats().LastRTT)
	beat(6*time.Second, 30)
	require.Equal(t, 30*ms, c.stats().LastRTT)
	require.Equal(t, start.Add(11*time.Second), c.deadline())
}

// An answer to one of the last heartbeats is a sign of life; the first one to the
// newest tells the round-trip time.
func TestHeartbeatAnswers(t *testing.T) {
	c, _ := newConnected(t, nil, clientSide)
	c.ping, c.pinged = 5, start
	answer := func(at time.Duration, ping uint8) {
		var in, out wire.Batch
		(codec{}).appendHeartbeat(&in, serverSide, ping, noRTT)
		c.receive(start.Add(at), in.At(0), &out)
		require.Zero(t, out.Len())
	}
	answer(10*ms, 3)
	require.Zero(t, c.stats().LastRTT)
	require.Equal(t, start.Add(10*ms), c.heard)
	answer(20*ms, 4)
	require.Equal(t, 20*ms, c.stats().LastRTT)
	answer(500*ms, 4)
	require.Equal(t, 20*ms, c.stats().LastRTT)
	require.Equal(t, start.Add(500*ms), c.heard)
	answer(600*ms, c.ping-16)
	require.Equal(t, start.Add(600*ms), c.heard)
	answer(700*ms, c.ping-17)
	require.Equal(t, start.Add(600*ms), c.heard)
}

// A decision may take PendingTimeout from when the client learns that it is
// pending, and an answer Timeout from when it was made.
func TestDecisionTimes(t *testing.T) {
	for _, pending := range []struct {
		layout layout
		b      []byte
	}{{packed, []byte{2}}, {notes, []byte{3, 2}}} {
		set, err := newSettings(&Config{NotesLayout: pending.layout == notes})
		require.NoError(t, err)
		c := new(connection)
		c.init(set, clientSide, start, new(recorder))
		var out wire.Batch
		c.connect(start, nil, &out)
		c.receive(start.Add(4*time.Second), pending.b, &out)
		require.Equal(t, start.Add(14*time.Second), c.deadline())

		c.init(set, serverSide, start, new(recorder))
		require.Equal(t, start.Add(10*time.Second), c.deadline())
		c.accept(start.Add(8*time.Second), 1, &out)
		require.Equal(t, start.Add(13*time.Second), c.deadline())
	}
}

// A negative time-out is none, and one of zero is over at once; a client that nobody
// has answered has none, for it counts its attempts.
func TestTimeoutSettings(t *testing.T) {
	for _, s := range []side{clientSide, serverSide} {
		c, r := newConnected(t, nil, s)
		for _, test := range []struct{ timeout, want time.Duration }{{-1, -1}, {0, 0}, {1, 1}, {time.Second, time.Second}} {
			c.set.timeout = test.timeout
			if test.want < 0 {
				require.Zero(t, c.deadline())
				continue
			}
			require.Equal(t, start.Add(test.want), c.deadline())
		}
		c.state = stateConnecting
		require.Equal(t, s == clientSide, c.deadline().IsZero())
		c.state = stateConnected
		c.tick(start.Add(time.Second-1), false, new(wire.Batch))
		require.Zero(t, r.ends)
		c.tick(start.Add(time.Second), false, new(wire.Batch))
		require.Equal(t, endTimeout, r.end)
	}
}

// Two connects 400 ms apart show that a connected client has started anew; a
// client that has not answered its acceptance has only not heard of it.
func TestRestartTimes(t *testing.T) {
	for _, test := range []struct {
		state connState
		apart time.Duration
		ends  int
	}{{stateConnected, 399 * ms, 0}, {stateConnected, 400 * ms, 1}, {stateConnecting, time.Second, 0}, {statePending, time.Second, 0}} {
		c, r := newConnected(t, nil, serverSide)
		c.state = test.state
		var out wire.Batch
		c.receive(start, []byte{2}, &out)
		c.receive(start.Add(test.apart), []byte{2}, &out)
		require.Equal(t, test.ends, r.ends, "%+v", test)
		require.Zero(t, out.Len())
	}
}

// A figure has to be poor for 64 messages in a row.
func TestQualityInARow(t *testing.T) {
	var q quality
	for range 3 {
		for range qualityWindow - 1 {
			require.False(t, q.delivered(6, 5))
			require.False(t, q.notified(false, 0))
		}
		require.False(t, q.delivered(6, 6))
		require.False(t, q.notified(false, 1))
	}
}

// Over a stream a datagram may be as long as the longest message, and no longer.
func TestStreamFrameLimit(t *testing.T) {
	set, err := newSettings(nil)
	require.NoError(t, err)
	s := newStream(nil, set)
	frame := func(n int) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(n)), make([]byte, n)...)
	}
	d, rest, err := s.cut(append(frame(1231), 9))
	require.NoError(t, err)
	require.Len(t, d, 1231)
	require.Equal(t, []byte{9}, rest)
	_, _, err = s.cut(frame(1232))
	require.ErrorAs(t, err, new(*lengthError))
}

// A client that was accepted and does not answer gives way to another one after a
// second, and not when it times out.
func TestUnansweredGivesWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, &Server{MaxClients: 1}, simnet.Link{Latency: ms})
		silent, err := w.net.Dial("10.0.0.2:1", serverAddr)
		require.NoError(t, err)
		defer silent.Close()
		_, err = silent.Write([]byte{byte(typeConnect)})
		require.NoError(t, err)
		time.Sleep(1100 * ms)
		c := &Client{}
		begin := time.Now()
		w.mustDial(c, "10.0.0.3:1")
		require.Less(t, time.Since(begin), 2*time.Second)
		c.Close()
		w.close()
	})
}

// A client that goes while it is decided about takes no place, whatever the
// decision is.
func TestGoneBeforeDecision(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		s := j.server(&Server{MaxClients: 1})
		s.Accept = func(context.Context, *Request) error { time.Sleep(time.Second); return nil }
		w := newWorld(t, s, simnet.Link{Latency: ms})
		gone, err := w.net.Dial("10.0.0.2:1", serverAddr)
		require.NoError(t, err)
		defer gone.Close()
		for _, typ := range []packetType{typeConnect, typeDisconnect} {
			_, err = gone.Write([]byte{byte(typ)})
			require.NoError(t, err)
			time.Sleep(100 * ms)
		}
		time.Sleep(time.Second)
		j.want(t)
		c := j.client("c", nil)
		w.mustDial(c, "10.0.0.3:1")
		require.EqualValues(t, 1, c.ID())
		c.Close()
		w.close()
	})
}

// A connect that is longer than any message makes no connection.
func TestLongConnect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, &Server{}, simnet.Link{Latency: ms})
		conn, err := w.net.Dial("10.0.0.2:1", serverAddr)
		require.NoError(t, err)
		defer conn.Close()
		for _, n := range []int{1232, 1231} {
			b := make([]byte, n)
			b[0] = byte(typeConnect)
			_, err = conn.Write(b)
			require.NoError(t, err)
			time.Sleep(10 * ms)
			w.server.mu.Lock()
			peers := len(w.server.lobby.peers)
			w.server.mu.Unlock()
			require.Equal(t, n == 1231, peers == 1)
		}
		w.close()
	})
}

// Messages that the connection cannot carry are refused when they are sent.
func TestUnsendable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &Server{}
		w := newWorld(t, s, simnet.Link{Latency: ms})
		c := &Client{}
		require.ErrorIs(t, c.Send(NewMessage(Reliable, 1)), errNotConnected)
		w.mustDial(c, "10.0.0.2:1")
		time.Sleep(100 * ms)
		large := (&Config{MaxPayload: 2000}).NewMessage(Reliable, 1)
		AddArray(large, make([]byte, 1231-2-1))
		broken := NewMessage(Reliable, 1)
		broken.SkipBits(1)
		for _, test := range []struct {
			m    *Message
			want error
		}{{nil, errNilMessage}, {NewData(), ErrRange}, {broken, errMessageEnd}, {large, ErrMessageFull},
			{(&Config{NotesLayout: true}).NewMessage(Reliable, 1), errLayout}} {
			require.ErrorIs(t, c.Send(test.m), test.want)
			require.ErrorIs(t, s.Peer(1).Send(test.m), test.want)
			require.ErrorIs(t, s.SendAll(test.m), test.want)
		}
		require.Zero(t, c.Stats().MessagesSent[Reliable]+s.Stats().MessagesSent[Reliable])
		c.Close()
		w.close()
	})
}

// A notedConn notes what is written, and takes everything.
type notedConn struct {
	datagram.Conn
	wrote [][]byte
}

func (c *notedConn) WriteBatch(b *wire.Batch) error {
	for i := range b.Len() {
		c.wrote = append(c.wrote, bytes.Clone(b.At(i)))
	}
	return nil
}

func (c *notedConn) Schedule(time.Time) {}

// When a client learns that it is connected its answer to the welcome has left, so
// nothing that it sends overtakes that.
func TestAnswerBeforeConnected(t *testing.T) {
	set, err := newSettings(nil)
	require.NoError(t, err)
	conn := new(notedConn)
	connected := make(chan int, 1)
	cc := &clientConn{ready: make(chan struct{}), done: make(chan struct{})}
	cc.client = &Client{Connected: func(*Client) { connected <- len(conn.wrote) }}
	cc.s.init((*clientOwner)(cc), conn, set, clientSide, start)
	cc.s.do(func(now time.Time, c *connection, out *wire.Batch) { c.connect(now, nil, out) })
	require.Len(t, conn.wrote, 1)
	var in, out wire.Batch
	body := set.idBody(1)
	set.appendReliable(&in, typeWelcome, 1, body[:])
	cc.s.HandleBatch(time.Now(), [][]byte{in.At(0)}, &out)
	<-cc.ready
	require.Greater(t, <-connected, 1)
	require.Zero(t, out.Len(), "what leaves only when the batch has been handled")
	welcome, _ := set.parse(clientSide, conn.wrote[len(conn.wrote)-1])
	require.Equal(t, typeWelcome, welcome.typ)
}

// Errors match net.ErrClosed if this side has closed the connection, and only then.
func TestErrorsOfClosedConnections(t *testing.T) {
	for name, test := range map[string]struct {
		close        func(*Client, *Peer)
		client, peer bool
	}{
		"Close": {func(c *Client, p *Peer) { c.Close() }, true, false},
		"Kick":  {func(c *Client, p *Peer) { p.Kick(nil) }, false, true},
	} {
		bubble(t, func(t *testing.T) {
			s := &Server{}
			w := newWorld(t, s, simnet.Link{Latency: ms})
			c := &Client{}
			w.mustDial(c, "10.0.0.2:1")
			time.Sleep(100 * ms)
			p := s.Peer(1)
			test.close(c, p)
			time.Sleep(100 * ms)
			m := NewMessage(Reliable, 1)
			for _, err := range []error{c.Err(), c.Send(m)} {
				require.Equal(t, test.client, errors.Is(err, net.ErrClosed), "%s: client: %v", name, err)
				require.ErrorAs(t, err, new(*DisconnectError))
			}
			require.Equal(t, test.peer, errors.Is(p.Send(m), net.ErrClosed), "%s: server: %v", name, p.Send(m))
			require.ErrorAs(t, p.Send(m), new(*DisconnectError))
			w.close()
		})
	}
}
