package figures

// counts are the values of counters, in their order.
type counts []uint64

func (c *counts) add(o counts) {
	if len(*c) < len(o) { // none yet
		*c = make(counts, len(o))
	}
	for i, n := range o {
		(*c)[i] += n
	}
}

// A key is a set of values of labels: a listener, or connections.
type key struct{ protocol, listener, role string }

// A ledger keeps counters from going back, which a monitoring system would take for a
// restart. A connection that is just ending is for a moment not counted, and loss may
// move from the network to the socket. So the ledger holds the most it has seen.
//
// Several listeners can have the same key. The counts of one that is gone stay as
// long as the key has another.
type ledger struct {
	entries map[key]*entry
	look    uint64
}

// A sum has the counts of the members of a key, and the figures that any has told.
type sum struct {
	counts
	known uint64
}

type entry struct {
	base    sum // of listeners that are gone
	members map[uint64]*member
}

type member struct {
	most counts
	look uint64 // when it was seen last
}

func (l *ledger) begin() { l.look++ }

// note notes the counts of a member, once in each look.
func (l *ledger) note(k key, id uint64, seen counts, known uint64) {
	if l.entries == nil {
		l.entries = make(map[key]*entry)
	}
	e := l.entries[k]
	if e == nil {
		e = &entry{members: make(map[uint64]*member)}
		l.entries[k] = e
	}
	e.base.known |= known
	m := e.members[id]
	if m == nil {
		m = &member{most: make(counts, len(seen))}
		e.members[id] = m
	}
	m.look = l.look
	for i, n := range seen {
		m.most[i] = max(m.most[i], n)
	}
}

// end ends a look: it forgets members that were not noted, and returns the sums.
func (l *ledger) end() map[key]sum {
	sums := make(map[key]sum, len(l.entries))
	for k, e := range l.entries {
		for id, m := range e.members {
			if m.look != l.look {
				e.base.add(m.most)
				delete(e.members, id)
			}
		}
		if len(e.members) == 0 {
			delete(l.entries, k)
			continue
		}
		sum := sum{known: e.base.known}
		sum.add(e.base.counts)
		for _, m := range e.members {
			sum.add(m.most)
		}
		sums[k] = sum
	}
	return sums
}
