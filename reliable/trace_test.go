package reliable

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math"
	"slices"
	"testing"
	"time"
)

// testTime returns the time that is so many seconds after the start of tests.
func testTime(seconds float64) time.Time {
	return time.Unix(1e9, 0).Add(time.Duration(math.Round(seconds * 1e9)))
}

// testPayload is the payload generator of the vectors.
func testPayload(n int, seed uint32) []byte {
	b := make([]byte, n)
	x := seed
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// traceConfig is an endpoint's settings in a trace.
type traceConfig struct {
	MaxPacketSize      int     `json:"max_packet_size"`
	FragmentAbove      int     `json:"fragment_above"`
	MaxFragments       int     `json:"max_fragments"`
	FragmentSize       int     `json:"fragment_size"`
	AckBuffer          int     `json:"ack_buffer_size"`
	SentBuffer         int     `json:"sent_packets_buffer_size"`
	ReceivedBuffer     int     `json:"received_packets_buffer_size"`
	ReassemblyBuffer   int     `json:"fragment_reassembly_buffer_size"`
	RTTSmoothing       float32 `json:"rtt_smoothing_factor"`
	RTTHistory         int     `json:"rtt_history_size"`
	LossSmoothing      float32 `json:"packet_loss_smoothing_factor"`
	BandwidthSmoothing float32 `json:"bandwidth_smoothing_factor"`
	PacketHeaderSize   int     `json:"packet_header_size"`
}

func (c traceConfig) config() *Config {
	off := func(f float32) float32 {
		if f == 0 {
			return -1
		}
		return f
	}
	header := c.PacketHeaderSize
	if header == 0 {
		header = -1
	}
	return &Config{
		MaxPacketSize: c.MaxPacketSize, FragmentAbove: c.FragmentAbove,
		MaxFragments: c.MaxFragments, FragmentSize: c.FragmentSize,
		AckBuffer: c.AckBuffer, SentBuffer: c.SentBuffer,
		ReceivedBuffer: c.ReceivedBuffer, ReassemblyBuffer: c.ReassemblyBuffer,
		RTTSmoothing: off(c.RTTSmoothing), RTTHistory: c.RTTHistory,
		LossSmoothing: off(c.LossSmoothing), BandwidthSmoothing: off(c.BandwidthSmoothing),
		PacketHeaderSize: header,
	}
}

type traceStats struct {
	RTT          float32 `json:"rtt"`
	RTTMin       float32 `json:"rtt_min"`
	RTTMax       float32 `json:"rtt_max"`
	RTTAvg       float32 `json:"rtt_avg"`
	JitterAvg    float32 `json:"jitter_avg_vs_min_rtt"`
	JitterMax    float32 `json:"jitter_max_vs_min_rtt"`
	JitterStddev float32 `json:"jitter_stddev_vs_avg_rtt"`
	PacketLoss   float32 `json:"packet_loss"`
	SentKbps     float32 `json:"sent_kbps"`
	ReceivedKbps float32 `json:"received_kbps"`
	AckedKbps    float32 `json:"acked_kbps"`
}

func (s traceStats) stats() Stats {
	return Stats{s.RTT, s.RTTMin, s.RTTMax, s.RTTAvg, s.JitterAvg, s.JitterMax, s.JitterStddev,
		s.PacketLoss, s.SentKbps, s.ReceivedKbps, s.AckedKbps}
}

type traceState struct {
	Stats    traceStats
	Counters [11]uint64
	NextSeq  uint16 `json:"next_seq"`
	NumAcks  int    `json:"num_acks"`
}

// tracePacket is a payload as a trace gives it.
type tracePacket struct {
	Seq      uint16
	Len      int
	Seed     uint32
	Hex      *hexBytes
	Accepted bool
}

func (p tracePacket) payload() []byte {
	if p.Hex != nil {
		return *p.Hex
	}
	return testPayload(p.Len, p.Seed)
}

// traceOp is one line of a trace.
type traceOp struct {
	traceState
	Op   string
	EP   string
	T    float64
	Len  int
	Seed uint32
	Seq  *uint16
	TX   []struct {
		I   int
		Hex hexBytes
	}
	I     int
	Hex   hexBytes
	RX    []tracePacket
	Acks  []uint16
	DC    map[string]uint64
	Value bool

	Count       int
	DT          float64
	UpdateEvery int `json:"update_every"`
	FirstI      int `json:"first_i"`
	Datagrams   int
	SHA256      string
	AcksA       int    `json:"acks_a"`
	AcksB       int    `json:"acks_b"`
	AcksASHA256 string `json:"acks_a_sha256"`
	AcksBSHA256 string `json:"acks_b_sha256"`
	RXA         int    `json:"rx_a"`
	RXB         int    `json:"rx_b"`
	A, B        *traceState
}

// tracePeer is one endpoint of a trace, with what its callback saw.
type tracePeer struct {
	*Endpoint
	now    time.Time // of the last update
	accept bool
	rx     []tracePacket
	got    [][]byte
}

func (p *tracePeer) HandleMessage(sequence uint16, payload []byte) bool {
	p.rx = append(p.rx, tracePacket{Seq: sequence, Accepted: p.accept})
	p.got = append(p.got, bytes.Clone(payload))
	return p.accept
}

// A replay runs a trace.
type replay struct {
	peers     map[string]*tracePeer
	datagrams map[int][]byte
	next      int // number of the next datagram
	out       Batch
}

func testTrace(t *testing.T, lines [][]byte) {
	var head struct {
		Type   string
		T0     float64
		Config map[string]traceConfig
	}
	if err := json.Unmarshal(lines[0], &head); err != nil || head.Type != "trace" {
		t.Fatalf("line 1: type %q, %v", head.Type, err)
	}
	r := replay{peers: make(map[string]*tracePeer), datagrams: make(map[int][]byte)}
	for name, c := range head.Config {
		p := &tracePeer{accept: true, now: testTime(head.T0)}
		e, err := newEndpoint(c.config(), p.now, p)
		if err != nil {
			t.Fatal(err)
		}
		p.Endpoint = e
		r.peers[name] = p
	}
	decodeLines(t, lines[1:], func(line int, op traceOp) {
		if err := r.do(&op); err != nil {
			t.Fatalf("line %d, %s: %v", line+1, op.Op, err)
		}
	})
}

// do performs one operation and compares all that came of it.
func (r *replay) do(op *traceOp) error {
	p := r.peers[op.EP]
	if p == nil && op.Op != "bulk" && op.Op != "drop" {
		return fmt.Errorf("no endpoint %q", op.EP)
	}
	switch op.Op {
	case "update":
		p.now = testTime(op.T)
		p.Update(p.now)
		return p.compare(&op.traceState, true)
	case "send":
		return r.send(p, op)
	case "deliver":
		return p.deliver(op, r.datagrams[op.I])
	case "inject":
		return p.deliver(op, op.Hex)
	case "drop":
	case "clear_acks":
		p.ClearAcks()
	case "accept":
		p.accept = op.Value
	case "reset":
		p.Reset()
	case "bulk":
		return r.bulk(op)
	default:
		return fmt.Errorf("unknown operation")
	}
	return nil
}

func (r *replay) send(p *tracePeer, op *traceOp) error {
	before := p.Counters()
	want := uint16(p.NextID())
	r.out.Reset()
	id, err := p.Send(p.now, testPayload(op.Len, op.Seed), &r.out)
	if (err != nil) != (op.Seq == nil) {
		return fmt.Errorf("Send(%d bytes) = %v", op.Len, err)
	}
	if err == nil && (uint16(id) != *op.Seq || want != *op.Seq) {
		return fmt.Errorf("sequence %d, NextSequence %d, want %d", uint16(id), want, *op.Seq)
	}
	if r.out.Len() != len(op.TX) {
		return fmt.Errorf("%d datagrams, want %d", r.out.Len(), len(op.TX))
	}
	for i, tx := range op.TX {
		if got := r.out.At(i); !bytes.Equal(got, tx.Hex) {
			return fmt.Errorf("datagram %d = %x, want %x", tx.I, got, []byte(tx.Hex))
		}
		r.datagrams[tx.I] = tx.Hex
		r.next = tx.I + 1
	}
	return compareChange(before, p.Counters(), op.DC)
}

func (p *tracePeer) deliver(op *traceOp, datagram []byte) error {
	if datagram == nil {
		return fmt.Errorf("no datagram %d", op.I)
	}
	before, acks := p.Counters(), len(p.Acks())
	p.rx, p.got = p.rx[:0], p.got[:0]
	given := bytes.Clone(datagram)
	p.Receive(p.now, given)
	if !bytes.Equal(given, datagram) {
		return fmt.Errorf("Receive changed the datagram")
	}
	if len(p.rx) != len(op.RX) {
		return fmt.Errorf("%d packets delivered, want %d", len(p.rx), len(op.RX))
	}
	for i, want := range op.RX {
		if got := p.rx[i]; got.Seq != want.Seq || got.Accepted != want.Accepted || !bytes.Equal(p.got[i], want.payload()) {
			return fmt.Errorf("delivered %+v %x, want %+v %x", got, p.got[i], want, want.payload())
		}
	}
	if got := p.Acks()[acks:]; !slices.Equal(got, op.Acks) {
		return fmt.Errorf("acks %v, want %v", got, op.Acks)
	}
	return compareChange(before, p.Counters(), op.DC)
}

// bulk is many packets in one line.
func (r *replay) bulk(op *traceOp) error {
	a, b := r.peers["a"], r.peers["b"]
	if r.next != op.FirstI && op.FirstI != 0 {
		r.next = op.FirstI
	}
	sent, acksA, acksB := sha256.New(), sha256.New(), sha256.New()
	var numA, numB, datagrams, rxA, rxB int
	var left []byte
	receive := func(p *tracePeer, datagram []byte, n *int) {
		p.rx, p.got = p.rx[:0], p.got[:0]
		p.Receive(p.now, datagram)
		*n += len(p.rx)
	}
	send := func(p *tracePeer, seed uint32) []byte {
		r.out.Reset()
		_, _ = p.Send(p.now, testPayload(op.Len, seed), &r.out)
		for i := range r.out.Len() {
			datagrams++
			d := r.out.At(i)
			sent.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(d))))
			sent.Write(d)
			r.datagrams[r.next] = bytes.Clone(d)
			r.next++
		}
		return bytes.Clone(r.out.At(0))
	}
	collect := func() {
		numA += hashAcks(acksA, a)
		numB += hashAcks(acksB, b)
	}
	for k := range op.Count {
		if k%op.UpdateEvery == 0 {
			now := testTime(op.T + float64(k/op.UpdateEvery)*op.DT)
			a.now, b.now = now, now
			a.Update(now)
			b.Update(now)
		}
		if left != nil {
			receive(a, left, &rxA)
		}
		receive(b, send(a, op.Seed+2*uint32(k)), &rxB)
		left = send(b, op.Seed+2*uint32(k)+1)
		collect()
	}
	receive(a, left, &rxA)
	collect()
	if got := hex.EncodeToString(sent.Sum(nil)); datagrams != op.Datagrams || got != op.SHA256 {
		return fmt.Errorf("%d datagrams, hash %s, want %d, %s", datagrams, got, op.Datagrams, op.SHA256)
	}
	if got := hex.EncodeToString(acksA.Sum(nil)); numA != op.AcksA || got != op.AcksASHA256 {
		return fmt.Errorf("%d acks of a, hash %s, want %d, %s", numA, got, op.AcksA, op.AcksASHA256)
	}
	if got := hex.EncodeToString(acksB.Sum(nil)); numB != op.AcksB || got != op.AcksBSHA256 {
		return fmt.Errorf("%d acks of b, hash %s, want %d, %s", numB, got, op.AcksB, op.AcksBSHA256)
	}
	if rxA != op.RXA || rxB != op.RXB {
		return fmt.Errorf("%d and %d packets delivered, want %d and %d", rxA, rxB, op.RXA, op.RXB)
	}
	if err := a.compare(op.A, false); err != nil {
		return err
	}
	return b.compare(op.B, false)
}

// hashAcks adds the acks of p to h, clears them, and returns their number.
func hashAcks(h hash.Hash, p *tracePeer) int {
	n := len(p.Acks())
	for _, s := range p.Acks() {
		h.Write(binary.LittleEndian.AppendUint16(nil, s))
	}
	p.ClearAcks()
	return n
}

// compare reports where the endpoint is not in the state want.
func (p *tracePeer) compare(want *traceState, withAcks bool) error {
	if got := counterList(p.Counters()); got != want.Counters {
		return fmt.Errorf("counters %v, want %v", got, want.Counters)
	}
	if uint16(p.NextID()) != want.NextSeq {
		return fmt.Errorf("NextSequence = %d, want %d", uint16(p.NextID()), want.NextSeq)
	}
	if withAcks && len(p.Acks()) != want.NumAcks {
		return fmt.Errorf("%d acks, want %d", len(p.Acks()), want.NumAcks)
	}
	got, figures := statList(p.Stats()), statList(want.Stats.stats())
	for i := range got {
		if !close32(got[i], figures[i]) {
			return fmt.Errorf("figure %d = %v, want %v (%+v)", i, got[i], figures[i], p.Stats())
		}
	}
	return nil
}

// close32 allows for the reference's rounding.
func close32(got, want float32) bool {
	d := math.Abs(float64(got) - float64(want))
	return d <= 1e-4 || d <= 1e-5*math.Abs(float64(want))
}

func statList(s Stats) [11]float32 {
	return [...]float32{s.RTT, s.RTTMin, s.RTTMax, s.RTTAvg, s.JitterAvg, s.JitterMax, s.JitterStddev,
		s.PacketLoss, s.SentBandwidth, s.ReceivedBandwidth, s.AckedBandwidth}
}

// counterNames are the vectors' names of the counters, in their order.
var counterNames = [...]string{"packets_sent", "packets_received", "packets_acked", "packets_stale",
	"packets_invalid", "packets_too_large_to_send", "packets_too_large_to_receive",
	"fragments_sent", "fragments_received", "fragments_invalid", "packets_duplicate"}

func counterList(c Counters) [11]uint64 {
	return [...]uint64{c.PacketsSent, c.PacketsReceived, c.PacketsAcked, c.PacketsStale,
		c.PacketsInvalid, c.PacketsTooLargeToSend, c.PacketsTooLargeToReceive,
		c.FragmentsSent, c.FragmentsReceived, c.FragmentsInvalid, c.PacketsDuplicate}
}

// compareChange reports how the change of the counters differs from want.
func compareChange(before, after Counters, want map[string]uint64) error {
	a, b := counterList(before), counterList(after)
	for i, name := range counterNames {
		if got := b[i] - a[i]; got != want[name] {
			return fmt.Errorf("%s changed by %d, want %d", name, got, want[name])
		}
	}
	return nil
}
