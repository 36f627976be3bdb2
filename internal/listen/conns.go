package listen

import (
	"iter"
	"sync"

	"volley/internal/datagram"
)

// Each returns an iterator over the connections whose Handlers the sockets have
// when it comes to them, by way of conn, which reports false for those that are
// to be left out at this moment. No lock is held while the body of the loop runs.
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

// A handlerList is memory for an iteration, which may be one of many thousand
// connections thirty times a second.
type handlerList struct{ hs []datagram.Handler }

var handlerLists = sync.Pool{New: func() any { return new(handlerList) }}

func (l *handlerList) put() {
	clear(l.hs[:cap(l.hs)])
	handlerLists.Put(l)
}
