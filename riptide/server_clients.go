package riptide

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
)

// An acceptor is a Server as its sockets see it.
type acceptor Server

var _ datagram.Acceptor = (*acceptor)(nil)

// HandleUnknown sees datagrams without a connection. A connect makes one if there is room.
func (a *acceptor) HandleUnknown(now time.Time, from netip.AddrPort, _ bool, bufs [][]byte, out *wire.Batch) datagram.Admit {
	s := (*Server)(a)
	for _, b := range bufs {
		p, ok := s.set.parse(clientSide, b)
		if ok && p.typ == typeConnect && len(b) <= s.set.maxPayload+maxHeaderSize {
			full, ok := s.makeRoom(now, overDatagrams, hostOfAddr(from.Addr()))
			switch {
			case ok:
				return s.admit
			case full:
				for range rejectSends {
					s.set.appendReject(out, rejectFull, nil)
				}
			}
			break
		}
	}
	return nil
}

// makeRoom reports whether a host's client may ask. It may free a place, or an id for later.
func (s *Server) makeRoom(now time.Time, t transport, host netip.Addr) (full, ok bool) {
	s.mu.Lock()
	full = s.lobby.full()
	crowded := s.lobby.crowded(t)
	var late *Peer
	if full || crowded {
		late = s.lobby.yields(now, t, host)
	}
	s.mu.Unlock()
	if late != nil {
		late.s.end(endTimeout)
		s.mu.Lock()
		defer s.mu.Unlock()
		return false, !full && !s.lobby.crowded(t)
	}
	return full, !full && !crowded
}

// serveConn serves a client on a connection of its own.
func (s *Server) serveConn(c net.Conn) {
	conn, set, err := newTransport(c, s.set)
	if err != nil {
		s.log(slog.LevelWarn, "connection unusable", "remote", c.RemoteAddr(), "error", err)
		c.Close()
		return
	}
	t, now := overDatagrams, time.Now()
	if isStream(c) {
		t = overStreams
	}
	s.makeRoom(now, t, hostOf(conn.RemoteAddr()))
	s.newPeer(now, conn, set, t)
}

func (s *Server) newPeer(now time.Time, conn datagram.Conn, set *settings, t transport) {
	p := &Peer{server: s, transport: t, host: hostOf(conn.RemoteAddr()), entered: now}
	p.s.init((*peerOwner)(p), conn, set, serverSide, now)
	s.mu.Lock()
	ok := !s.stopped && s.lobby.enter(p)
	s.mu.Unlock()
	if !ok {
		conn.Close()
		return
	}
	if err := conn.Attach(&p.s); err != nil {
		p.s.HandleClose(err)
		return
	}
	p.s.schedule()
}

// requested implements owner: the client has asked to be accepted.
func (o *peerOwner) requested(now time.Time, data []byte, out *wire.Batch) {
	p := (*Peer)(o)
	s, c := p.server, &p.s.core
	s.mu.Lock()
	if p.stage == stagePending {
		s.lobby.pending[p.transport].spoke(p)
	}
	full := s.lobby.full()
	s.mu.Unlock()
	if s.Accept == nil {
		p.admit(now, out)
		return
	}
	if full {
		c.reject(rejectFull, nil, out)
		return
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	s.work.Add(1)
	go p.decide(ctx, &Request{RemoteAddr: p.RemoteAddr(), Data: c.set.loadData(data)})
}

// admit accepts the client if there is room. The session is locked.
func (p *Peer) admit(now time.Time, out *wire.Batch) {
	s := p.server
	s.mu.Lock()
	id, ok := s.lobby.accept(p, now)
	s.mu.Unlock()
	if !ok {
		p.s.core.reject(rejectFull, nil, out)
		return
	}
	p.id = id
	p.s.core.accept(now, id, out)
}

// decide asks the application whether the client may connect.
func (p *Peer) decide(ctx context.Context, r *Request) {
	defer p.server.work.Done()
	// Not with the answer to the request: that could leave after the decision.
	p.s.do(func(_ time.Time, c *connection, out *wire.Batch) { c.pend(out) })
	err := p.ask(ctx, r)
	reason := rejectPlain
	body, bad := p.s.set.dataBody(r.Reply)
	if bad != nil {
		p.server.log(slog.LevelWarn, "reply unusable", "error", bad)
	}
	if body != nil {
		reason = rejectData
	}
	p.s.do(func(now time.Time, c *connection, out *wire.Batch) {
		p.cancel()
		switch {
		case c.state != statePending: // it waits no more
		case err != nil:
			c.reject(reason, body, out)
		default:
			p.admit(now, out)
		}
	})
}

// ask asks the application. If that panics, the client is refused.
func (p *Peer) ask(ctx context.Context, r *Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			logPanic(p.server.Logger, v, slog.Any("remote", p.RemoteAddr()))
			err = errPanicked
		}
	}()
	return p.server.Accept(ctx, r)
}

// A notice says that a client has come or gone, to those that joined before.
type notice struct {
	kind   packetType
	id     uint16
	before uint64
}

// joined reports false if the client has had to give way. The session is locked.
func (s *Server) joined(p *Peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.stage != stageAccepted {
		return false
	}
	s.lobby.connected(p)
	s.joins++
	p.order = s.joins
	s.peers[p.id] = p
	old := *s.list.Load()
	list := append(old[:len(old):len(old)], p)
	s.list.Store(&list)
	s.noticeLocked(notice{typeClientConnected, p.id, p.order})
	return true
}

// left forgets a client. The session is locked.
func (s *Server) left(p *Peer) {
	if p.cancel != nil {
		p.cancel()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.was = s.lobby.left(p)
	if p.was != stageConnected {
		return
	}
	delete(s.peers, p.id)
	list := slices.DeleteFunc(slices.Clone(*s.list.Load()), func(q *Peer) bool { return q == p })
	s.list.Store(&list)
	st := p.s.core.stats()
	s.past.plus(&st)
	s.noticeLocked(notice{typeClientDisconnected, p.id, s.joins + 1})
}

// noticeLocked has a notice sent, by a goroutine that exists while there are any.
func (s *Server) noticeLocked(n notice) {
	if s.NoAnnouncements || s.stopped {
		return
	}
	s.notices = append(s.notices, n)
	if !s.noticing {
		s.noticing = true
		s.work.Add(1)
		go s.announce()
	}
}

// announce sends notices until there are none.
func (s *Server) announce() {
	defer s.work.Done()
	for {
		s.mu.Lock()
		notices := s.notices
		s.notices = nil
		s.noticing = len(notices) > 0
		s.mu.Unlock()
		if len(notices) == 0 {
			return
		}
		for _, n := range notices {
			for _, p := range *s.list.Load() {
				if p.order < n.before {
					p.announce(n.kind, n.id)
				}
			}
		}
	}
}

// ended handles the end of a client's connection, as the last of its events.
func (s *Server) ended(p *Peer, e end) {
	s.gone.Add(p.s.viewer(), (*serverView)(s).ID())
	s.mu.Lock()
	was := p.was
	s.mu.Unlock()
	if was == stageConnected || was == stageAccepted {
		defer s.free(p.id) // whatever becomes of the function of the application
	}
	switch was {
	case stageConnected:
		s.log(slog.LevelInfo, "client disconnected", "client", p.id, "remote", p.RemoteAddr(), "reason", e.why())
		if s.Disconnected != nil {
			s.Disconnected(p, e.why())
		}
	case stageAccepted:
		s.log(slog.LevelInfo, "client never answered", "client", p.id, "remote", p.RemoteAddr())
		if s.ConnectionFailed != nil {
			s.ConnectionFailed(p)
		}
	default:
		s.log(slog.LevelDebug, "client not accepted", "remote", p.RemoteAddr(), "reason", e.why())
	}
}

// free lets an id be given to another client.
func (s *Server) free(id uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lobby.free(id)
}

// SendAll copies and sends a message to all connected clients, except those named,
// in one pass over each UDP socket. A client for which too much waits is
// disconnected. The only error is that of the message.
//
// A handler that relays messages to all other clients is
//
//	func(p *riptide.Peer, m *riptide.Message) error { return s.SendAll(m, p) }
func (s *Server) SendAll(m *Message, except ...*Peer) error {
	if err := s.init(); err != nil {
		return err
	}
	if err := s.set.sendable(m); err != nil {
		return err
	}
	g := gatherings.Get().(*datagram.Gathering)
	for _, p := range *s.list.Load() {
		if slices.Contains(except, p) {
			continue
		}
		if err := p.s.gather(g, m); err == ErrSendBuffer {
			p.overflow()
		}
	}
	g.Flush() // errors of the socket are losses
	gatherings.Put(g)
	return nil
}

// gatherings are the memory of SendAll.
var gatherings = sync.Pool{New: func() any { return new(datagram.Gathering) }}

func (s *Server) handle(p *Peer, kind packetType, body []byte, m *Message) {
	if m.loadUser(s.set.layout, modeOf(kind), body); m.err != nil {
		return // too short for an id
	}
	if err := s.handlers.call(p, m, s.Notify, s.Unhandled); err != nil {
		s.log(slog.LevelWarn, "handler failed", "client", p.id, "message", m.id, "error", err)
		if s.KickOnError {
			p.kick(endKicked, endKicked, nil)
		}
	}
}
