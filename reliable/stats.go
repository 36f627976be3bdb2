package reliable

// Stats are the measurements of an Endpoint. They change in Update, and RTT
// with every ack.
type Stats struct {
	RTT    float32 // smoothed round-trip time in milliseconds; 0 before the first sample
	RTTMin float32 // least of the newest Config.RTTHistory samples, in milliseconds; 0 if all are 10 s or more
	RTTMax float32 // greatest of them, in milliseconds
	RTTAvg float32 // their mean, in milliseconds

	JitterAvg    float32 // mean excess of the samples over RTTMin, in milliseconds
	JitterMax    float32 // greatest excess over RTTMin, in milliseconds
	JitterStddev float32 // standard deviation of the samples from RTTAvg, in milliseconds

	PacketLoss float32 // smoothed share of the packets sent that were not acknowledged, in percent; with Config.MaxWindow, of those decided last

	SentBandwidth     float32 // payload and lower headers sent, in kilobits per second
	ReceivedBandwidth float32 // packets with lower headers received, in kilobits per second
	AckedBandwidth    float32 // share of SentBandwidth that was acknowledged, in kilobits per second
}

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
	AcksInvalid              uint64 // headers whose ack is of a packet never sent, with Config.AckGuard
}

// Stats returns the measurements.
func (e *Endpoint) Stats() Stats { return e.stats }

// counters are those that count what is usual. Those of what is amiss are in the
// rare.
type counters struct {
	packetsSent, packetsReceived, packetsAcked uint64
	fragmentsSent, fragmentsReceived           uint64
}

// Counters returns the counters.
func (e *Endpoint) Counters() Counters {
	var c Counters
	if e.rare != nil {
		c = e.rare.faults
	}
	c.PacketsSent, c.PacketsReceived, c.PacketsAcked = e.counters.packetsSent, e.counters.packetsReceived, e.counters.packetsAcked
	c.FragmentsSent, c.FragmentsReceived = e.counters.fragmentsSent, e.counters.fragmentsReceived
	return c
}
