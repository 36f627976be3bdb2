package core

import "slices"

// A schedule holds the channels that have something to send, by priority (T1).
type schedule struct {
	active [2][]*sender // low, high
	due    []*sender    // those with a window acknowledgement to send, which goes ahead
	share  int          // percent that is left to low priority (R10); 0: none
	owed   int          // hundredths of bytes that low priority has not had of it
}

// maxOwed is how much can be made up for: a frame or two.
const maxOwed = 100 * 2 * MTU0

// spend notes n bytes of a channel. Debts count only while both priorities have data.
func (q *schedule) spend(s *sender, n int) {
	switch {
	case q.share == 0:
	case len(q.active[0]) == 0 || len(q.active[1]) == 0:
		q.owed = 0
	case s.high:
		q.owed = min(q.owed+n*q.share, maxOwed)
	default:
		q.owed = max(q.owed-n*(100-q.share), -maxOwed)
	}
}

// add puts a channel in, if it has something to send.
func (q *schedule) add(s *sender) {
	if !s.active && s.ready() {
		s.active = true
		p := &q.active[priority(s.high)]
		*p = append(*p, s)
	}
}

// announce makes a window acknowledgement come next: the peer waits for it.
func (q *schedule) announce(s *sender) {
	if !s.markDue {
		s.markDue = true
		q.due = append(q.due, s)
	}
}

// taken forgets the first channels, whose window acknowledgement has been taken.
func (q *schedule) taken() {
	n := 0
	for n < len(q.due) && !q.due[n].markDue {
		n++
	}
	if n > 0 {
		q.due = q.due[:copy(q.due, q.due[n:])]
	}
}

func priority(high bool) int {
	if high {
		return 1
	}
	return 0
}

// move notes that the priority of a channel changes.
func (q *schedule) move(s *sender, high bool) {
	if s.active {
		p := &q.active[priority(s.high)]
		*p = removeSender(*p, slices.Index(*p, s))
		s.active = false
	}
	s.high = high
	q.add(s)
}

func removeSender(p []*sender, i int) []*sender {
	last := len(p) - 1
	p[i], p[last] = p[last], nil
	return p[:last]
}

// pick returns the channel whose turn it is. Window acknowledgements come first, then
// high priority, unless low priority is owed something; within a priority the packet
// that was accepted first. Choked channels count only when their time has come.
func (q *schedule) pick(now Clock) *sender {
	for _, s := range q.due {
		if s.markDue {
			return s
		}
	}
	levels := [...]int{1, 0}
	if q.owed > 0 {
		levels = [...]int{0, 1}
	}
	for _, level := range levels {
		var best *sender
		var order uint64
		for i := 0; i < len(q.active[level]); i++ {
			s := q.active[level][i]
			if !s.ready() {
				s.active = false
				q.active[level] = removeSender(q.active[level], i)
				i--
				continue
			}
			if s.trust.level == choked && now < s.trust.probeAt {
				continue
			}
			if o := s.order(); best == nil || o < order {
				best, order = s, o
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

func (q *schedule) sole(s *sender) bool {
	return s.active && len(q.active[0])+len(q.active[1]) == 1 && !s.markDue
}

// empty reports whether no channel has anything to send within its window.
func (q *schedule) empty() bool {
	return len(q.active[0]) == 0 && len(q.active[1]) == 0 && len(q.due) == 0
}

// probeAt returns when the first choked channel may try again; 0: there is none.
func (q *schedule) probeAt() (at Clock) {
	for _, p := range q.active {
		for _, s := range p {
			if s.trust.level == choked && s.ready() && (at == 0 || s.trust.probeAt < at) {
				at = s.trust.probeAt
			}
		}
	}
	return at
}
