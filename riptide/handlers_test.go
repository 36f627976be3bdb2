package riptide

import (
	"bytes"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A pair is a value of two fields.
type pair struct{ a, b uint16 }

func (p *pair) UnmarshalRiptide(m *Message) { p.a, p.b = Read[uint16](m), Read[uint16](m) }

// A logBuffer is what was logged, without the time.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// take returns what was logged since the last call, once everything rests.
func (l *logBuffer) take() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.buf.String()
	l.buf.Reset()
	return s
}

// shorts returns a message of some numbers.
func shorts(id uint16, v ...uint16) *Message {
	m := NewMessage(Reliable, id)
	AddArray(m, v)
	return m
}

// Messages go to the handler of their id, which may change while the server runs,
// or to Unhandled, or are dropped; values that cannot be read go to nobody, and an
// error is logged.
func TestHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		var l logBuffer
		s := &Server{Logger: l.logger()}
		w := newWorld(t, s, simnet.Link{Latency: ms})
		c := &Client{}
		w.mustDial(c, "10.0.0.2:1")
		time.Sleep(100 * ms)
		l.take()
		send := func(m *Message) {
			t.Helper()
			require.NoError(t, c.Send(m))
			time.Sleep(100 * ms)
		}
		s.Handle(1, func(p *Peer, m *Message) error {
			v := readValue[pair](m)
			if m.Err() == nil {
				j.add("%d: %v", p.ID(), v)
			}
			return m.Err()
		})
		send(shorts(1, 2, 3))
		j.want(t, "1: {2 3}")
		send(shorts(1, 2))
		j.want(t)
		require.Equal(t, "level=WARN msg=\"riptide: handler failed\" client=1 message=1 error=\"riptide: read past the end of the message\"\n", l.take())

		send(shorts(2, 7)) // nobody wants it
		s.Handle(2, func(_ *Peer, m *Message) error { j.add("first %d", Read[uint16](m)); return nil })
		send(shorts(2, 8))
		s.Handle(2, func(_ *Peer, m *Message) error { j.add("second %d", Read[uint16](m)); return nil })
		send(shorts(2, 9))
		s.Handle(2, nil)
		send(shorts(2, 10))
		j.want(t, "first 8", "second 9")
		require.Len(t, s.Peers(), 1, "errors end nothing by default")
		c.Close()
		time.Sleep(100 * ms)
		w.close()
		require.Contains(t, l.take(), "level=INFO msg=\"riptide: client disconnected\" client=1 remote=10.0.0.2:1 reason=disconnected")
	})
}

// With KickOnError the error of a handler ends the connection, at either end.
func TestKickOnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		var l logBuffer
		bad := errors.New("bad")
		s := j.server(&Server{KickOnError: true})
		s.Unhandled = func(*Peer, *Message) error { return bad }
		w := newWorld(t, s, simnet.Link{Latency: ms})
		c := j.client("c", nil)
		w.mustDial(c, "10.0.0.2:1")
		require.NoError(t, c.Send(shorts(1)))
		time.Sleep(100 * ms)
		j.want(t, "server: 1 connected", "server: 1 kicked", "c: kicked: ")

		c.Unhandled = func(*Client, *Message) error { return bad }
		c.Logger = l.logger()
		w.mustDial(c, "10.0.0.2:1")
		time.Sleep(100 * ms)
		j.want(t, "server: 2 connected")
		require.NoError(t, s.SendAll(shorts(5)))
		time.Sleep(100 * ms)
		j.want(t)
		require.Equal(t, "level=WARN msg=\"riptide: handler failed\" message=5 error=bad\n", l.take())
		c.Close()
		<-c.Done()
		c.KickOnError = true
		w.mustDial(c, "10.0.0.2:1")
		time.Sleep(100 * ms)
		j.take()
		require.NoError(t, s.SendAll(shorts(5)))
		time.Sleep(100 * ms)
		j.want(t, "c: disconnected", "server: 3 disconnected")
		w.close()
	})
}

// A client that was accepted and never answers is told of by ConnectionFailed,
// and its place becomes free.
func TestConnectionFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		w := newWorld(t, j.server(&Server{MaxClients: 1}), simnet.Link{Latency: ms})
		silent, err := w.net.Dial("10.0.0.2:1", serverAddr)
		require.NoError(t, err)
		defer silent.Close()
		_, err = silent.Write([]byte{byte(typeConnect)})
		require.NoError(t, err)
		time.Sleep(4900 * ms)
		j.want(t)
		time.Sleep(200 * ms)
		j.want(t, "server: 1 failed")
		c := j.client("c", nil)
		w.mustDial(c, "10.0.0.3:1")
		time.Sleep(100 * ms)
		j.want(t, "server: 1 connected")
		c.Close()
		w.close()
	})
}

// A connection on which nothing is acknowledged ends, unless its quality is not to
// count, which can be set while it is there.
func TestSetIgnoreQuality(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		s := j.server(&Server{})
		w := newWorld(t, s, simnet.Link{Latency: ms})
		a, b := j.client("a", nil), j.client("b", nil)
		w.mustDial(a, "10.0.0.2:1")
		w.mustDial(b, "10.0.0.3:1")
		time.Sleep(100 * ms)
		j.take()
		b.SetIgnoreQuality(true)
		s.Peer(2).SetIgnoreQuality(true)
		dark := func() {
			w.net.SetDefault(simnet.Link{Loss: 1})
			time.Sleep(2 * time.Second)
			w.net.SetDefault(simnet.Link{Latency: ms})
			time.Sleep(time.Second)
		}
		require.NoError(t, a.Send(text(nil, Reliable, 1, "lost")))
		time.Sleep(100 * ms)
		j.take()
		go func() {
			time.Sleep(ms)
			a.Send(text(nil, Reliable, 1, "from a"))
			b.Send(text(nil, Reliable, 1, "from b"))
			s.Peer(2).Send(text(nil, Reliable, 1, "to b"))
		}()
		dark()
		j.want(t, "a: poor connection", "server: 2: reliable message 1: from b", "b: reliable message 1: to b")
		b.SetIgnoreQuality(false)
		go func() {
			time.Sleep(ms)
			b.Send(text(nil, Reliable, 1, "again"))
		}()
		dark() // of a, which has said nothing, the server has not heard for 5 s now
		j.want(t, "b: poor connection", "server: 1 timed out")
		w.close()
	})
}

// The Stats of a server are the sum of those of its clients, also of those that
// have gone.
func TestServerStats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &Server{}
		w := newWorld(t, s, simnet.Link{Latency: ms})
		a, b := &Client{}, &Client{}
		w.mustDial(a, "10.0.0.2:1")
		w.mustDial(b, "10.0.0.3:1")
		for range 3 {
			require.NoError(t, a.Send(shorts(1)))
		}
		require.NoError(t, b.Send(shorts(1)))
		time.Sleep(100 * ms)
		require.EqualValues(t, 3, s.Peer(1).Stats().MessagesReceived[Reliable])
		require.EqualValues(t, 4, s.Stats().MessagesReceived[Reliable])
		a.Close()
		time.Sleep(100 * ms)
		require.EqualValues(t, 4, s.Stats().MessagesReceived[Reliable])
		w.net.SetDefault(simnet.Link{Loss: 1})
		require.NoError(t, s.SendAll(shorts(1, 2)))
		st := s.Stats()
		require.Equal(t, 1, st.Unacknowledged)
		require.Equal(t, s.Peer(2).Stats().QueuedBytes, st.QueuedBytes)
		require.Positive(t, st.QueuedBytes)
		b.Close()
		w.close()
	})
}
