package inbox

import (
	"net"
	"sync"
	"sync/atomic"

	"volley/internal/deadline"
)

// An Origin is one of several peers whose messages wait in the same Inbox. Its
// fields are set before its first message, but for Reserve.
type Origin struct {
	// Addr is what ReadFrom returns with its messages.
	Addr net.Addr
	// Limit is how many bytes of its messages may wait, with overhead.
	Limit int
	// Reserve, if not nil, is asked for memory on its behalf. It is for the
	// budget of Init's, and guarded as PushFrom is.
	Reserve func(delta int) bool

	used atomic.Int64
}

// Len returns the bytes queued of this origin, with overhead.
func (o *Origin) Len() int { return int(o.used.Load()) }

const (
	originSize = 8  // of a reference to an Origin
	originEach = 32 // bytes of a chunk for which there is one
)

// originPools are for the chunks of Inboxes with origins, in three sizes too.
var originPools [len(pools)]sync.Pool

func newOriginChunk(n, class int) *chunk {
	for i := class; i < len(pools); i++ {
		size := pools[i].size
		if n > size {
			continue
		}
		if c, ok := originPools[i].Get().(*chunk); ok {
			return c
		}
		return &chunk{buf: make([]byte, size), from: make([]*Origin, 0, size/originEach), pool: &originPools[i]}
	}
	return &chunk{buf: make([]byte, n), from: make([]*Origin, 0, 1)}
}

// PushFrom is Push for an Inbox of which all messages have origins.
func (q *Inbox) PushFrom(p []byte, o *Origin) bool {
	n := lengthSize + len(p)
	if q.end != nil || int(o.used.Load())+n > o.Limit || int64(n) > q.room && !q.makeRoom(n) {
		return false
	}
	if t := q.tail; t == nil || t.room() < n || len(t.from) == cap(t.from) {
		if !q.addChunk(newOriginChunk(n, int(q.class)), o.Reserve) {
			return false
		}
	}
	o.used.Add(int64(n))
	q.tail.from = append(q.tail.from, o)
	q.tail.push(p, 0)
	q.pushed += int64(n)
	q.room -= int64(n)
	return true
}

// ReadFrom is Read for an Inbox of which all messages have origins.
func (q *Inbox) ReadFrom(b []byte, d *deadline.Deadline) (n, size int, from *Origin, err error) {
	t := taken{dst: b}
	if err = q.next(d, &t); t.from != nil {
		t.from.used.Add(-int64(lengthSize + t.size))
	}
	return t.n, t.size, t.from, err
}

// popOrigin returns the origin of the message that pop has returned.
func (c *chunk) popOrigin() *Origin {
	o := c.from[c.read]
	c.from[c.read] = nil
	c.read++
	return o
}
