package reliable

// Counters count what an Endpoint did since New or Reset.
type Counters struct {
	PacketsSent              uint64 // packets, whether whole or in fragments
	PacketsReceived          uint64 // packets and completed reassemblies, good or bad, but those over the first size limit
	PacketsAcked             uint64 // packets acknowledged by the other side
	PacketsStale             uint64 // received, but older than the window, or parked
	PacketsInvalid           uint64 // received, but malformed
	PacketsTooLargeToSend    uint64 // refused by Send
	PacketsTooLargeToReceive uint64 // received, but too large
	FragmentsSent            uint64 // fragments of packets counted in PacketsSent
	FragmentsReceived        uint64 // fragments that were of use
	FragmentsInvalid         uint64 // fragments that are malformed, stale, in contradiction, or over the memory limit
	PacketsDuplicate         uint64 // received before
	AcksInvalid              uint64 // headers whose ack cannot be true, with Config.AckGuard
}

// Stats returns the measurements.
func (e *Endpoint) Stats() Stats { return e.meter.stats }

// Counters returns the counters.
func (e *Endpoint) Counters() Counters {
	c := e.extras.faults()
	c.PacketsSent, c.PacketsReceived, c.PacketsAcked = e.counters.packetsSent, e.counters.packetsReceived, e.counters.packetsAcked
	c.FragmentsSent, c.FragmentsReceived = e.counters.fragmentsSent, e.counters.fragmentsReceived
	return c
}
