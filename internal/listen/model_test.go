package listen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A model says what becomes of connections, by their addresses.
type model struct {
	size   int
	closed bool
	queue  []netip.AddrPort // that wait for Accept, some of them ended
	live   []netip.AddrPort
	ended  []netip.AddrPort
	calls  []*call
}

// A call is one of Shutdown.
type call struct {
	cancel   context.CancelFunc
	got      chan error
	returned bool // as the model has it
}

func (m *model) end(a netip.AddrPort, readable bool) {
	m.live = slices.DeleteFunc(m.live, func(x netip.AddrPort) bool { return x == a })
	m.ended = append(m.ended, a)
	if !readable {
		m.queue = slices.DeleteFunc(m.queue, func(x netip.AddrPort) bool { return x == a })
	}
}

// arrive is how a peer comes.
func (m *model) arrive(a netip.AddrPort) {
	waiting := 0
	for _, x := range m.queue {
		if slices.Contains(m.live, x) {
			waiting++
		}
	}
	switch {
	case m.closed:
	case waiting >= m.size:
		m.ended = append(m.ended, a)
	default:
		if len(m.queue) >= m.size { // the oldest that has ended gives way
			i := slices.IndexFunc(m.queue, func(x netip.AddrPort) bool { return !slices.Contains(m.live, x) })
			m.queue = slices.Delete(m.queue, i, i+1)
		}
		m.live, m.queue = append(m.live, a), append(m.queue, a)
	}
}

func (m *model) close() {
	for _, a := range slices.Clone(m.queue) {
		if slices.Contains(m.live, a) {
			m.end(a, false)
		}
	}
	m.closed, m.queue = true, nil
}

// A run is a model beside the real thing.
type run struct {
	t *testing.T
	n *simnet.Network
	l *toyListener
	m model
	r *rand.Rand

	peers int
	log   []string
}

func (r *run) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *run) step() {
	switch x := r.r.IntN(100); {
	case x < 45:
		r.arrive()
	case x < 65:
		r.accept()
	case x < 88:
		if len(r.m.live) > 0 {
			a := r.m.live[r.r.IntN(len(r.m.live))]
			r.note("end %v", a)
			c := r.l.conns[a]
			r.m.end(a, c.readable.Load())
			c.Close()
		}
	case x < 90:
		r.note("close")
		r.m.close()
		require.NoError(r.t, r.l.side.Close())
	case x < 95:
		r.shutdown()
	case len(r.m.calls) > 0:
		i := r.r.IntN(len(r.m.calls))
		r.note("cancel %d", i)
		r.cancel(r.m.calls[i])
	}
}

func (r *run) arrive() {
	payload := []string{"hello", "message"}[r.r.IntN(2)]
	sock := r.r.IntN(len(r.l.socks))
	r.note("arrive %v at %d with %q", peerAddr(r.peers), sock, payload)
	r.m.arrive(peerAddr(r.peers))
	if !r.m.closed { // else nobody may be there
		send(r.t, r.n, r.peers, sock, payload)
	}
	r.peers++
}

func (r *run) accept() {
	r.note("accept")
	r.l.side.SetDeadline(time.Now().Add(time.Second))
	c, err := r.l.side.AcceptConn(context.Background())
	if len(r.m.queue) == 0 {
		require.Error(r.t, err)
		return
	}
	require.NoError(r.t, err)
	require.Same(r.t, r.l.conns[r.m.queue[0]], c)
	r.m.queue = r.m.queue[1:]
}

func (r *run) shutdown() {
	r.note("shutdown")
	ctx, cancel := context.WithCancel(r.t.Context())
	c := &call{cancel: cancel, got: make(chan error, 1)}
	r.m.close()
	r.m.calls = append(r.m.calls, c)
	go func() { c.got <- r.l.side.Shutdown(ctx) }()
	synctest.Wait()
}

func (r *run) cancel(c *call) {
	c.cancel()
	if c.returned || len(r.m.live) == 0 {
		return
	}
	for _, a := range slices.Clone(r.m.live) {
		r.m.end(a, false)
	}
	synctest.Wait()
	select {
	case err := <-c.got:
		require.ErrorIs(r.t, err, context.Canceled)
	default:
		require.Fail(r.t, "Shutdown waits although its context is over")
	}
	c.returned = true
}

// check compares the two.
func (r *run) check() {
	synctest.Wait()
	for _, a := range r.m.live {
		require.False(r.t, r.l.conns[a].ended.Load(), "%v has ended", a)
	}
	for _, a := range r.m.ended {
		require.True(r.t, r.l.conns[a].ended.Load(), "%v has not ended", a)
	}
	require.Equal(r.t, len(r.m.live), r.l.side.Conns())
	over := r.m.closed && len(r.m.live) == 0
	for _, s := range r.l.socks {
		require.Equal(r.t, over, s.closed.Load() > 0, "socket closed")
	}
	for _, c := range r.m.calls {
		if c.returned {
			continue
		}
		select {
		case err := <-c.got:
			require.True(r.t, over, "Shutdown = %v with %d connections", err, len(r.m.live))
			require.NoError(r.t, err)
			c.returned = true
		default:
			require.False(r.t, over, "Shutdown waits for nothing")
		}
	}
	require.Equal(r.t, r.m.closed, r.l.stopped == 1, "stopped %d times", r.l.stopped)
}

// TestModel compares what becomes of connections, Close and Shutdown with a
// naive account, over random sequences of events.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			n := simnet.New(seed)
			defer n.Close()
			r := &run{t: t, n: n, r: rand.New(rand.NewPCG(seed, 1))}
			r.m.size = 1 + r.r.IntN(4)
			r.l = listenToy(t, n, 1+r.r.IntN(3), r.m.size)
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, backlog %d: %v", seed, r.m.size, r.log)
				}
			}()
			for range 60 {
				r.step()
				r.check()
			}
			r.shutdown()
			r.cancel(r.m.calls[len(r.m.calls)-1])
			r.check()
		})
	}
}
