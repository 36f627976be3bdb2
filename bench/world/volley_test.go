package world

import (
	"context"
	"net"
	"net/netip"
	"time"

	"volley"
	"volley/netcode"
	"volley/secure"
)

// A volleyLink is a volley.Conn.
type volleyLink struct {
	*volley.Conn
	receipts []volley.Receipt
}

func (l *volleyLink) read(ctx context.Context, dst []byte) ([]byte, uint64, error) {
	return l.ReadMessageID(ctx, dst)
}

func (l *volleyLink) write(b []byte) (uint64, error) { return l.WriteMessage(b) }
func (l *volleyLink) close() error                   { return l.Close() }
func (l *volleyLink) max() int                       { return l.MaxMessageSize() }

func (l *volleyLink) pin() (pin, time.Duration) {
	outer, inner, grace := pinTo(l.Conn), pinOf(l.NetConn()), time.Duration(0)
	if sessionOf(l) != nil {
		grace = 6 * lag
	}
	return func() bool { return outer() || inner() }, grace
}

func (l *volleyLink) look() {
	l.Stats()
	_ = l.Explain().String()
}

func (l *volleyLink) fates(f func(uint64, volley.Fate)) (err error) {
	l.receipts, err = l.WaitReceipts(context.Background(), l.receipts[:0])
	for _, r := range l.receipts {
		f(r.ID, r.Fate)
	}
	return err
}

// mostRecent is how many messages may be written while a copy is on its way, so that 16 bits tell it
// from a packet ahead: of 32,768 sequences some are those of acknowledgements.
const mostRecent = 24_000

// volleyEnd makes an end of a connection between two hosts.
func (w *world) volleyEnd(c *volley.Conn, home, peer int, served bool) *end {
	inSession, turn := false, mostRecent
	switch c.NetConn().(type) {
	case *netcode.Conn, *secure.Conn:
		inSession, turn = !w.plan.lies(home, peer), 0 // because sessions drop copies
	}
	p := promises{once: true, turn: turn, exact: inSession || !w.plan.forgeable(home, peer)}
	return newEnd(w.book, &volleyLink{Conn: c}, route{home, peer, p, true, served, home >= len(w.plan.servers)})
}

// A volleyServer accepts volley.Conns.
type volleyServer struct {
	*volley.Listener
	w    *world
	home int

	below func(over bool) // checks the sessions below; nil: there are none
}

func listenVolley(w *world, home int, pc net.PacketConn) (server, error) {
	l, err := w.volleyConfig(home).ListenOn(pc)
	return &volleyServer{l, w, home, nil}, err
}

// volleyConfig returns the configuration of a server, one of several.
func (w *world) volleyConfig(home int) *volley.ListenConfig {
	p := w.plan.servers[home]
	buffer := 0
	switch {
	case memoryLimit(p) > 4<<20:
		buffer = serverBuffer
	case p.config/12%4 > 0:
		buffer = 16 << 20 // so that MaxMemory alone limits
	}
	return &volley.ListenConfig{
		MaxMemory: memoryLimit(p),
		Config:    &volley.Config{Capture: w.recorder, Logger: w.book.logger(home), ReadBuffer: buffer, ReassemblyBuffer: buffer, AckDelay: []time.Duration{0, 20 * time.Millisecond, 0, time.Second}[p.config/3%4]},
	}
}

// serverBuffer is how many bytes a connection of a server may hold for Read, and for reassembly.
const serverBuffer = 256 << 10

// clientBuffer is how many bytes a client holds for Read.
func clientBuffer(home int) int { return []int{20 << 10, 60 << 10, 200 << 10}[home%3] }

// memoryLimit is how many bytes the connections of a server may hold. Over sessions, only
// those of each connection have a limit that can be set.
func memoryLimit(p serverPlan) int64 {
	if p.stack == volleySealed || p.stack == volleySecure || p.stack == porousSealed {
		return 256 << 20
	}
	return sessionLimit(p)
}

// sessionLimit is how many bytes the sessions of a server may hold.
func sessionLimit(p serverPlan) int64 { return []int64{1 << 20, 256 << 10, 4 << 20}[p.config%3] }

func (s *volleyServer) run(take func(*end)) {
	h := s.handler(take)
	s.w.handle(s.home, func() error {
		c, err := s.AcceptConn(context.Background())
		if err == nil {
			take(s.w.volleyEnd(c, s.home, s.w.hostOf(c.RemoteAddr()), false))
		}
		return err
	}, func() error { return s.Serve(h) }, func() error { return s.Poll(h) })
}

// handler returns the Handler of a server that does not accept.
func (s *volleyServer) handler(take func(*end)) volley.Handler {
	return volley.Handler{
		Open: func(c *volley.Conn) {
			e := s.w.volleyEnd(c, s.home, s.w.hostOf(c.RemoteAddr()), true)
			c.SetValue(e)
			take(e)
		},
		Message: func(c *volley.Conn, msg []byte) { c.Value().(*end).take(msg, 0) },
		Closed:  func(c *volley.Conn, err error) { c.Value().(*end).finished(err) },
	}
}

func (s *volleyServer) shutdown() error { return within(s.Shutdown) }
func (s *volleyServer) close()          { s.Close() }

// check checks the memory, and at the end that nothing is left.
func (s *volleyServer) check(over bool) {
	st := s.Stats()
	s.w.checkMemory(s.home, over, st.Conns, st.Memory, memoryLimit(s.w.plan.servers[s.home]))
	if s.below != nil {
		s.below(over)
	}
}

func dialVolley(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error) {
	d := volley.Dialer{Config: &volley.Config{ReadBuffer: clientBuffer(home), Capture: w.recorder}}
	c, err := d.DialOn(context.Background(), pc, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return nil, err
	}
	return w.volleyEnd(c, home, peer, false), nil
}
