package riptide

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"

	"volley/internal/testenv"
)

// A counter counts numbered messages by mode, at one end.
type counter struct {
	mu   sync.Mutex
	seen [numModes]map[uint32]int
}

func newCounter() *counter {
	c := new(counter)
	for i := range c.seen {
		c.seen[i] = make(map[uint32]int)
	}
	return c
}

func (c *counter) add(m *Message) error {
	n := Read[uint32](m)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[m.Mode()][n]++
	return m.Err()
}

// most returns how many different messages of a mode came, and how often one
// of them at most.
func (c *counter) most(m Mode) (different, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.seen[m] {
		most = max(most, n)
	}
	return len(c.seen[m]), most
}

// A fateLog is the fates of notify messages, in the order in which they were told.
type fateLog struct {
	mu        sync.Mutex
	ids       []uint16
	delivered []bool
}

func (l *fateLog) add(id uint16, delivered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids, l.delivered = append(l.ids, id), append(l.delivered, delivered)
}

// check checks that almost all of n messages, numbered from 0, have one fate each,
// in order, and that it is true: what is lost but for what is counted as unknown has
// not arrived.
func (l *fateLog) check(t *testing.T, n int, arrived map[uint32]int, unknown uint64) {
	t.Helper()
	require.Greater(t, len(l.ids), n-50)
	wrong := uint64(0)
	for i, id := range l.ids {
		require.EqualValues(t, i+1, id)
		if l.delivered[i] {
			require.Equal(t, 1, arrived[uint32(i)], "message %d", i)
		} else if arrived[uint32(i)] > 0 {
			wrong++
		}
	}
	require.LessOrEqual(t, wrong, unknown)
	require.Less(t, unknown, uint64(n/10))
}

// TestLossyServer sends 10,000 messages of each mode both ways through a
// network that loses a fifth, repeats some, and changes their order. Those without
// an id come once where copies are looked for.
func TestLossyServer(t *testing.T) {
	n := testenv.Raced(10_000, 2000)
	for _, cfg := range []*Config{{}, {DuplicateWindow: 200 * ms}, {NotesLayout: true, DuplicateWindow: 200 * ms}} {
		bubble(t, func(t *testing.T) {
			layout, once := cfg.layout(), cfg.DuplicateWindow > 0
			cfg.IgnoreQuality, cfg.Timeout = true, time.Minute
			up, down := newCounter(), newCounter()
			var delivered atomic.Int64
			var upFates, downFates fateLog
			s := &Server{
				Config:     cfg,
				Unhandled:  func(_ *Peer, m *Message) error { return up.add(m) },
				Notify:     func(_ *Peer, m *Message) error { return up.add(m) },
				NotifyFate: func(_ *Peer, id uint16, ok bool) { downFates.add(id, ok) },
			}
			w := newWorld(t, s, simnet.Link{Latency: 15 * ms, Jitter: 10 * ms, Loss: 0.2, Duplicate: 0.1, Reorder: 0.1})
			c := &Client{
				Config:     cfg,
				Unhandled:  func(_ *Client, m *Message) error { return down.add(m) },
				Notify:     func(_ *Client, m *Message) error { return down.add(m) },
				Delivered:  func(*Client, uint16) { delivered.Add(1) },
				NotifyFate: func(_ *Client, id uint16, ok bool) { upFates.add(id, ok) },
			}
			for c.ID() == 0 { // every connect may be lost
				w.dial(c, "10.0.0.2:0")
			}
			for s.Peer(1) == nil && len(s.Peers()) == 0 {
				time.Sleep(10 * ms)
			}
			p := s.Peers()[0]
			for i := range n {
				for _, m := range []Mode{Unreliable, Notify, Reliable} {
					if err := c.Send(numbered(cfg, m, i)); err != nil {
						t.Fatal(err)
					}
					if err := p.Send(numbered(cfg, m, i)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(8 * ms)
			}
			for c.Stats().Unacknowledged > 0 || p.Stats().Unacknowledged > 0 {
				time.Sleep(10 * ms)
			}
			synctest.Wait()
			for name, counts := range map[string]*counter{"server": up, "client": down} {
				if got, most := counts.most(Reliable); got != n || most != 1 {
					t.Errorf("%v: %s: %d reliable messages, one of them %d times", layout, name, got, most)
				}
				if got, most := counts.most(Notify); got < n/2 || most != 1 {
					t.Errorf("%v: %s: %d notify messages, one of them %d times", layout, name, got, most)
				}
				if got, most := counts.most(Unreliable); got < n*7/10 || got > n*9/10 || (most == 1) != once {
					t.Errorf("%v: %s: %d unreliable messages, one of them %d times", layout, name, got, most)
				}
			}
			for _, st := range []Stats{c.Stats(), p.Stats()} {
				if dropped := st.UnreliableDuplicates; (dropped > uint64(n/50)) != once {
					t.Errorf("%v: %d copies dropped", layout, dropped)
				}
			}
			if delivered.Load() < int64(n) {
				t.Errorf("%v: %d delivered", layout, delivered.Load())
			}
			if layout == packed {
				upFates.check(t, n, up.seen[Notify], c.Stats().NotifyUnknown)
				downFates.check(t, n, down.seen[Notify], p.Stats().NotifyUnknown)
			}
			c.Close()
			w.close()
		})
	}
}

// TestThousandClients: a thousand clients at 60 Hz on one server, for some
// seconds of virtual time.
func TestThousandClients(t *testing.T) {
	clients, frames := 1000, 120
	if testing.Short() || testenv.Race {
		clients, frames = 200, 60
	}
	bubble(t, func(t *testing.T) {
		var up, down, ended atomic.Int64
		s := &Server{
			MaxClients:      clients,
			MaxPending:      clients,
			NoAnnouncements: true,
			Unhandled:       func(*Peer, *Message) error { up.Add(1); return nil },
			Disconnected:    func(*Peer, Reason) { ended.Add(1) },
		}
		w := newWorld(t, s, simnet.Link{Latency: 20 * ms})
		list := make([]*Client, clients)
		var dials sync.WaitGroup
		for i := range list {
			list[i] = &Client{Unhandled: func(*Client, *Message) error { down.Add(1); return nil }}
			dials.Go(func() {
				if err := w.dial(list[i], fmt.Sprintf("10.0.%d.%d:1", 1+i/200, 1+i%200)); err != nil {
					t.Error(err)
				}
			})
		}
		dials.Wait()
		time.Sleep(100 * ms)
		for i := range frames {
			for _, c := range list {
				c.Send(numbered(nil, Unreliable, i))
			}
			if i%6 == 0 {
				s.SendAll(numbered(nil, Reliable, i))
			}
			s.SendAll(numbered(nil, Unreliable, i))
			time.Sleep(time.Second / 60)
		}
		time.Sleep(time.Second)
		sent := int64(frames + (frames+5)/6)
		if up.Load() != int64(clients*frames) || down.Load() != int64(clients)*sent || ended.Load() > 0 {
			t.Errorf("%d messages up, %d down, %d ended; want %d, %d", up.Load(), down.Load(), ended.Load(), clients*frames, int64(clients)*sent)
		}
		if st := s.Stats(); st.MessagesResent > 0 || st.MessagesSent[Reliable] != uint64(clients*((frames+5)/6)) {
			t.Errorf("%+v", st)
		}
		for _, c := range list {
			c.Close()
		}
		time.Sleep(time.Second)
		if n := len(s.Peers()); n != 0 || ended.Load() != int64(clients) {
			t.Errorf("%d clients left, %d ended", n, ended.Load())
		}
		if st := s.Stats(); st.MessagesReceived[Unreliable] != uint64(clients*frames) {
			t.Errorf("of those that have gone %+v", st)
		}
		w.close()
	})
}

// TestServerBlackout: nothing gets through for three seconds, which ends no
// connection; what was sent meanwhile arrives.
func TestServerBlackout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := newCounter()
		s := &Server{Config: &Config{IgnoreQuality: true}, Unhandled: func(_ *Peer, m *Message) error { return up.add(m) }}
		w := newWorld(t, s, simnet.Link{Latency: 20 * ms})
		c := &Client{Config: &Config{IgnoreQuality: true}}
		w.mustDial(c, "10.0.0.2:1")
		time.Sleep(time.Second)
		w.net.SetDefault(simnet.Link{Loss: 1})
		for i := range 100 {
			c.Send(numbered(nil, Reliable, i))
			time.Sleep(30 * ms)
		}
		w.net.SetDefault(simnet.Link{Latency: 20 * ms})
		time.Sleep(3 * time.Second)
		if got, most := up.most(Reliable); got != 100 || most != 1 || len(s.Peers()) != 1 {
			t.Errorf("%d messages, one %d times, %d clients", got, most, len(s.Peers()))
		}
		c.Close()
		w.close()
	})
}

// TestSlowHandler: while the handler of one client waits, the others go on;
// what waits for it is bounded, and reliable messages that find no room come
// again, so that none is lost.
func TestSlowHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 2000
		up := newCounter()
		release := make(chan struct{})
		var fast atomic.Int64
		s := &Server{
			Config: &Config{ReadBuffer: 20_000, IgnoreQuality: true},
			Unhandled: func(p *Peer, m *Message) error {
				if p.ID() == 2 {
					fast.Add(1)
					return nil
				}
				<-release
				return up.add(m)
			},
		}
		w := newWorld(t, s, simnet.Link{Latency: 5 * ms})
		slow, quick := &Client{Config: &Config{IgnoreQuality: true}}, &Client{}
		w.mustDial(slow, "10.0.0.2:1")
		w.mustDial(quick, "10.0.0.3:1")
		for i := range n {
			slow.Send(numbered(nil, Reliable, i))
			quick.Send(numbered(nil, Reliable, i))
			time.Sleep(ms)
		}
		time.Sleep(time.Second)
		if fast.Load() != n {
			t.Errorf("%d messages of the other client handled, want %d", fast.Load(), n)
		}
		p := s.Peer(1)
		if held := p.s.held.Load(); held > 20_000 || held < 15_000 {
			t.Errorf("%d bytes held", held)
		}
		if st := p.Stats(); st.MessagesRefused == 0 {
			t.Error("nothing was refused")
		}
		close(release)
		time.Sleep(20 * time.Second)
		if got, most := up.most(Reliable); got != n || most != 1 {
			t.Errorf("%d messages, one %d times, want %d", got, most, n)
		}
		slow.Close()
		quick.Close()
		w.close()
	})
}

// TestSendBufferKicks: a client that takes nothing in is disconnected when too
// much waits for it.
func TestSendBufferKicks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		s := j.server(&Server{Config: &Config{SendBuffer: 10_000, MaxSends: -1, Timeout: -1}})
		w := newWorld(t, s, simnet.Link{Latency: 5 * ms})
		a, b := j.client("a", nil), j.client("b", nil)
		a.Unhandled, b.Unhandled = nil, nil
		w.mustDial(a, "10.0.0.2:1")
		w.mustDial(b, "10.0.0.3:1")
		time.Sleep(100 * ms)
		j.take()
		w.net.SetLink(addrOf("10.0.0.2"), addrOf("10.0.0.1"), simnet.Link{Loss: 1}) // its acks
		var errs int
		for i := range 300 {
			if err := s.SendAll(numbered(nil, Reliable, i)); err != nil {
				errs++
			}
			time.Sleep(ms)
		}
		j.want(t, "server: 1 poor connection", "a: kicked: ", "b: 1 has gone")
		if errs > 0 {
			t.Errorf("%d errors of SendAll", errs)
		}
		b.Close()
		w.close()
	})
}

// TestShutdown: what was sent reliably arrives, functions that run are waited
// for, and nobody gets in.
func TestShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var done atomic.Bool
		s := &Server{Disconnected: func(*Peer, Reason) { time.Sleep(time.Second); done.Store(true) }}
		w := newWorld(t, s, simnet.Link{Latency: 50 * ms, Loss: 0.2})
		down := newCounter()
		c := &Client{Unhandled: func(_ *Client, m *Message) error { return down.add(m) }}
		w.mustDial(c, "10.0.0.2:1")
		time.Sleep(time.Second)
		for i := range 200 {
			s.SendAll(numbered(nil, Reliable, i))
		}
		go func() {
			time.Sleep(10 * ms)
			if err := w.dial(&Client{}, "10.0.0.3:1"); err == nil {
				t.Error("somebody got in")
			}
		}()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if !done.Load() {
			t.Error("Disconnected was not waited for")
		}
		time.Sleep(10 * time.Second)
		if got, _ := down.most(Reliable); got != 200 {
			t.Errorf("%d messages arrived, want 200", got)
		}
		if err := <-w.served; err != errServerClosed {
			t.Errorf("ServeOn = %v", err)
		}
		if err := s.ListenAndServe("udp", "127.0.0.1:0"); err != errServerClosed {
			t.Errorf("serving again: %v", err)
		}
		<-c.Done()
		w.net.Close()
	})
}
