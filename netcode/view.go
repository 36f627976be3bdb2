package netcode

import (
	"cmp"
	"fmt"

	"volley/internal/registry"
)

// Package volleydebug shows connections through the registry. The sessions of a
// Listener are found through its sockets. A connection on top of a session is shown
// in its place, with the figures that only the session knows.

var (
	dialedConns = registry.NewConns(registry.Dialed, viewConn)
	pipedConns  = registry.NewConns(registry.Piped, viewConn)
	listeners   = registry.NewListeners(func(l *Listener) registry.ListenerViewer { return (*listenerView)(l) })
)

func viewConn(c *Conn) registry.Viewer { return (*handler)(c) }

// upperView returns the viewer on top, or nil. Moving: one is being attached.
func (h *handler) upperView() (v registry.Viewer, moving bool) {
	h.recvMu.Lock()
	defer h.recvMu.Unlock()
	v, _ = h.upper.(registry.Viewer)
	return v, h.attached && h.upper == nil
}

// ID implements registry.Viewer.
func (h *handler) ID() uint64 {
	if up, _ := h.upperView(); up != nil {
		return up.ID()
	}
	return registry.ID((*Conn)(h), h.born)
}

// End implements registry.Viewer, with what ended the connection on top, if there is one.
func (h *handler) End() error {
	err := (*Conn)(h).failure()
	if up, _ := h.upperView(); up != nil && err != nil {
		return cmp.Or(up.End(), err)
	}
	return err
}

// View implements registry.Viewer.
func (h *handler) View(v *registry.Conn, explain bool) bool {
	c := (*Conn)(h)
	up, moving := h.upperView()
	lives := !moving && c.failure() == nil
	s := c.Stats()
	if up != nil {
		lives = up.View(v, explain) && lives
		v.ID, v.Over = up.ID(), c.protocol() // it may have come since ID was called
		v.PacketsInvalid += total(s.Drops)
	} else {
		v.Protocol, v.Born, v.OK = c.protocol(), c.born, explain
		v.Local, v.Remote = c.LocalAddr(), c.RemoteAddr()
		v.Known |= registry.Messages | registry.MissedInbox | registry.ReadQueue | registry.Packets
		v.MessagesSent, v.MessagesReceived = s.MessagesSent, s.MessagesReceived
		v.PacketsSent, v.PacketsReceived = s.PacketsSent, s.MessagesReceived
		v.MissedInbox, v.ReadQueue = s.Drops[dropQueueFull.String()], c.user.In.Len()
		v.PacketsInvalid = total(s.Drops) - s.Drops[dropQueueFull.String()]
	}
	v.Known |= registry.Bytes | registry.Invalid
	v.BytesSent, v.BytesReceived = s.BytesSent, s.BytesReceived
	if c.owner != nil && v.Label == "" {
		v.Label = c.owner.Label(c)
	}
	if !c.sess.client && v.Label == "" {
		v.Label = fmt.Sprintf("client %d", c.sess.id)
	}
	return lives
}

// A listenerView is a Listener as the registry sees it.
type listenerView Listener

func (v *listenerView) ID() uint64                   { return registry.ID((*Listener)(v), v.born) }
func (v *listenerView) Over() bool                   { return v.side.Over() }
func (v *listenerView) Each(f func(registry.Viewer)) { v.side.Viewers(f) }

func (v *listenerView) View(r *registry.Listener) {
	l := (*Listener)(v)
	r.Protocol, r.Kind, r.Born = protocolOf(l.set.owner), "listener", l.born
	r.Known |= registry.Memory | registry.Invalid
	l.side.View(r)
	s := l.Stats()
	r.Memory, r.MaxMemory = s.Memory, max(0, l.shared.memory.Limit())
	r.Accepted, r.Refused, r.Invalid = s.Accepted, s.Refused+s.Denied, total(s.Drops)
	r.Ended = l.ended.Totals()
}
