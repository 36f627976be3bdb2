package figures

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// An emitter takes a value with those of its labels.
type emitter func(m *Metric, value float64, labels ...string)

// emit hands out all figures in a fixed order.
func (v *view) emit(f emitter) {
	for _, k := range sorted(v.listeners) {
		v.listeners[k].emit(f.of(k))
		emitCounts(f.of(k), listenerCounters, v.listenerSum[k])
	}
	for _, k := range sorted(v.groups) {
		v.groups[k].emit(f.of(k))
		emitCounts(f.of(k), connCounters, v.groupSum[k])
	}
}

// of returns an emitter for the values of a key, one of which may have one more label.
func (f emitter) of(k key) emitter {
	return func(m *Metric, value float64, more ...string) {
		labels := []string{k.protocol, k.listener, k.role}
		if len(more) > 0 && more[0] != "" {
			labels = append(labels, more[0])
		}
		f(m, value, labels...)
	}
}

// emitCounts hands out the counters, except those that no protocol tells.
func emitCounts[T any](f emitter, counters []figure[T, uint64], s sum) {
	for i, c := range counters {
		if s.counts[i] > 0 || c.field == "" || tells(s.known, c.field) {
			f(c.metric, float64(s.counts[i]), c.label)
		}
	}
}

// tells reports whether a figure is among known ones, by the name of its field.
func tells(known uint64, field string) bool {
	return (&conn{Known: known}).Knows(field)
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[key]V) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.listener, b.listener), cmp.Compare(a.role, b.role))
	})
}

func (g *listening) emit(f emitter) {
	f(listenerConns, float64(g.conns))
	if tells(g.known, "Memory") {
		f(listenerMemory, float64(g.memory))
		if g.limit > 0 {
			f(listenerLimit, float64(g.limit))
		}
	}
	if g.readBuffer > 0 {
		f(listenerBuffer, float64(g.readBuffer), "receive")
	}
	if g.writeBuffer > 0 {
		f(listenerBuffer, float64(g.writeBuffer), "send")
	}
}

// emit hands out the gauges of connections.
func (g *group) emit(f emitter) {
	f(groupConns, float64(g.conns))
	for i, d := range connSpreads {
		if len(g.spreads[i]) > 0 {
			eachPercentile(g.spreads[i], func(label string, v float64) { f(d.metric, v, label) })
		}
	}
	for i, s := range connSums {
		if !math.IsNaN(g.sums[i]) {
			f(s.metric, g.sums[i], s.label)
		}
	}
}
