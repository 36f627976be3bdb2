package listen

import (
	"volley/internal/datagram"
	"volley/internal/registry"
)

// Over reports whether all is over, as Hooks.Over is told. It uses no channel,
// because callers may be outside of the test bubble.
func (l *Listener[C]) Over() bool { return l.left.Load() == 0 }

// View fills in what is known here of the listener.
func (l *Listener[C]) View(v *registry.Listener) {
	v.Addr, v.Conns = l.Addr(), l.Conns()
	ViewSockets(v, l.Stats())
}

// ViewSockets fills in what happened at the sockets of a listener.
func ViewSockets(v *registry.Listener, all []datagram.Stats) {
	v.Known |= registry.Socket
	for _, d := range all {
		v.Unknown += d.Unknown
		v.ReadErrors += d.ReadErrors
		v.WriteErrors += d.WriteErrors + d.Socket.Retries
		v.SocketDrops += uint64(d.Socket.Drops)
		v.ReadCalls += d.Socket.ReadCalls
		v.SendCalls += d.Socket.SendCalls
		v.SocketReadBuffer, v.SocketWriteBuffer = d.Socket.ReadBufferSize, d.Socket.WriteBufferSize
	}
}

// Viewers calls f with the connections that the sockets have.
func (l *Listener[C]) Viewers(f func(registry.Viewer)) {
	list := handlerLists.Get().(*handlerList)
	defer list.put()
	for _, m := range l.muxes {
		list.hs = m.AppendHandlers(list.hs[:0])
		EachViewer(list.hs, f)
	}
}

// EachViewer calls f with those Handlers that can be looked at.
func EachViewer(hs []datagram.Handler, f func(registry.Viewer)) {
	for _, h := range hs {
		if v, ok := h.(registry.Viewer); ok {
			f(v)
		}
	}
}
