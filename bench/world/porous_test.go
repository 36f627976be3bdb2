package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"volley"
	"volley/porous"
)

// A porousLink is a channel of a porous.Conn.
type porousLink struct {
	*porous.Channel
	conn *porous.Conn
	mode porous.Mode
	own  chan []porous.Receipt // of this channel; closed after the last
	// patience is how long a write waits for room. A Handler holds up all others meanwhile.
	patience time.Duration
	*ending
}

// An ending is the end of a connection, the same for all its channels.
type ending struct {
	over chan struct{} // closed at the end
	once sync.Once
	why  error          // what the first channel was told that has met the end; constant once over is closed
	read sync.WaitGroup // for the readers of all channels

	mu    sync.Mutex
	flows []*flow // of all channels
}

// end notes the end, and returns why that is. The peer may have been told.
func (e *ending) end(err error) error {
	e.once.Do(func() {
		e.why = err
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, f := range e.flows {
			f.leave()
			f.noteClose(f.from, f.to)
		}
		close(e.over)
	})
	return e.why
}

func (l *porousLink) read(ctx context.Context, dst []byte) ([]byte, uint64, error) {
	msg, err := l.ReadMessage(ctx, dst)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		err = l.end(err) // else the others would be told what the application makes of it, a Close
	}
	return msg, 0, err
}

func (l *porousLink) write(b []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	return l.WriteMessage(ctx, b, l.mode)
}

func (l *porousLink) fates(f func(uint64, volley.Fate)) error {
	rs, ok := <-l.own
	if !ok {
		return net.ErrClosed
	}
	for _, r := range rs {
		fate := volley.Lost
		if r.Fate == porous.Delivered {
			fate = volley.Delivered
		}
		f(r.ID, fate)
	}
	return nil
}

func (l *porousLink) close() error {
	err := l.conn.Close()
	l.end(net.ErrClosed)
	return err
}

func (l *porousLink) max() int                  { return l.MaxMessageSize() }
func (l *porousLink) pin() (pin, time.Duration) { return pinTo(l.conn), 4 * lag }

// ended reports whether a channel has met the end.
func (l *porousLink) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

func (l *porousLink) look() {
	l.conn.Stats()
	_ = l.conn.Explain().String()
}

func (l *porousLink) explain() string {
	return fmt.Sprintf("%v %+v", l.conn.Explain(), l.conn.Stats())
}

const porousChannels = 3

// porousEnd makes the ends of all channels of a connection, and returns the first.
func (w *world) porousEnd(c *porous.Conn, home, peer int, exact, served bool) *end {
	var own [porousChannels]chan []porous.Receipt
	over := &ending{over: make(chan struct{})}
	over.read.Add(porousChannels)
	c.AppendReceipts(nil)
	var first *end
	patience := sendWait
	if served {
		patience = time.Millisecond
	}
	for i, mode := range []porous.Mode{porous.Reliable, porous.Unreliable, porous.Passive} {
		own[i] = make(chan []porous.Receipt)
		l := &porousLink{c.Channel(i), c, mode, own[i], patience, over}
		p := promises{once: true, ordered: true, reliable: mode == porous.Reliable, skipped: mode != porous.Reliable, exact: exact}
		e := newEnd(w.book, l, route{home: home, peer: peer, promises: p, fates: true, served: served, dialed: home >= len(w.plan.servers)})
		over.mu.Lock()
		over.flows = append(over.flows, e.flow)
		over.mu.Unlock()
		if first == nil {
			first = e
		} else {
			first.others = append(first.others, e)
		}
	}
	go distribute(c, own[:], over.over)
	return first
}

// distribute hands receipts to the channels until the connection has ended.
func distribute(c *porous.Conn, own []chan []porous.Receipt, over chan struct{}) {
	for last := false; ; {
		var rs [porousChannels][]porous.Receipt
		for _, r := range c.AppendReceipts(nil) {
			rs[r.Channel] = append(rs[r.Channel], r)
		}
		for i := range rs {
			if len(rs[i]) > 0 {
				own[i] <- rs[i]
			}
		}
		if last {
			break
		}
		select {
		case <-over:
			time.Sleep(8 * time.Second) // a Close may wait
			last = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	for i := range own {
		close(own[i])
	}
}

func (w *world) porousConfig() *porous.Config {
	return &porous.Config{
		Channels: porousChannels, MaxMessageSize: largestSize, ReceiveBuffer: 256 << 10, SendBuffer: 256 << 10,
		Congestion: congestionOf(w.plan.seed), Redundancy: w.plan.seed/4%4 == 0,
		VerifyDisconnect: w.plan.seed/16%2 == 0, Capture: w.recorder,
	}
}

// A porousServer accepts connections of package porous.
type porousServer struct {
	*porous.Listener
	w     *world
	home  int
	exact bool            // over sessions
	below func(over bool) // checks the sessions below; nil: there are none
}

func listenPorous(w *world, home int, pc net.PacketConn) (server, error) {
	lc := porous.ListenConfig{Config: w.porousConfig(), MaxMemory: memoryLimit(w.plan.servers[home])}
	l, err := lc.ListenOn(pc)
	return &porousServer{Listener: l, w: w, home: home}, err
}

func listenSealedPorous(w *world, home int, pc net.PacketConn) (server, error) {
	inner, err := listenSessions(w, home, pc)
	if err != nil {
		return nil, err
	}
	l, err := porous.NewListener(inner, w.porousConfig())
	return &porousServer{l, w, home, true, w.checkSessions(home, inner)}, err
}

func (s *porousServer) run(take func(*end)) {
	open := func(c *porous.Conn, served bool) *end {
		peer := s.w.hostOf(c.RemoteAddr())
		e := s.w.porousEnd(c, s.home, peer, s.exact && !s.w.plan.lies(s.home, peer) || !s.w.plan.forgeable(s.home, peer), served)
		take(e)
		return e
	}
	h := porous.Handler{
		Open:    func(c *porous.Conn) { c.SetValue(open(c, true)) },
		Message: func(c *porous.Conn, channel int, msg []byte) { c.Value().(*end).channel(channel).take(msg, 0) },
		Closed: func(c *porous.Conn, err error) {
			e := c.Value().(*end)
			e.link.(*porousLink).end(err)
			for i := range porousChannels {
				e.channel(i).finished(err)
			}
		},
	}
	s.w.handle(s.home, func() error {
		c, err := s.AcceptConn(context.Background())
		if err == nil {
			open(c, false)
		}
		return err
	}, func() error { return s.Serve(h) }, func() error { return s.Poll(h) })
}

func (s *porousServer) shutdown() error { return within(s.Shutdown) }
func (s *porousServer) close()          { s.Close() }

func (s *porousServer) check(over bool) {
	st := s.Stats()
	s.w.checkMemory(s.home, over, st.Conns, st.Memory, memoryLimit(s.w.plan.servers[s.home]))
	if s.below != nil {
		s.below(over)
	}
}

func dialPorous(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error) {
	d := porous.Dialer{Config: w.porousConfig()}
	c, err := d.DialOn(context.Background(), pc, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return nil, err
	}
	return w.porousEnd(c, home, peer, !w.plan.forgeable(home, peer), false), nil
}

func dialSealedPorous(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error) {
	inner, err := w.session(pc, to)
	if err != nil {
		return nil, err
	}
	cfg := w.porousConfig()
	cfg.SmallFrames = true // as over all sessions, also where a liar hides one
	c, err := porous.NewConn(w.within(inner, pc, home, peer), cfg)
	if err != nil {
		return nil, err
	}
	return w.porousEnd(c, home, peer, !w.plan.lies(home, peer), false), nil
}

func congestionOf(seed uint64) string {
	return []string{"cubic", "tolerant", "cubic", "paper"}[seed%4]
}
