package figures

import (
	"sync"
	"sync/atomic"
	"time"

	"volley/volleydebug"
)

// A Value is a figure of one set of labels, in the order of the Metric's.
type Value struct {
	Metric *Metric
	Labels []string
	Value  float64
}

// A Source makes the figures when asked. The zero value is ready for concurrent use.
type Source struct {
	looks atomic.Uint64 // that are over

	mu   sync.Mutex
	of   func() volleydebug.State // nil: all of the process
	last []Value
	// listeners and groups have the same keys at times
	listeners, groups ledger
}

// Values returns all figures, for reading only. Concurrent callers share a look.
func (s *Source) Values() []Value { return s.valuesSince(s.looks.Load()) }

// valuesSince looks, unless somebody has since there were so many looks.
func (s *Source) valuesSince(before uint64) []Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looks.Load() == before || s.last == nil {
		s.lookLocked()
		s.looks.Add(1)
	}
	return s.last
}

func (s *Source) lookLocked() {
	start := time.Now()
	snapshot := s.of
	if snapshot == nil {
		snapshot = volleydebug.Snapshot
	}
	state := snapshot()
	took := time.Since(start)
	v := view{listeners: make(map[key]*listening), groups: make(map[key]*group)}
	v.take(s, &state)
	s.last = make([]Value, 0, len(s.last)+16)
	v.emit(func(m *Metric, value float64, labels ...string) {
		s.last = append(s.last, Value{m, labels, value})
	})
	emitNodes(state.Nodes, func(m *Metric, value float64, labels ...string) {
		s.last = append(s.last, Value{m, labels, value})
	})
	s.last = append(s.last, Value{Metric: lookTime, Value: took.Seconds()})
}

// A view is a snapshot, added up.
type view struct {
	listeners   map[key]*listening
	groups      map[key]*group
	listenerSum map[key]sum
	groupSum    map[key]sum
}

// A place is where the figures of connections belong.
type place struct {
	key key
	id  uint64
}

func (v *view) take(s *Source, state *volleydebug.State) {
	s.listeners.begin()
	s.groups.begin()
	sums := make(map[place]counts)
	keys := make(map[uint64]key) // of the connections of a listener
	for i := range state.Listeners {
		l := &state.Listeners[i]
		k := key{l.Protocol, address(l.Addr), l.Kind}
		g := v.listeners[k]
		if g == nil {
			g = new(listening)
			v.listeners[k] = g
		}
		g.add(l)
		s.listeners.note(k, l.ID, countsOf(listenerCounters, l), l.Known)
		p := place{key{l.Protocol, address(l.Addr), acceptedRole}, l.ID}
		keys[l.ID] = p.key
		sums[p] = countsOf(connCounters, &l.Ended)
		v.group(p.key)
	}
	for i := range state.Ended {
		e := &state.Ended[i]
		k := key{e.Protocol, "", e.Role}
		sums[place{key: k}] = countsOf(connCounters, &e.Totals)
		v.group(k)
	}
	for i := range state.Conns {
		c := &state.Conns[i]
		p := place{key{lowest(c), "", c.Role}, 0}
		if c.Listener != 0 {
			k, ok := keys[c.Listener]
			if !ok {
				continue // a listener made just now; the next look has both
			}
			p = place{k, c.Listener}
		}
		n := sums[p]
		n.add(countsOf(connCounters, totalsOf(c)))
		sums[p] = n
		v.group(p.key).add(c)
	}
	for p, n := range sums {
		s.groups.note(p.key, p.id, n, v.groups[p.key].known)
	}
	v.listenerSum, v.groupSum = s.listeners.end(), s.groups.end()
}

// acceptedRole is the role of what belongs to a listener.
const acceptedRole = "accepted"

func (v *view) group(k key) *group {
	g := v.groups[k]
	if g == nil {
		g = newGroup()
		v.groups[k] = g
	}
	return g
}
