package riptide

import (
	"hash/maphash"
	"time"
)

// maxRecent is how many messages a recent remembers.
const maxRecent = 128

// A recent finds copies of messages without an id by a keyed hash of 64 bits, wrong once in
// about 2^57. The first message takes about 2 KiB. The zero value is ready.
type recent struct {
	ring *recentRing
}

type recentRing struct {
	seed   maphash.Seed
	begin  time.Time // from which times count
	hashes [maxRecent]uint64
	times  [maxRecent]time.Duration
	next   int // where the next one goes
	full   bool
}

// has reports whether an equal datagram came less than window ago, and returns the hash.
func (r *recent) has(now time.Time, b []byte, window time.Duration) (hash uint64, ok bool) {
	if r.ring == nil {
		r.ring = &recentRing{seed: maphash.MakeSeed(), begin: now}
	}
	hash = maphash.Bytes(r.ring.seed, b)
	i := r.ring.find(hash)
	return hash, i >= 0 && now.Sub(r.ring.begin)-r.ring.times[i] < window
}

// find returns the place of the newest datagram with a hash; negative: none.
func (q *recentRing) find(hash uint64) int {
	for i := q.next - 1; i >= 0; i-- {
		if q.hashes[i] == hash {
			return i
		}
	}
	if q.full {
		for i := maxRecent - 1; i >= q.next; i-- {
			if q.hashes[i] == hash {
				return i
			}
		}
	}
	return -1
}

// note remembers a datagram by its hash, perhaps in place of the oldest one.
func (r *recent) note(now time.Time, hash uint64) {
	q := r.ring
	q.hashes[q.next], q.times[q.next] = hash, now.Sub(q.begin)
	if q.next++; q.next == maxRecent {
		q.next, q.full = 0, true
	}
}

// rest gives the memory back if nothing was noted for as long as idle.
func (r *recent) rest(now time.Time, idle time.Duration) {
	q := r.ring
	if q == nil {
		return
	}
	newest := q.times[(q.next+maxRecent-1)%maxRecent] // zero, which is begin, if there is none
	if now.Sub(q.begin)-newest >= idle {
		r.ring = nil
	}
}
