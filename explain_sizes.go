package volley

import (
	"log/slog"

	"volley/internal/watch"
	"volley/internal/wire"
	"volley/reliable"
)

// rejected are refused datagrams of the peer, not for their age or for want of memory.
type rejected struct {
	sizes     uint64 // for they were too large, or cut otherwise than here
	malformed uint64 // for another reason
	messages  uint64 // that those of sizes were of

	// Which ones these were of late: bit i stands for newest-i.
	newest uint16
	recent uint64

	// Those among them that no accepted packet has passed by yet, which are going
	// to look missing then, and the largest of their numbers.
	ahead   uint64
	aheadTo uint64
}

// noteRejectedLocked counts a refused datagram. One of a wrong size is not lost in the network.
func (c *Conn) noteRejectedLocked(v reliable.Verdict, b []byte) {
	if _, ok := parseSalute(b); ok {
		return // where the connection does not greet
	}
	r := c.extraLocked()
	if r.rejected == nil {
		r.rejected = new(rejected)
	}
	m := r.rejected
	sequence, known, size := c.set.classify(v, b)
	if !size {
		m.malformed++
		return
	}
	m.sizes++
	c.set.rejected.Add(1)
	if !known || !m.first(sequence) {
		return
	}
	m.messages++
	switch ahead := sequence - uint16(c.newest); {
	case c.newest == 0 || ahead == 0: // what is before the first one is not missed
	case ahead <= believedGap:
		if m.aheadTo <= c.newest {
			m.ahead = 0 // they have come again, and better
		}
		m.ahead++
		m.aheadTo = max(m.aheadTo, c.newest+uint64(ahead))
	case -ahead <= believedGap && r.missing > 0:
		r.missing-- // it comes late
	}
}

// classify returns the sequence of a refused datagram, if known, and if its size was the reason.
func (s *settings) classify(v reliable.Verdict, b []byte) (sequence uint16, known, size bool) {
	size = v == reliable.TooLarge
	if !wire.IsFragment(b) {
		h, _, err := reliable.ParseHeader(b)
		return h.Sequence, err == nil, size
	}
	if len(b) < reliable.FragmentHeaderSize || b[0] != 1 {
		return 0, false, size
	}
	_, err := reliable.ParseFragment(b, s.reliable.MaxFragments, s.reliable.FragmentSize)
	reason, _ := err.(reliable.FormatError)
	return uint16(b[1]) | uint16(b[2])<<8, true, size || reason.OtherSize()
}

// first reports whether a sequence is the first of its message, going by the latest refusals.
func (m *rejected) first(sequence uint16) bool {
	const span = 64
	if m.recent == 0 {
		m.newest = sequence
	}
	ahead, behind := sequence-m.newest, m.newest-sequence
	switch {
	case ahead < span:
		m.newest, m.recent = sequence, m.recent<<ahead
		behind = 0
	case behind >= span:
		m.newest, m.recent, behind = sequence, 0, 0
	}
	bit := uint64(1) << behind
	seen := m.recent&bit != 0
	m.recent |= bit
	return !seen
}

// passed returns how many of the packets passed by were refused for their size.
func (m *rejected) passed(before, number uint64) uint64 {
	if m == nil || m.aheadTo > number {
		return 0
	}
	n := m.ahead
	m.ahead = 0
	if m.aheadTo <= before {
		return 0
	}
	return n
}

// rejectedEvent is what the Logger is told of these datagrams.
func (s *settings) rejectedEvent() watch.Event {
	return watch.Event{
		Level: slog.LevelWarn,
		Message: "volley: datagrams are refused, because they are too large or cut otherwise than here: " +
			"FragmentSize has to be the same on both sides, and MaxMessageSize large enough",
		Total: s.rejected.Load,
		Attrs: func() []slog.Attr {
			return []slog.Attr{slog.Int("fragment_size", s.reliable.FragmentSize), slog.Int("max_message_size", s.maxMessage)}
		},
	}
}
