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
// reentrant. Other methods that change the endpoint must not be called.
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
	env
	handler Handler

	// Each part owns what it knows, is told the env, and returns what follows. What one
	// has to learn from another, only the Endpoint passes on.
	out    outbound
	in     inbound
	parts  reassembler
	acks   acks
	meter  meter
	extras extras
}

// never is a time before all others, from which durations do not overflow.
const never = -1 << 62

var defaults Config

// New returns an Endpoint that hands the packets it receives to h. If h is a
// FateHandler too, it learns what becomes of those sent. A nil h takes all
// packets and does nothing with them. A nil cfg is the default one. The first
// packet sent has the id 65,536, and so the sequence 0. The error is a
// *ConfigError.
func New(cfg *Config, now time.Time, h Handler) (*Endpoint, error) {
	e := new(Endpoint)
	if err := e.Init(cfg, now, firstID, h); err != nil {
		return nil, err
	}
	return e, nil
}

// firstID is the id of the first packet with the sequence 0.
const firstID = 1 << 16

// Init is New for an Endpoint that is part of a larger struct, or whose first
// packet has another id. The low 16 bits of an id are the sequence. The
// reference begins at 0 and takes a first sequence of up to 32,511. A random one
// keeps two endpoints apart that use an address one after the other.
func (e *Endpoint) Init(cfg *Config, now time.Time, first uint64, h Handler) error {
	if cfg == nil {
		cfg = &defaults
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	if h == nil {
		h = discard{}
	}
	*e = Endpoint{env: newEnv(cfg, now), handler: h, parts: reassembler{reassemblies: &noReassemblies}}
	e.fatesFor(h)
	e.out.start(first)
	e.in = newInbound(&e.env)
	return nil
}

// NextID returns the id of the next packet, which is one more than that of the
// last one, or two more after a probe. Reset goes on to the next id with the first
// sequence, so that ids are never used twice.
func (e *Endpoint) NextID() uint64 { return e.out.nextID }

// Acks returns the sequences acknowledged since ClearAcks, in the order in
// which that was learned. The slice is valid until the next call of Receive,
// ClearAcks, Reset or Compact.
func (e *Endpoint) Acks() []uint16 { return e.extras.acks() }

// ClearAcks empties the list of acks.
func (e *Endpoint) ClearAcks() { e.extras.clearAcks() }

// InFlight returns the number of packets with a payload whose fate is not yet
// known.
func (e *Endpoint) InFlight() int { return int(e.out.open) }

// lost tells the handler that packet id is presumed lost.
func (e *Endpoint) lost(id uint64) { e.tell(id, FateLost, 0) }

func (e *Endpoint) tell(id uint64, fate Fate, rtt time.Duration) {
	if !e.fated {
		return
	}
	was := e.enter()
	e.handler.(FateHandler).HandleFate(id, fate, rtt)
	e.leave(was)
}

// Reset makes e forget all packets, acks and counters and start again at
// its first sequence. The figures of Stats stay, as does the history of round-trip
// times. The wire does not carry a reset: the other side must be reset too.
//
// Packets whose fate is open are presumed lost; HandleFate must not call Send then.
func (e *Endpoint) Reset() {
	e.out.loseAll(e.lost)
	e.out.restart()
	e.in.forget(&e.env)
	e.parts.restart(&e.env, 0, nil)
	e.acks.free(&e.env)
	e.forgetReceived()
	e.meter.freeFlows(&e.env)
	e.counters.reset()
	e.answered = false
	e.extras.forget()
}

// Free releases all memory that e holds beyond the Endpoint itself, and tells
// Config.Reserve. Packets whose fate is open are presumed lost, as by Reset. The endpoint
// must not be used afterwards, except by Init, Stats, Counters and the like.
func (e *Endpoint) Free() {
	e.Reset()
	e.meter.rtt.free(&e.env)
	e.out.free(&e.env)
	e.in.freeRing(&e.env)
	e.parts.shrink(&e.env)
	e.extras.freeAcks(&e.env)
	e.extras = extras{}
	e.in.free(&e.env)
	e.hold(-e.mem)
}
