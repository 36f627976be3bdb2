package porous

import "volley/internal/registry"

// For package volleydebug. It finds connections of a Listener through its sockets, and
// those on top of another protocol through the connection below.

var (
	dialedConns  = registry.NewConns(registry.Dialed, viewConn)
	wrappedConns = registry.NewConns(registry.Wrapped, viewConn)
	pipedConns   = registry.NewConns(registry.Piped, viewConn)
	listeners    = registry.NewListeners(func(l *Listener) registry.ListenerViewer { return (*listenerView)(l) })
)

func viewConn(c *Conn) registry.Viewer { return (*handler)(c) }

// ID implements registry.Viewer.
func (h *handler) ID() uint64 { return registry.ID((*Conn)(h), h.born) }

// End implements registry.Viewer.
func (h *handler) End() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.out.Err()
}

// View implements registry.Viewer.
func (h *handler) View(v *registry.Conn, explain bool) bool {
	c, lives := (*Conn)(h), h.End() == nil
	s := c.Stats()
	v.Protocol, v.Born, v.Unit, v.OK = "porous", c.born, "bytes", explain
	v.Local, v.Remote = c.LocalAddr(), c.RemoteAddr()
	v.Known |= registry.Fates | registry.Packets | registry.Resent | registry.Invalid | registry.MissedInbox |
		registry.Window | registry.InFlight | registry.SendQueue | registry.ReadQueue
	if s.RTTMin > 0 {
		v.Known |= registry.RTT | registry.Jitter
		v.RTT, v.RTTMin, v.Jitter = s.RTT, s.RTTMin, s.RTTVar
	}
	if s.FramesSent > 0 {
		v.Known |= registry.Loss
		v.Loss = s.Loss
	}
	v.MessagesReceived = s.MessagesReceived
	v.MessagesDelivered, v.MessagesLost, v.MessagesResent = s.MessagesDelivered, s.MessagesLost, s.FramesResent
	v.PacketsSent, v.PacketsReceived = s.FramesSent+s.FramesResent, s.FramesReceived
	v.PacketsInvalid, v.MissedInbox = s.FramesInvalid, s.FramesRefused
	v.Window, v.InFlight = s.Window, s.InFlight
	v.SendQueue, v.ReadQueue, v.ReadBuffer = s.SendQueue, s.ReceiveQueue+s.ReadQueue, c.set.core.ReceiveBuffer
	if explain && lives {
		v.Explain = c.Explain().String()
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
	r.Protocol, r.Kind, r.Born = "porous", "listener", l.born
	r.Known |= registry.Memory
	l.side.View(r)
	r.Memory, r.MaxMemory = l.limits.budget.Used(), max(0, l.limits.budget.Limit())
	r.Accepted, r.Refused, r.Filtered = l.accepted.Load(), l.refused.Load(), l.filtered.Load()
	r.Ended = l.ended.Totals()
}
