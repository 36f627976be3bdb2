package datagram

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/internal/wire"
)

// A counter is a Runner.
type counter struct{ runs int }

func (c *counter) Run() { c.runs++ }

// A Runner runs once after all packets that were there, on the reader's goroutine,
// and not again.
func TestAfterRead(t *testing.T) {
	var m *Mux
	var runner counter
	var seen []int // how often it had run at each batch
	a := &fakeAcceptor{handler: func(c Conn) Handler {
		return &fakeHandler{batch: func([][]byte, *wire.Batch) {
			require.True(t, c.Features().After == AfterReader(m))
			seen = append(seen, runner.runs)
			m.AfterRead(&runner)
			m.AfterRead(&runner)
		}}
	}}
	withMux(t, MuxConfig{}, a, func(t *testing.T, mux *Mux, s *fakeSocket) {
		m = mux
		s.in <- append(from(peerAddr(1), "a", "b"), from(peerAddr(2), "c")...)
		synctest.Wait()
		require.Equal(t, 1, runner.runs)
		s.in <- from(peerAddr(1), "d")
		synctest.Wait()
		require.Equal(t, 2, runner.runs)
		require.Equal(t, []int{0, 0, 1}, seen)
		require.Empty(t, m.reading.after[:1][0], "it is forgotten")
	})
}

// Although there are always more packets, Runners run now and then.
func TestAfterReadInFlood(t *testing.T) {
	m := NewMux(newFakeSocket(), MuxConfig{})
	var runner counter
	m.AfterRead(&runner)
	for range runAfter/readPackets - 1 {
		m.handlePackets(time.Now(), make([]socket.Packet, readPackets))
	}
	require.Zero(t, runner.runs)
	m.handlePackets(time.Now(), make([]socket.Packet, readPackets))
	require.Equal(t, 1, runner.runs)
}

// A socket that cannot be read without waiting is read as before.
func TestPollElsewhere(t *testing.T) {
	a := &fakeAcceptor{handler: func(Conn) Handler { return new(fakeHandler) }}
	withMux(t, MuxConfig{}, a, func(t *testing.T, m *Mux, s *fakeSocket) {
		m.Poll()
		s.in <- from(peerAddr(1), "a")
		synctest.Wait()
		require.Equal(t, []string{"a"}, a.peer(0).handler.(*fakeHandler).received())
		m.Poll()
	})
}
