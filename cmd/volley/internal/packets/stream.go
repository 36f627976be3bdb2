package packets

import (
	"net/netip"
	"slices"
)

// Limits of what is kept of streams.
const (
	maxStreams = 4096
	maxAhead   = 1 << 20 // bytes of one that came before others
	maxPieces  = 1024    // and in how many pieces
)

// A Way is one direction of a connection.
type Way struct{ From, To netip.AddrPort }

// Streams puts the segments of TCP connections in order.
type Streams struct {
	ways map[Way]*Stream
}

// A Stream is what was sent in one direction.
type Stream struct {
	// Bytes came in order and are not taken yet. The reader takes the first ones off.
	Bytes []byte
	// Ended says that no more will come.
	Ended bool
	// Gap says that bytes are missing which will not come, so that what follows
	// cannot be told. Nothing is added to Bytes any more.
	Gap bool

	next  uint32
	ahead []piece
	waits int // bytes in ahead

	opened bool   // by a segment with SYN,
	syn    uint32 // that had this number
}

type piece struct {
	seq   uint32
	bytes []byte
}

// Add adds a segment, and returns its stream.
func (s *Streams) Add(g *Segment) *Stream {
	if s.ways == nil {
		s.ways = make(map[Way]*Stream)
	}
	way := Way{g.From, g.To}
	stream := s.ways[way]
	seq := g.Seq
	if g.SYN {
		seq++
	}
	if stream == nil || g.SYN && !(stream.opened && stream.syn == g.Seq) {
		if len(s.ways) >= maxStreams {
			clear(s.ways)
		}
		stream = &Stream{next: seq, opened: g.SYN, syn: g.Seq}
		s.ways[way] = stream
	}
	stream.add(seq, g.Payload)
	if g.Missing > 0 {
		stream.Gap = true
	}
	if g.FIN || g.RST {
		stream.Ended = stream.Ended || g.RST || len(stream.ahead) == 0
		if stream.Ended {
			delete(s.ways, way)
		}
	}
	return stream
}

func (s *Stream) add(seq uint32, b []byte) {
	if s.Gap || len(b) == 0 {
		return
	}
	if int32(seq-s.next) > 0 {
		if s.waits += len(b); s.waits > maxAhead || len(s.ahead) == maxPieces {
			s.ahead, s.waits, s.Gap = nil, 0, true
			return
		}
		s.ahead = append(s.ahead, piece{seq, slices.Clone(b)})
		return
	}
	s.take(seq, b)
	for more := true; more; {
		more = false
		for i, p := range s.ahead {
			if int32(p.seq-s.next) <= 0 {
				s.ahead = slices.Delete(s.ahead, i, i+1)
				s.waits -= len(p.bytes)
				s.take(p.seq, p.bytes)
				more = true
				break
			}
		}
	}
}

// take appends what of b is new.
func (s *Stream) take(seq uint32, b []byte) {
	old := s.next - seq
	if uint64(old) >= uint64(len(b)) {
		return
	}
	s.Bytes = append(s.Bytes, b[old:]...)
	s.next += uint32(len(b)) - old
}
