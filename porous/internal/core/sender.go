package core

// A Mode says what is done for a packet to arrive.
type Mode uint8

const (
	// Reliable packets are delivered always, once, and in order.
	Reliable Mode = iota
	// Unreliable packets are sent once.
	Unreliable
	// Passive packets are sent until they are acknowledged, but the receiver
	// does not wait for them: it skips those that come too late.
	Passive
)

// An outgoing is a packet that was accepted for sending.
type outgoing struct {
	next    *outgoing
	prev    *outgoing // of those without a fate
	ch      *sender
	data    []byte
	number  uint64 // counts the packets of all channels, from 1
	id      uint32 // once it has one
	lead    uint16
	last    uint16 // number of its last fragment
	mode    Mode
	hasID   bool
	lost    bool  // one fragment, at least
	seen    bool  // the peer has got a copy of it
	sent    int32 // fragments that were handed out
	settled int32 // fragments whose fate is known
	expires Clock // not sent after this; 0: never
	queued  Clock
}

// smallPacket is the length of packets that lie in the memory of their outgoing.
const smallPacket = 64

// newOutgoing returns an empty packet with room for n bytes.
func newOutgoing(n int) *outgoing {
	if n > smallPacket {
		return &outgoing{data: make([]byte, 0, roundUp(n))}
	}
	p := new(struct {
		outgoing
		buf [smallPacket]byte
	})
	p.data = p.buf[:0]
	return &p.outgoing
}

func (o *outgoing) fragments() int32 { return int32(o.last) + 1 }

// over reports whether it is known what became of all fragments.
func (o *outgoing) over() bool { return o.settled >= o.fragments() }

func (o *outgoing) fragmentLen(n, size int) int {
	return min(size, len(o.data)-n*size)
}

func (o *outgoing) fragment(n, size int) []byte {
	return o.data[n*size : n*size+o.fragmentLen(n, size)]
}

// expired reports whether the time is over. A reliable packet with an id never expires.
func (o *outgoing) expired(now Clock) bool {
	return o.expires != 0 && now >= o.expires && !(o.hasID && o.mode == Reliable)
}

// A sender is the sending half of a channel.
type sender struct {
	number       uint8
	high         bool
	fragmentSize int
	window       uint32 // N_Q
	group        uint32 // M
	base, next   uint32 // n_b, and the next packet's id
	lastReliable uint32
	hasReliable  bool

	oldest, tail *outgoing // packets without a fate, in the order of their numbers
	head         *outgoing // the first of them of which fragments are to be sent
	missing      *outgoing // the first reliable one of them that has not arrived: the peer reads none behind it
	back         []part    // parts of frames that were given up, to be sent again
	backAt       int       // those of back before this have been sent again
	sentinel     part      // to follow the fragments of its packet
	hasMark      bool      // whether there is one
	mark         uint32    // the newest window acknowledgement
	markDue      bool      // it is to be sent

	active bool // in the schedule
	trust  trust
	queued int // bytes of packets without a fate
}

func (s *sender) init(number int, fragmentSize int, window, group uint32) {
	*s = sender{number: uint8(number), fragmentSize: fragmentSize, window: window, group: group}
}

// open reports whether the next packet lies inside the peer's window (Q4).
func (s *sender) open() bool { return packetLead(s.next, s.base) < s.window }

// passed reports whether the peer has consumed or skipped a packet.
func (s *sender) passed(id uint32) bool {
	return packetLead(id, s.base) >= packetLead(s.next, s.base)
}

// handleWindowAck moves the window (Q9).
func (s *sender) handleWindowAck(id uint32) bool {
	if lead := packetLead(id, s.base); lead >= s.window || lead >= packetLead(s.next, s.base) {
		return false
	}
	s.base = nextPacket(id)
	return true
}

func (s *sender) push(o *outgoing) {
	if o.prev = s.tail; s.tail == nil {
		s.oldest = o
	} else {
		s.tail.next = o
	}
	s.tail = o
	if s.head == nil {
		s.head = o
	}
	if s.missing == nil && o.mode == Reliable {
		s.missing = o
	}
}

// remove takes out a packet that has its fate.
func (s *sender) remove(o *outgoing) {
	if o.prev == nil {
		s.oldest = o.next
	} else {
		o.prev.next = o.next
	}
	if o.next == nil {
		s.tail = o.prev
	} else {
		o.next.prev = o.prev
	}
	o.prev, o.next = nil, nil
}

// ready reports whether something may be sent within the peer's window.
func (s *sender) ready() bool {
	return s.hasMark || s.backAt < len(s.back) ||
		s.head != nil && (s.head.hasID || s.open())
}

// order returns the number of the packet that comes next, among those of all channels.
func (s *sender) order() uint64 {
	switch {
	case s.hasMark:
		return 0
	case s.backAt < len(s.back):
		if o := s.back[s.backAt].packet; o != nil {
			return o.number
		}
		return 0
	default:
		return s.head.number
	}
}

// nextSize returns the size of the message that comes next.
func (s *sender) nextSize() int {
	switch {
	case s.markDue:
		return WindowAckSize
	case s.backAt < len(s.back):
		return s.back[s.backAt].size()
	case s.hasMark:
		return SentinelSize
	default:
		return FragmentHeaderSize + s.head.fragmentLen(int(s.head.sent), s.fragmentSize)
	}
}

// take returns the message that comes next.
func (s *sender) take() (p part) {
	switch {
	case s.markDue:
		s.markDue = false
		return part{kind: MessageWindowAck, reliable: true, id: s.mark, ch: s}
	case s.backAt < len(s.back):
		p = s.back[s.backAt]
		s.back[s.backAt] = part{}
		if s.backAt++; s.backAt == len(s.back) {
			s.back, s.backAt = s.back[:0], 0
		}
		return p
	case s.hasMark:
		s.hasMark = false
		return s.sentinel
	default:
		return s.takeFragment()
	}
}

func (s *sender) takeFragment() part {
	o := s.head
	if !o.hasID {
		s.assign(o)
	}
	p := part{kind: MessageFragment, reliable: o.mode != Unreliable, fragment: uint16(o.sent), ch: s, packet: o}
	if o.sent++; o.sent == o.fragments() {
		s.head = o.next
		s.follow(o)
	}
	return p
}

// takeRun takes the next single-fragment packets that fit, and returns the room left.
func (s *sender) takeRun(now Clock, parts []part, room int) ([]part, int) {
	if s.markDue || s.backAt < len(s.back) {
		return parts, room
	}
	for o := s.head; o != nil && !s.hasMark; o = s.head {
		n := FragmentHeaderSize + len(o.data)
		if n > room || o.last > 0 || o.hasID || !s.open() || o.expired(now) {
			break
		}
		room -= n
		s.assign(o)
		o.sent = 1
		s.head = o.next
		s.follow(o)
		parts = append(parts, part{kind: MessageFragment, reliable: o.mode != Unreliable, ch: s, packet: o})
	}
	return parts, room
}

// follow sends a sentinel behind a packet that may be lost, if it is the last of a group (Q10).
func (s *sender) follow(o *outgoing) {
	if o.mode != Reliable && closes(o.id, s.group) && (o.mode == Unreliable || o.expires != 0) {
		s.sentinel = part{kind: MessageSentinel, reliable: true, id: o.id, lead: o.lead, ch: s}
		s.hasMark = true
	}
}

// assign gives a packet its id and dependency (Q2, Q7).
func (s *sender) assign(o *outgoing) {
	o.id, o.hasID = s.next, true
	s.next = nextPacket(s.next)
	if s.hasReliable {
		if lead := packetLead(o.id, s.lastReliable); lead < s.window {
			o.lead = uint16(lead)
		} else {
			s.hasReliable = false
		}
	}
	if o.mode == Reliable {
		s.lastReliable, s.hasReliable = o.id, true
	}
}

// done reports whether a part is obsolete (R15): passed, expired or replaced.
func (p *part) done(now Clock) bool {
	switch p.kind {
	case MessageFragment:
		return p.packet.seen || p.ch.passed(p.packet.id) || p.packet.expired(now)
	case MessageSentinel:
		return p.ch.passed(p.id)
	default:
		return p.id != p.ch.mark
	}
}
