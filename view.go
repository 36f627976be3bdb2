package volley

import (
	"fmt"
	"io"
	"net"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/registry"
)

// What package volleydebug shows, by way of the registry. Connections of a
// Listener are found through its sockets, and those on top of another protocol
// through its connection.

var (
	dialedConns  = registry.NewConns(registry.Dialed, viewConn)
	wrappedConns = registry.NewConns(registry.Wrapped, viewConn)
	pipedConns   = registry.NewConns(registry.Piped, viewConn)
	listeners    = registry.NewListeners(func(l *Listener) registry.ListenerViewer { return (*listenerView)(l) })
	packetConns  = registry.NewListeners(func(pc *PacketConn) registry.ListenerViewer { return (*packetView)(pc) })
)

func viewConn(c *Conn) registry.Viewer { return (*handler)(c) }

// ID implements registry.Viewer.
func (h *handler) ID() uint64 { return registry.ID((*Conn)(h), (*Conn)(h).born()) }

// End implements registry.Viewer.
func (h *handler) End() error {
	c := (*Conn)(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	err, x := c.out.Err(), c.extra()
	switch {
	case x == nil:
		return err
	case err == net.ErrClosed && x.reason != "":
		return fmt.Errorf("closed: %s", x.reason)
	case err == errForgotten && x.partedAt > c.lastMessage && x.reason != "":
		return &CloseError{x.reason}
	case err == errForgotten && x.partedAt > c.lastMessage:
		return io.EOF
	}
	return err
}

// View implements registry.Viewer.
func (h *handler) View(v *registry.Conn, explain bool) bool {
	c := (*Conn)(h)
	var now *look
	var s Stats
	if explain {
		now = c.look()
		s = now.stats
	} else {
		s = c.Stats()
	}
	c.mu.Lock()
	over := c.out.Err() != nil
	if c.over() == nil {
		v.InFlight = c.endpoint.InFlight()
	}
	c.mu.Unlock()
	v.Protocol, v.Born = "volley", c.born()
	v.Local, v.Remote = c.LocalAddr(), c.RemoteAddr()
	v.Window, v.Unit = c.set.window, "messages"
	v.ReadBuffer = c.set.readBuffer
	s.view(v)
	if explain && !over {
		e := c.watch(now)
		v.Explain, v.OK = e.String(), e.OK()
	}
	return !over
}

func (s *Stats) view(v *registry.Conn) {
	v.Known |= registry.Rates | registry.Messages | registry.Fates | registry.Packets | registry.Invalid | registry.MissedInbox |
		registry.Window | registry.InFlight | registry.ReadQueue | registry.Memory | registry.MissedNetwork | registry.MissedSocket
	if s.RTT > 0 {
		v.Known |= registry.RTT | registry.Jitter
	}
	if s.MessagesDelivered+s.MessagesLost > 0 {
		v.Known |= registry.Loss
	}
	v.RTT, v.RTTMin, v.Jitter = s.RTT, s.RTTMin, s.JitterMean
	v.Loss = s.Loss
	v.SendRate, v.ReceiveRate, v.AckedRate = s.SendRate, s.ReceiveRate, s.AckedRate
	v.MessagesSent, v.MessagesReceived = s.MessagesSent, s.MessagesReceived
	v.MessagesDelivered, v.MessagesLost = s.MessagesDelivered, s.MessagesLost
	v.PacketsSent, v.PacketsReceived = s.PacketsSent, s.PacketsReceived
	v.PacketsInvalid = s.PacketsInvalid + s.PacketsTooLarge + s.FragmentsInvalid + s.AcksInvalid
	v.MissedNetwork, v.MissedSocket, v.MissedInbox = s.Missed.Network, s.Missed.Socket, s.Missed.Inbox
	v.ReadQueue, v.Memory = s.ReadQueue, s.Memory
}

// watch is Explain with a period of its own, which does not shorten the application's.
func (c *Conn) watch(now *look) Explanation {
	c.mu.Lock()
	r := c.extraLocked()
	if r.watched == nil {
		r.watched = new(looks)
	}
	before := r.watched.since(now)
	c.mu.Unlock()
	return explain(before, now)
}

// A listenerView is a Listener as the registry sees it.
type listenerView Listener

func (v *listenerView) ID() uint64                   { return registry.ID((*Listener)(v), v.born) }
func (v *listenerView) Over() bool                   { return v.side.Over() }
func (v *listenerView) Each(f func(registry.Viewer)) { v.side.Viewers(f) }

func (v *listenerView) View(r *registry.Listener) {
	l := (*Listener)(v)
	r.Protocol, r.Kind, r.Born = "volley", "listener", l.born
	r.Known |= registry.Memory
	l.side.View(r)
	r.Memory, r.MaxMemory = l.budget.Used(), max(0, l.budget.Limit())
	r.Accepted, r.Filtered = l.accepted.Load(), l.filtered.Load()
	r.Refused = l.crowded.Load() + l.waiting.Load()
	r.Ended = l.ended.Totals()
}

// A packetView is a PacketConn as the registry sees it: a listener of its peers.
type packetView PacketConn

func (v *packetView) ID() uint64 { return registry.ID((*PacketConn)(v), v.since) }
func (v *packetView) Over() bool { return v.closed.Load() }
func (v *packetView) Each(f func(registry.Viewer)) {
	listen.EachViewer(v.mux.Handlers(), f)
}

func (v *packetView) View(r *registry.Listener) {
	pc := (*PacketConn)(v)
	r.Protocol, r.Kind, r.Born = "volley", "packet", pc.since
	r.Known |= registry.Memory
	r.Addr, r.Conns = pc.LocalAddr(), int(pc.peers.Load())
	listen.ViewSockets(r, []datagram.Stats{pc.mux.Stats()})
	r.Memory, r.MaxMemory = pc.budget.Used(), max(0, pc.budget.Limit())
	r.Accepted, r.Refused, r.Filtered = pc.admitted.Load(), pc.refused.Load(), pc.filtered.Load()
	r.Ended = pc.ended.Totals()
}

// ID implements registry.Viewer.
func (h *peerHandler) ID() uint64 { return registry.ID(&h.conn, h.conn.born()) }

// End implements registry.Viewer.
func (h *peerHandler) End() error { return (*handler)(&h.conn).End() }

// View implements registry.Viewer, with a peer's share of the inbox as its queue.
func (h *peerHandler) View(v *registry.Conn, explain bool) bool {
	lives := lostPeer{(*handler)(&h.conn)}.View(v, explain)
	v.ReadQueue = h.origin.Len()
	return lives
}

// A lostPeer is a Conn of a PacketConn as far as its messages are not those of all.
type lostPeer struct{ *handler }

// View implements registry.Viewer.
func (h lostPeer) View(v *registry.Conn, explain bool) bool {
	lives := h.handler.View(v, explain)
	v.Known &^= registry.MissedNetwork | registry.MissedSocket
	v.MissedNetwork, v.MissedSocket = 0, 0
	return lives
}
