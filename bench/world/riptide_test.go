package world

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"volley"
	"volley/netcode"
	"volley/riptide"
)

// A riptideLink is one side of a connection of package riptide. Its messages are reliable.
type riptideLink struct {
	send func(*riptide.Message) (uint16, error)
	stop func()
	held pin
	over chan struct{}
	acks chan uint16
	told func() riptide.Stats
	once sync.Once
}

// riptideMessage is the id of the only kind of message, and riptideSize is how many bytes fit,
// also into a session.
const (
	riptideMessage = 7
	riptideSize    = 1150
)

// sessionPayload is the largest payload of a message in a session.
var sessionPayload = &riptide.Config{MaxPayload: 1180}

func (l *riptideLink) read(context.Context, []byte) ([]byte, uint64, error) {
	return nil, 0, net.ErrClosed
}
func (l *riptideLink) SetReadDeadline(time.Time) error { return nil }
func (l *riptideLink) look()                           { l.told() }
func (l *riptideLink) max() int                        { return riptideSize }
func (l *riptideLink) pin() (pin, time.Duration)       { return l.held, 4 * lag }

func (l *riptideLink) write(b []byte) (uint64, error) {
	m := riptide.NewMessage(riptide.Reliable, riptideMessage)
	riptide.AddSlice(m, b)
	id, err := l.send(m)
	if err != nil {
		return 0, err
	}
	return 1<<16 | uint64(id), nil
}

// fates waits for an acknowledgement. The protocol tells of no loss.
func (l *riptideLink) fates(f func(uint64, volley.Fate)) error {
	select {
	case id := <-l.acks:
		f(1<<16|uint64(id), volley.Delivered)
		return nil
	case <-l.over:
		return net.ErrClosed
	}
}

func (l *riptideLink) close() error {
	l.stop()
	return nil
}

// acked hands an acknowledgement to the end.
func (l *riptideLink) acked(id uint16) {
	select {
	case l.acks <- id:
	case <-l.over:
	}
}

// Limits of a connection of package riptide: of messages without an acknowledgement, and of
// what it holds beside them.
const (
	riptideBuffer = 1 << 20   // the default of Config.SendBuffer
	riptideIDs    = 512 * 112 // for ids under way: the largest window
	riptidePieces = 64 << 10  // for pieces of the queue that are not full, the first and the last
)

// waiting is the memory of messages that wait in a connection of package riptide until they are
// acknowledged. It is 0 for others.
func (e *end) waiting() int64 {
	l, ok := e.link.(*riptideLink)
	if ended, _ := e.ended(); !ok || ended {
		return 0
	}
	n := int64(l.told().QueuedBytes)
	switch {
	case n > riptideBuffer:
		e.fail("%v: %d bytes wait to be acknowledged, the limit is %d", e, n, riptideBuffer)
	case n > 0:
		n += riptidePieces
	}
	return n + riptideIDs
}

// riptideEnd makes an end, whose handlers are called by the package.
func (w *world) riptideEnd(l *riptideLink, home, peer int) *end {
	l.over, l.acks = make(chan struct{}), make(chan uint16)
	sealed := w.plan.stackOf(home, peer) == riptideSealed
	exact := sealed && !w.plan.lies(home, peer) || !w.plan.forgeable(home, peer)
	p := promises{once: true, exact: exact, silent: true, mixed: !sealed}
	return newEnd(w.book, l, route{home: home, peer: peer, promises: p, fates: true, served: true, dialed: home >= len(w.plan.servers)})
}

// ended notes the end of a connection. The peer may have been told.
func (l *riptideLink) ended(e *end, reason riptide.Reason) {
	e.flow.leave()
	e.noteClose(e.home, e.peer)
	if reason == riptide.Disconnected || reason == riptide.ServerStopped || reason == riptide.Kicked {
		e.finished(io.EOF)
	} else {
		e.finished(errors.New(reason.String()))
	}
	l.once.Do(func() { close(l.over) })
}

// A riptideServer serves clients.
type riptideServer struct {
	riptide.Server
	w    *world
	home int
	pc   net.PacketConn
	over *netcode.Listener // sessions, in place of pc
	*endsOf[*riptide.Peer]
}

func listenRiptide(w *world, home int, pc net.PacketConn) (server, error) {
	return &riptideServer{w: w, home: home, pc: pc, endsOf: newEndsOf[*riptide.Peer]()}, nil
}

func listenSealedRiptide(w *world, home int, pc net.PacketConn) (server, error) {
	l, err := listenSessions(w, home, pc)
	s := &riptideServer{w: w, home: home, over: l, endsOf: newEndsOf[*riptide.Peer]()}
	s.Config = sessionPayload
	return s, err
}

func (s *riptideServer) run(take func(*end)) {
	s.MaxClients, s.Logger, s.NoAnnouncements = 1000, s.w.book.logger(s.home), true
	s.Connected = func(p *riptide.Peer) {
		l := &riptideLink{send: p.SendID, stop: func() { p.Kick(nil) }, told: p.Stats}
		l.held = pinTo(p)
		peer := s.w.hostOf(p.RemoteAddr())
		if peer < 0 {
			p.Kick(nil)
			return // a stranger, whose nonsense was that of a client by chance
		}
		e := s.w.riptideEnd(l, s.home, peer)
		s.add(p, e)
		take(e)
	}
	s.Disconnected = func(p *riptide.Peer, reason riptide.Reason) {
		e := s.of(p)
		if e == nil {
			return
		}
		e.link.(*riptideLink).ended(e, reason)
		s.remove(p)
	}
	s.Delivered = func(p *riptide.Peer, id uint16) {
		if e := s.of(p); e != nil { // it may be a message of the protocol's own
			e.link.(*riptideLink).acked(id)
		}
	}
	s.Handle(riptideMessage, func(p *riptide.Peer, m *riptide.Message) error {
		if e := s.of(p); e != nil {
			e.take(riptide.ReadSlice[uint8](m), 0)
		}
		return m.Err()
	})
	if s.over != nil {
		s.Serve(s.over)
		return
	}
	s.ServeOn(s.pc)
}

func (s *riptideServer) close() { s.Close() }

func (s *riptideServer) shutdown() error {
	err := within(s.Shutdown)
	for i := 0; i < 100 && s.count() > 0; i++ { // the last functions may run
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func (s *riptideServer) check(over bool) {
	if s.over != nil {
		for i := 0; over && i < 100 && s.over.Stats().Conns > 0; i++ { // one that was no client yet is closed by its reader
			time.Sleep(10 * time.Millisecond)
		}
		s.w.checkSessions(s.home, s.over)(over)
	}
	if st := s.Stats(); over && (st.Unacknowledged != 0 || st.QueuedBytes != 0 || len(s.Peers()) != 0) {
		s.w.book.fail("host %d: %d clients and %d bytes are left", s.home, len(s.Peers()), st.QueuedBytes)
	}
}

// A dialedConn is a socket with one peer.
type dialedConn struct {
	*socket
	peer netip.AddrPort
}

func (c *dialedConn) RemoteAddr() net.Addr { return net.UDPAddrFromAddrPort(c.peer) }

func (c *dialedConn) Write(b []byte) (int, error) { return c.WriteToUDPAddrPort(b, c.peer) }

func (c *dialedConn) Read(b []byte) (int, error) {
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil || from == c.peer {
			return n, err
		}
	}
}

func dialRiptide(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error) {
	return w.dialRiptide(home, peer, nil, &dialedConn{pc.(*socket), to})
}

func dialSealedRiptide(w *world, home, peer int, pc net.PacketConn, to netip.AddrPort) (*end, error) {
	inner, err := w.session(pc, to)
	if err != nil {
		return nil, err
	}
	return w.dialRiptide(home, peer, sessionPayload, w.within(inner, pc, home, peer))
}

// dialRiptide opens a connection over another one.
func (w *world) dialRiptide(home, peer int, cfg *riptide.Config, on net.Conn) (*end, error) {
	c := &riptide.Client{Config: cfg}
	l := &riptideLink{send: c.SendID, stop: func() { c.Close() }, told: c.Stats}
	l.held = pinTo(c)
	e := w.riptideEnd(l, home, peer)
	c.Logger = w.book.logger(home)
	c.Disconnected = func(_ *riptide.Client, reason riptide.Reason, _ *riptide.Message) { l.ended(e, reason) }
	c.Delivered = func(_ *riptide.Client, id uint16) { l.acked(id) }
	c.Handle(riptideMessage, func(_ *riptide.Client, m *riptide.Message) error {
		e.take(riptide.ReadSlice[uint8](m), 0)
		return m.Err()
	})
	ctx, cancel := context.WithTimeout(context.Background(), riptideWait)
	defer cancel()
	if err := c.ConnectOn(ctx, on); err != nil {
		l.ended(e, riptide.NoAnswer)
		return nil, err
	}
	return e, nil
}
