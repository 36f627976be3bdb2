package reliable

import (
	"time"

	"volley/internal/inner"
)

// newEndpoint is New for an endpoint whose ids are its sequences.
func newEndpoint(cfg *Config, now time.Time, h Handler) (*Endpoint, error) {
	e := new(Endpoint)
	return e, e.Init(cfg, now, 0, h)
}

// DefaultConfig is the settings of the reference, written out.
func DefaultConfig() Config {
	return Config{
		MaxPacketSize:      defaultMaxPacketSize,
		FragmentAbove:      defaultFragmentAbove,
		FragmentSize:       defaultFragmentSize,
		MaxFragments:       defaultMaxFragments,
		SentBuffer:         defaultSentBuffer,
		ReceivedBuffer:     defaultReceivedBuffer,
		AckBuffer:          defaultAckBuffer,
		ReassemblyBuffer:   defaultReassemblyBuffer,
		RTTSmoothing:       defaultRTTSmoothing,
		LossSmoothing:      defaultLossSmoothing,
		BandwidthSmoothing: defaultBandwidthSmoothing,
		RTTHistory:         defaultRTTHistory,
		PacketHeaderSize:   defaultPacketHeaderSize,
	}
}

// ParseSequence, ParseOpening, CarriesMessage and OpeningMessage are parts of Inspect.
func ParseSequence(cfg *Config, datagram []byte) (sequence uint16, ok bool) {
	i, ok := Inspect(cfg, datagram)
	return i.Sequence, ok
}

func ParseOpening(cfg *Config, datagram []byte) bool {
	i, ok := Inspect(cfg, datagram)
	return ok && i.Opening
}

func CarriesMessage(cfg *Config, datagram []byte) bool {
	i, ok := Inspect(cfg, datagram)
	return ok && i.Message
}

func OpeningMessage(cfg *Config, datagram []byte) (sequence uint16, ok bool) {
	i, ok := Inspect(cfg, datagram)
	return i.Sequence, ok && i.Opening && i.Message
}

// Inner returns what package volley asks of an Endpoint.
func (e *Endpoint) Inner() inner.Endpoint { return inner.Of(e) }

// Time is the newest time that e was told.
func (e *Endpoint) Time() time.Time { return e.Inner().Start().Add(e.Inner().Elapsed()) }

func (e *Endpoint) NextSequence() uint16 { return uint16(e.NextID()) }

// resetAll is Reset, and clears the figures of Stats, too.
func (e *Endpoint) resetAll(now time.Time) {
	e.advance(now)
	e.Reset()
	e.meter.rtt.free(&e.env)
	e.meter.stats, e.meter.updated = Stats{}, e.env.now
}
