package listen

import (
	"iter"
	"sync"

	"volley/internal/datagram"
	"volley/internal/registry"
)

// Each returns an iterator over connections for which conn reports true. No lock is held.
func (l *Listener[C]) Each(conn func(datagram.Handler) (C, bool)) iter.Seq[C] {
	return func(yield func(C) bool) {
		list := handlerLists.Get().(*handlerList)
		defer list.put()
		for _, m := range l.muxes {
			list.hs = m.AppendHandlers(list.hs[:0])
			for _, h := range list.hs {
				if c, ok := conn(h); ok && !yield(c) {
					return
				}
			}
		}
	}
}

// A handlerList is memory for an iteration over perhaps many thousand connections.
type handlerList struct{ hs []datagram.Handler }

var handlerLists = sync.Pool{New: func() any { return new(handlerList) }}

func (l *handlerList) put() {
	clear(l.hs[:cap(l.hs)])
	handlerLists.Put(l)
}

// Over reports whether all is over, without a channel of a test bubble.
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
