package riptide

import (
	"fmt"
	"time"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/registry"
)

// Package volleydebug shows these. It finds the clients of a Server through the
// server's list.

var (
	clientConns = registry.NewConns(registry.Dialed, func(cc *clientConn) registry.Viewer { return &cc.s })
	servers     = registry.NewListeners(func(s *Server) registry.ListenerViewer { return (*serverView)(s) })
)

// ID implements registry.Viewer.
func (s *session) ID() uint64 { return registry.ID(s, s.born) }

// End implements registry.Viewer.
func (s *session) End() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.core.state != stateClosed {
		return nil
	}
	return s.core.disconnectError()
}

// View implements registry.Viewer.
func (s *session) View(v *registry.Conn, explain bool) bool {
	s.mu.Lock()
	st, state := s.core.stats(), s.core.state
	if o, ok := s.owner.(*peerOwner); ok { // also over a session that a listener of netcode has
		v.Listener, v.Label = (*serverView)(o.server).ID(), fmt.Sprintf("client %d", o.id)
	}
	s.mu.Unlock()
	v.Protocol, v.Born, v.Unit, v.OK = "riptide", s.born, "messages", explain
	v.Local, v.Remote = s.conn.LocalAddr(), s.conn.RemoteAddr()
	v.ReadQueue, v.ReadBuffer = int(s.held.Load()), s.set.readBuffer
	st.view(v)
	return state != stateClosed
}

// viewer returns the session, or that of netcode below it, which counts more.
func (s *session) viewer() registry.Viewer {
	if below := s.conn.Features().Viewer; below != nil {
		return below
	}
	return s
}

func (s *Stats) view(v *registry.Conn) {
	v.Known |= registry.Messages | registry.Fates | registry.Resent | registry.Bytes | registry.Invalid | registry.MissedInbox |
		registry.InFlight | registry.SendQueue | registry.ReadQueue
	if s.RTT > 0 {
		v.Known |= registry.RTT
		v.RTT = s.RTT
	}
	if s.NotifyDelivered+s.NotifyLost > 0 {
		v.Known |= registry.Loss
		v.Loss = s.NotifyLoss
	}
	for m := range s.MessagesSent {
		v.MessagesSent += s.MessagesSent[m]
		v.BytesSent += s.BytesSent[m]
		v.MessagesReceived += s.MessagesReceived[m]
		v.BytesReceived += s.BytesReceived[m]
	}
	v.MessagesDelivered, v.MessagesLost = s.MessagesDelivered+s.NotifyDelivered, s.NotifyLost
	v.MessagesResent, v.PacketsInvalid, v.MissedInbox = s.MessagesResent, s.PacketsInvalid, s.MessagesRefused
	v.InFlight, v.SendQueue = s.Unacknowledged, s.QueuedBytes
}

// A serverView is a Server as the registry sees it.
type serverView Server

func (v *serverView) ID() uint64 { return registry.ID((*Server)(v), time.Time{}) }

func (v *serverView) Over() bool {
	s := (*Server)(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped && len(*s.list.Load()) == 0
}

func (v *serverView) Each(f func(registry.Viewer)) {
	for _, p := range *v.list.Load() {
		f(&p.s)
	}
}

func (v *serverView) View(r *registry.Listener) {
	s := (*Server)(v)
	r.Protocol, r.Kind, r.Conns = "riptide", "server", len(*s.list.Load())
	s.mu.Lock()
	muxes, ls := s.muxes, s.listeners
	r.Born, r.Accepted = s.born, s.joins
	s.mu.Unlock()
	r.Ended = s.gone.Totals()
	switch {
	case len(muxes) > 0:
		r.Addr = muxes[0].Addr()
	case len(ls) > 0:
		r.Addr = ls[0].Addr()
	}
	all := make([]datagram.Stats, len(muxes))
	for i, m := range muxes {
		all[i] = m.Stats()
	}
	if len(all) > 0 {
		listen.ViewSockets(r, all)
	}
}

// lives tells the registry of the server, once it serves.
func (s *Server) lives() {
	s.mu.Lock()
	first := s.born.IsZero()
	if first {
		s.born = time.Now()
	}
	s.mu.Unlock()
	if first {
		servers.Add(s)
	}
}
