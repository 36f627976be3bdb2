// Package registry finds the connections and listeners of all protocols that live
// in the process, and shows them in one form. The protocols tell it of their
// listeners, and of the connections that belong to none; those that a listener
// has are found through what it keeps anyway. Nobody is kept alive by that, there
// is no goroutine, and nothing is done for a message: all figures are asked for
// when somebody looks. Package volleydebug decides what the public sees.
package registry

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// A Viewer is a connection that can be looked at. Its methods may be called at
// any time, also by several goroutines. Only End is called with a lock held, that of a Set.
type Viewer interface {
	// ID returns what tells the connection from all others, see the function ID.
	ID() uint64
	// End returns why it has ended; nil: it has not. Its own Close is net.ErrClosed, and
	// io.EOF is that of the peer.
	End() error
	// View fills in what is known of the connection, but for Listener and Role,
	// which the caller has set. Explain is filled in if that is asked for. It
	// returns false if the connection has ended, whose counters it fills in all the
	// same.
	View(v *Conn, explain bool) bool
}

// A ListenerViewer is a listener that can be looked at, like a Viewer.
type ListenerViewer interface {
	ID() uint64
	Over() bool
	View(*Listener)
	// Each calls f with the connections that there are.
	Each(f func(Viewer))
}

// Roles tell how a connection came to be.
const (
	Accepted = "accepted"
	Dialed   = "dialed"
	Wrapped  = "wrapped" // put on a connection of the application's
	Piped    = "pipe"
)

// sources are what the protocols have registered.
var sources struct {
	mu        sync.Mutex
	listeners []func([]ListenerViewer) []ListenerViewer
	conns     []func([]item) []item
	ended     []*Ended // of the sets of conns
}

// NewListeners returns the set of a protocol's listeners.
func NewListeners[T any](view func(*T) ListenerViewer) *Set[T] {
	s := newSet(func(p *T) bool { return view(p).Over() })
	sources.mu.Lock()
	defer sources.mu.Unlock()
	sources.listeners = append(sources.listeners, func(all []ListenerViewer) []ListenerViewer {
		for _, p := range s.living() {
			all = append(all, view(p))
		}
		return all
	})
	return s
}

// NewConns returns a set of connections without a listener that began in the same way.
func NewConns[T any](role string, view func(*T) Viewer) *Set[T] {
	s := newSet(func(p *T) bool { return view(p).End() != nil })
	s.view, s.ended.role = view, role
	sources.mu.Lock()
	defer sources.mu.Unlock()
	sources.ended = append(sources.ended, &s.ended)
	sources.conns = append(sources.conns, func(all []item) []item {
		for _, p := range s.living() {
			all = append(all, item{viewer: view(p), role: role})
		}
		return all
	})
	return s
}

// An item is a connection to be looked at.
type item struct {
	viewer   Viewer
	role     string
	listener uint64
}

// listeners returns those that live.
func listeners() (all []ListenerViewer) {
	sources.mu.Lock()
	appenders := slices.Clone(sources.listeners)
	sources.mu.Unlock()
	for _, appendTo := range appenders {
		all = appendTo(all)
	}
	return all
}

// items returns the connections that live. One that two layers know comes twice.
func items(ls []ListenerViewer) (all []item) {
	for _, l := range ls {
		id := l.ID()
		l.Each(func(v Viewer) { all = append(all, item{v, Accepted, id}) })
	}
	sources.mu.Lock()
	appenders := slices.Clone(sources.conns)
	sources.mu.Unlock()
	for _, appendTo := range appenders {
		all = appendTo(all)
	}
	return all
}

// Look returns what lives, explained if there are at most so many connections.
func Look(atMost int) (ls []Listener, cs []Conn, explained bool) {
	views := listeners()
	ls = make([]Listener, len(views))
	for i, l := range views {
		ls[i].ID = l.ID()
		l.View(&ls[i])
	}
	all := items(views)
	explained = len(all) <= atMost
	cs = make([]Conn, 0, len(all))
	seen := make(map[uint64]struct{}, len(all))
	for _, it := range all {
		id := it.viewer.ID()
		if _, known := seen[id]; known {
			continue
		}
		cs = append(cs, Conn{ID: id, Role: it.role, Listener: it.listener})
		c := &cs[len(cs)-1]
		ok := it.viewer.View(c, explained)
		if _, known := seen[c.ID]; known || !ok {
			cs = cs[:len(cs)-1]
			continue
		}
		seen[c.ID] = struct{}{}
	}
	return ls, cs, explained
}

// LookAt returns one connection, explained. It reports false if there is none that lives.
func LookAt(id uint64) (c Conn, ok bool) {
	for _, it := range items(listeners()) {
		if it.viewer.ID() == id {
			c = Conn{ID: id, Role: it.role, Listener: it.listener}
			return c, it.viewer.View(&c, true)
		}
	}
	return Conn{}, false
}

var seed = maphash.MakeSeed()

// ID returns a number of 53 bits for what lives at p and was born then.
func ID[T any](p *T, born time.Time) uint64 {
	type key struct {
		p    *T
		born int64
	}
	return max(1, maphash.Comparable(seed, key{p, born.UnixNano()})>>11)
}
