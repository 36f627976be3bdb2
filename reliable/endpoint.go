package reliable

import (
	"time"

	"volley/internal/wire"
)

// A Batch is the reusable list of datagrams that Send appends to: Len and At
// read it, Reset empties it and keeps its memory, and the zero value is ready
// to use.
type Batch = wire.Batch

// A Handler takes the packets that an Endpoint receives.
//
// It may call Send on the endpoint, whose header does not yet acknowledge the
// packet being handled. A call of Receive changes nothing and returns
// Reentrant. Other methods that change the endpoint must not be called.
type Handler interface {
	// HandleMessage is given a packet's payload, valid during the call only,
	// and reports whether it takes it. One that is refused counts as never
	// received. The payload of an ack-only packet is empty.
	HandleMessage(sequence uint16, payload []byte) bool
}

// A HandlerFunc is a Handler that is a function.
type HandlerFunc func(sequence uint16, payload []byte) bool

// HandleMessage calls f.
func (f HandlerFunc) HandleMessage(sequence uint16, payload []byte) bool {
	return f(sequence, payload)
}

// discard takes all packets.
type discard struct{}

func (discard) HandleMessage(uint16, []byte) bool { return true }

// A FateHandler is a Handler that is also told, exactly once for each packet
// sent with a payload, whether it was delivered or presumed lost. The rule of
// what may be called is that of Handler.
type FateHandler interface {
	// HandleFate is given the id that Send returned. The rtt is the time from
	// Send to the ack, and 0 for a lost packet. An ack that comes after
	// FateLost is only counted.
	HandleFate(id uint64, fate Fate, rtt time.Duration)
}

// An Endpoint is one end of the protocol. It must be used by one goroutine at
// a time, and not be copied once it is in use.
type Endpoint struct {
	cfg     *Config
	handler Handler
	fates   FateHandler // nil if the handler is none
	base    time.Time   // time 0; constant after Init

	// Settings that every packet needs, with the defaults filled in.
	maxPacket     int32
	fragmentAbove int32
	fragmentSize  int32
	headerSize    int32 // of the layers below
	maxFragments  uint16

	partsNext uint16 // one past the newest sequence that reassembly knows
	newsSeq   uint16 // of the packet accepted last
	busy      bool   // a callback is running
	prompts   bool   // the other side says which acks did not wait
	now       int64  // newest time heard of, in nanoseconds since base
	newsAt    int64  // when the last packet was accepted, or never
	nextID    uint64 // of the next packet; its low 16 bits are the sequence

	sent     sentWindow
	received receivedWindow
	parts    *reassemblies // noReassemblies before the first fragment
	rtt      rttHistory
	talk     *talk  // nil before the first message, and with a Config.AckDelay of zero
	rare     *rare  // what few have need of; nil before
	flows    *flows // nil before the first packet, and without Config.MaxWindow
	ackFloor uint64 // acks of packets before this id say nothing, see credible

	updated  int64 // time of the last Update
	mem      int   // bytes held beyond the struct
	stats    Stats
	parked   int32 // sequence that JumpGuard waits to see confirmed, or -1
	counters counters
}

// never is a time before all others, from which durations do not overflow.
const never = -1 << 62

var defaults Config

// New returns an Endpoint that hands the packets it receives to h. If h is a
// FateHandler too, it learns what becomes of those sent. A nil h takes all
// packets and does nothing with them. A nil cfg is the default one. The error
// is a *ConfigError.
func New(cfg *Config, now time.Time, h Handler) (*Endpoint, error) {
	e := new(Endpoint)
	if err := e.Init(cfg, now, h); err != nil {
		return nil, err
	}
	return e, nil
}

// Init is New for an Endpoint that is part of a larger struct.
func (e *Endpoint) Init(cfg *Config, now time.Time, h Handler) error {
	if cfg == nil {
		cfg = &defaults
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	if h == nil {
		h = discard{}
	}
	*e = Endpoint{
		cfg:           cfg,
		handler:       h,
		base:          now,
		maxPacket:     int32(or(cfg.MaxPacketSize, defaultMaxPacketSize)),
		fragmentAbove: int32(or(cfg.FragmentAbove, defaultFragmentAbove)),
		fragmentSize:  int32(or(cfg.FragmentSize, defaultFragmentSize)),
		maxFragments:  uint16(or(cfg.MaxFragments, defaultMaxFragments)),
		headerSize:    int32(orOff(cfg.PacketHeaderSize, defaultPacketHeaderSize)),
		newsAt:        never,
		parked:        -1,
		parts:         &noReassemblies,
	}
	e.received.unmet = cfg.MidStream
	e.fates, _ = h.(FateHandler)
	n, track := or(cfg.ReceivedBuffer, defaultReceivedBuffer), or(cfg.ReceivedBuffer, defaultReceivedBuffer)
	if cfg.MaxWindow > 0 {
		n, track = cfg.MaxWindow, minReceivedTrack
	}
	e.received.seen.Init(n, track)
	e.mem = e.received.seen.Bytes()
	return nil
}

// advance moves the endpoint's clock to now. It never runs backwards.
func (e *Endpoint) advance(now time.Time) { e.now = max(e.now, int64(now.Sub(e.base))) }

// Start returns the time that New, or Init, was given.
func (e *Endpoint) Start() time.Time { return e.base }

// Time returns the newest time that e was told.
func (e *Endpoint) Time() time.Time { return e.base.Add(time.Duration(e.now)) }

// Elapsed returns the newest time that e was told, since Start.
func (e *Endpoint) Elapsed() time.Duration { return time.Duration(e.now) }

// NextSequence returns the sequence number of the next packet.
func (e *Endpoint) NextSequence() uint16 { return uint16(e.nextID) }

// NextID returns the id of the next packet: the number of sequences used so far,
// of which a probe skips one. Reset rounds it up to a multiple of 65536, so that ids are never used twice.
func (e *Endpoint) NextID() uint64 { return e.nextID }

// idOf returns the id of sequence s, which was sent among the last 65536.
func (e *Endpoint) idOf(s uint16) uint64 {
	last := e.nextID - 1
	return last - uint64(uint16(last)-s)
}

// AckedAt returns when the newest packet was sent that the other side has
// acknowledged; before that, any time.
func (e *Endpoint) AckedAt() time.Time { return e.base.Add(time.Duration(e.sent.ackedAt)) }

// Acks returns the sequences acknowledged since ClearAcks, in the order in
// which that was learned. The slice is valid until the next call of Receive,
// ClearAcks, Reset or Compact.
func (e *Endpoint) Acks() []uint16 {
	if e.rare == nil {
		return nil
	}
	return e.rare.acks
}

// ClearAcks empties the list of acks.
func (e *Endpoint) ClearAcks() {
	if e.rare != nil {
		e.rare.acks = e.rare.acks[:0]
	}
}

// Acked reports whether the other side has acknowledged a packet since New or
// Reset, and so hears what is sent to it.
func (e *Endpoint) Acked() bool { return e.counters.packetsAcked > 0 }

// MemoryUsage returns the bytes held beyond the Endpoint itself.
func (e *Endpoint) MemoryUsage() int { return e.mem }

// take asks for n bytes and accounts for them.
func (e *Endpoint) take(n int) bool {
	if n > 0 && e.cfg.Reserve != nil && !e.cfg.Reserve(n, e.Acked()) {
		return false
	}
	e.mem += n
	return true
}

// give accounts for n bytes that are no longer held.
func (e *Endpoint) give(n int) {
	if n > 0 && e.cfg.Reserve != nil {
		e.cfg.Reserve(-n, e.Acked())
	}
	e.mem -= n
}

// grows reports whether the windows have no fixed size.
func (e *Endpoint) grows() bool { return e.cfg.MaxWindow > 0 }

// Reset makes e forget all packets, acks and counters and start again at
// sequence 0. The figures of Stats stay, as does the history of round-trip
// times. The wire does not carry a reset: the other side must be reset too.
//
// Packets whose fate is open are presumed lost; HandleFate must not call Send then.
func (e *Endpoint) Reset() {
	e.loseAll()
	e.nextID = (e.nextID + 65535) &^ 65535
	e.parked, e.newsAt = -1, never
	e.sent.reset()
	e.resetReceived()
	e.dropReassemblies()
	e.partsNext = 0
	e.ClearAcks()
	e.freeTalk()
	e.freeFlows()
	e.ackFloor = 0
	e.counters = counters{}
	if e.rare != nil {
		e.rare.faults = Counters{}
	}
}

func (e *Endpoint) resetReceived() {
	e.received.unmet = e.cfg.MidStream
	e.received.seen.Reset()
	e.received.turnedAt, e.received.turnedNext = e.now, 0
	e.received.ring.reset(0)
}

// ResetAll is Reset, and clears the figures of Stats too.
func (e *Endpoint) ResetAll(now time.Time) {
	e.advance(now)
	e.Reset()
	e.freeHistory()
	e.stats = Stats{}
	e.updated = e.now
}

// Free releases all memory that e holds beyond the Endpoint itself, and tells
// Config.Reserve. Packets whose fate is open are presumed lost, as by Reset. The endpoint
// must not be used afterwards, except by Init, Stats, Counters and the like.
func (e *Endpoint) Free() {
	e.Reset()
	e.freeHistory()
	e.freeSent()
	e.freeReceivedRing()
	e.freeReassembly()
	e.freeAcks()
	e.rare = nil
	e.give(e.receivedCharge())
	e.received = receivedWindow{}
	e.mem = 0
}
