// Package inner has what package volley asks of a reliable.Endpoint beyond what package
// reliable exports: calls that make sense only together with the rest of a connection.
package inner

import (
	"time"

	"volley/internal/wire"
)

// An Endpoint is a reliable.Endpoint. Its calls are as cheap as the exported ones, and
// allocate nothing.
type Endpoint interface {
	// Start returns the time that New, or Init, was given.
	Start() time.Time
	// Elapsed returns the newest time that the Endpoint was told, since Start.
	Elapsed() time.Duration
	// Updated returns when Update was called last, since Start; zero before.
	Updated() time.Duration

	// AckOwed reports whether something received is not acknowledged, with an AckDelay.
	AckOwed() bool
	// ControlPresses reports whether received packets want a control packet at once.
	ControlPresses() bool
	// AckedAt returns when the newest acknowledged packet was sent; any time if there is none.
	AckedAt() time.Time
	// Unacknowledged reports whether a packet in the window is not acknowledged.
	Unacknowledged(sequence uint16) bool
	// RTTVariation returns how far the latest times lie from the smoothed one, or zero.
	RTTVariation() time.Duration
	// LossDue returns in how long Update may presume a packet lost by age, and whether it may.
	LossDue(now time.Time) (wait time.Duration, pending bool)
	// SentFates calls f for the decided packets in the window of sent ones, oldest first, with
	// their reliable.Fate and times rounded to microseconds. It is for a caller that begins to care late: others are
	// older, or come to the FateHandler.
	SentFates(f func(id uint64, fate uint8, rtt time.Duration))

	// ReassemblyDue returns in how long ExpireReassemblies is due, and whether it will be.
	ReassemblyDue(now time.Time) (wait time.Duration, pending bool)
	// ExpireReassemblies gives up packets older than Config.ReassemblyTimeout, as Update does.
	ExpireReassemblies(now time.Time)

	// Doubt has Config.Reserve told that nothing was acknowledged, as long as it is on:
	// the other side's acknowledgements may be guesses of a sender that forges its address.
	Doubt(on bool)
	// Renew makes the window begin again with the next packet, if the caller knows that the
	// other side has started anew. It does nothing if other fragments of that packet have
	// begun it again already.
	Renew()
	// Renewals returns how often the other side has surely started anew, modulo 256.
	Renewals() uint8
	// Move says that the other side is reached by another way: round-trip times begin anew,
	// and packets that have left already tell none.
	Move(now time.Time)
	// InquiryDue reports whether to call SendInquiry: the other side may have started anew.
	InquiryDue(now time.Time) bool
	// SendInquiry appends a packet that a side which has started anew acknowledges.
	SendInquiry(now time.Time, out *wire.Batch)
}

// Package reliable sets these before its first use.
var (
	// Of returns the calls of a *reliable.Endpoint.
	Of func(e any) Endpoint
	// ReassemblyOverhead is how many bytes a reassembly counts beside its fragments, at most.
	ReassemblyOverhead int
)
