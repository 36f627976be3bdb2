package outbox

import "time"

const (
	floodGap   = 10 * time.Microsecond  // Writes closer than this are a flood, ...
	floodAfter = 16                     // ... once there were so many
	floodMax   = 32                     // what a long flood counts
	floodSkip  = 3                      // Writes of a flood that need not look at the clock
	floodDecay = 100 * time.Microsecond // a pause of this takes one off the count
)

// A Flood tells from the distances in time between Writes alone whether they
// follow each other so closely that they had better leave together. It counts
// Writes within 10 µs of the one before, and is there once it has counted 16;
// Writes at a greater distance, and pauses, take off the count. The zero value
// is no flood.
type Flood struct {
	count   uint8
	skipped uint8 // Writes since the last look at the clock
}

// There reports whether the Writes so far are a flood.
func (f *Flood) There() bool { return f.count >= floodAfter }

// Skip counts a Write of a flood without a look at the clock, which costs as much as
// framing. It reports false if it is the turn of Note: each fourth time, or no flood.
func (f *Flood) Skip() bool {
	if !f.There() || f.skipped >= floodSkip {
		return false
	}
	f.skipped++
	return true
}

// Note counts Writes at a distance from the last Note, and reports whether they are a flood.
func (f *Flood) Note(gap time.Duration) bool {
	n := int(f.skipped) + 1
	f.skipped = 0
	count := int(f.count)
	if gap < time.Duration(n)*floodGap {
		count = min(count+n, floodMax)
	} else if count > 0 {
		count = max(0, count-n-int(min(gap/floodDecay, floodMax)))
	}
	f.count = uint8(count)
	return f.There()
}
