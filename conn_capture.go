package volley

import (
	"encoding/json"
	"math"
	"time"

	"volley/capture"
	"volley/internal/wire"
	"volley/reliable"
)

// A connection that is captured (Config.Capture) makes those calls of its endpoint
// that change it through the methods of this file, which note what goes in and
// out. What only asks the endpoint is not noted, but for the time: the endpoint
// goes by the newest time that it was told by any call, and that is the one noted.

// coreProtocol names captures of endpoints of package reliable.
const coreProtocol = "reliable"

// A coreConfig is what is captured of a reliable.Config.
type coreConfig struct {
	MaxPacketSize, FragmentAbove, FragmentSize, MaxFragments  int           `json:",omitzero"`
	SentBuffer, ReceivedBuffer, AckBuffer, ReassemblyBuffer   int           `json:",omitzero"`
	RTTSmoothing, LossSmoothing, BandwidthSmoothing           float32       `json:",omitzero"`
	RTTHistory, PacketHeaderSize, MaxWindow, ReassemblyBytes  int           `json:",omitzero"`
	SmoothingInterval, AckDelay, LostAfter, ReassemblyTimeout time.Duration `json:",omitzero"`
	JumpGuard, MidStream, AckGuard, AckRefused                bool          `json:",omitzero"`
	Limited                                                   bool          `json:",omitzero"` // there is a Reserve
}

func newCoreConfig(c *reliable.Config) coreConfig {
	return coreConfig{
		MaxPacketSize: c.MaxPacketSize, FragmentAbove: c.FragmentAbove, FragmentSize: c.FragmentSize, MaxFragments: c.MaxFragments,
		SentBuffer: c.SentBuffer, ReceivedBuffer: c.ReceivedBuffer, AckBuffer: c.AckBuffer, ReassemblyBuffer: c.ReassemblyBuffer,
		RTTSmoothing: c.RTTSmoothing, LossSmoothing: c.LossSmoothing, BandwidthSmoothing: c.BandwidthSmoothing,
		RTTHistory: c.RTTHistory, PacketHeaderSize: c.PacketHeaderSize, MaxWindow: c.MaxWindow, ReassemblyBytes: c.ReassemblyBytes,
		SmoothingInterval: c.SmoothingInterval, AckDelay: c.AckDelay, LostAfter: c.LostAfter, ReassemblyTimeout: c.ReassemblyTimeout,
		JumpGuard: c.JumpGuard, MidStream: c.MidStream, AckGuard: c.AckGuard, AckRefused: c.AckRefused,
		Limited: c.Reserve != nil,
	}
}

// config undoes newCoreConfig.
func (c *coreConfig) config() reliable.Config {
	return reliable.Config{
		MaxPacketSize: c.MaxPacketSize, FragmentAbove: c.FragmentAbove, FragmentSize: c.FragmentSize, MaxFragments: c.MaxFragments,
		SentBuffer: c.SentBuffer, ReceivedBuffer: c.ReceivedBuffer, AckBuffer: c.AckBuffer, ReassemblyBuffer: c.ReassemblyBuffer,
		RTTSmoothing: c.RTTSmoothing, LossSmoothing: c.LossSmoothing, BandwidthSmoothing: c.BandwidthSmoothing,
		RTTHistory: c.RTTHistory, PacketHeaderSize: c.PacketHeaderSize, MaxWindow: c.MaxWindow, ReassemblyBytes: c.ReassemblyBytes,
		SmoothingInterval: c.SmoothingInterval, AckDelay: c.AckDelay, LostAfter: c.LostAfter, ReassemblyTimeout: c.ReassemblyTimeout,
		JumpGuard: c.JumpGuard, MidStream: c.MidStream, AckGuard: c.AckGuard, AckRefused: c.AckRefused,
	}
}

// possible reports whether newSettings leaves the sizes as they are: with some of
// those that an endpoint takes, each call would walk over tens of thousands of
// entries.
func (c *coreConfig) possible() bool {
	return c.SentBuffer|c.ReceivedBuffer|c.ReassemblyBuffer|c.RTTHistory == 0 && c.AckBuffer == -1
}

// coreConfig returns what the endpoint of a new connection is to be made of, and
// begins to capture it at the time now, if that is wanted.
func (c *Conn) coreConfig(now time.Time) *reliable.Config {
	cfg := &c.set.reliable
	if c.set.capture == nil {
		return cfg
	}
	j, err := json.Marshal(newCoreConfig(cfg))
	if err != nil {
		return cfg
	}
	tape := c.set.capture.Open(capture.Info{
		Protocol: coreProtocol,
		Local:    c.dc.LocalAddr().String(), Remote: c.dc.RemoteAddr().String(),
		Start: now, Config: j,
	})
	if tape == nil {
		return cfg
	}
	c.mu.Lock()
	c.rareLocked().tape = tape
	c.mu.Unlock()
	if cfg.Reserve == nil {
		return cfg
	}
	own := *cfg
	own.Reserve = func(delta int, acked bool) bool {
		ok := cfg.Reserve(delta, acked)
		if out := tape.Outputs(); out != nil && delta > 0 {
			out.Asked(delta)
			tape.Answer(ok)
		}
		return ok
	}
	return &own
}

// tape returns where the connection is captured, or nil.
func (c *Conn) tape() *capture.Stream {
	if c.set.capture == nil || c.rare == nil {
		return nil
	}
	return c.rare.tape
}

// notes returns where answers of the endpoint are noted, or nil.
func (c *Conn) notes() *capture.Outputs { return c.tape().Outputs() }

// begin notes the beginning of a call of the endpoint at t.
func (c *Conn) begin(tape *capture.Stream, kind capture.Kind, t time.Time) {
	tape.Begin(kind, max(c.endpoint.Elapsed(), t.Sub(c.born())))
}

// takeNotedLocked is takeLocked where that is noted.
func (c *Conn) takeNotedLocked(sequence uint16, payload []byte) bool {
	taken := c.takeLocked(sequence, payload)
	if notes := c.notes(); notes != nil {
		c.noteMessage(notes, sequence, payload, taken)
	}
	return taken
}

// noteMessage notes a message that the endpoint has given out.
func (c *Conn) noteMessage(notes *capture.Outputs, sequence uint16, payload []byte, taken bool) {
	notes.Delivered(uint64(sequence), payload)
	c.rare.tape.Answer(taken)
}

// noteSent notes the datagrams of a batch, which may be nil, from number n on.
func noteSent(out *capture.Outputs, b *wire.Batch, n int) {
	if out == nil || b == nil {
		return
	}
	for ; n < b.Len(); n++ {
		d := b.At(n)
		out.Datagram(d, headSize(d))
	}
}

// headSize returns how many bytes of a datagram come before the application's.
func headSize(d []byte) int {
	if !reliable.IsFragment(d) {
		return regularHead(d)
	}
	n := min(reliable.FragmentHeaderSize, len(d))
	if n == reliable.FragmentHeaderSize && d[3] == 0 {
		n += regularHead(d[n:])
	}
	return n
}

// regularHead is headSize for a packet. Where there is no header, what looks like
// one is taken for it.
func regularHead(d []byte) int {
	_, n, err := reliable.ParseHeader(d)
	if err != nil {
		return min(reliable.MaxHeaderSize, len(d))
	}
	return n
}

// captured reports whether the connection may be captured. Who calls the endpoint for
// each message asks this first, which costs less than a call of send or receive.
func (c *Conn) captured() bool { return c.set.capture != nil }

// send is Send of the endpoint.
func (c *Conn) send(t time.Time, b []byte, out *wire.Batch) (uint64, error) {
	tape := c.tape()
	if tape == nil {
		return c.endpoint.Send(t, b, out)
	}
	c.begin(tape, capture.Send, t)
	tape.Data(b, 0)
	n := out.Len()
	id, err := c.endpoint.Send(t, b, out)
	noteSent(tape.Outputs(), out, n)
	tape.Outputs().Result(sendResult(id, err))
	tape.End()
	return id, err
}

// sendResult is what is noted of the results of Send.
func sendResult(id uint64, err error) int64 {
	if err != nil {
		return -1
	}
	return int64(id)
}

// receive is Receive of the endpoint.
func (c *Conn) receive(t time.Time, b []byte) reliable.Verdict {
	tape := c.tape()
	if tape == nil {
		return c.endpoint.Receive(t, b)
	}
	c.begin(tape, capture.Receive, t)
	tape.Data(b, headSize(b))
	v := c.endpoint.Receive(t, b)
	tape.Outputs().Result(int64(v))
	tape.End()
	return v
}

// update is Update of the endpoint.
func (c *Conn) update(t time.Time) {
	c.call(capture.Update, t, nil, func() { c.endpoint.Update(t) })
}

// call makes a call of the endpoint that has no data; out is where its datagrams
// go, nil if there are none.
func (c *Conn) call(kind capture.Kind, t time.Time, out *wire.Batch, f func()) {
	tape := c.tape()
	if tape == nil {
		f()
		return
	}
	c.begin(tape, kind, t)
	n := 0
	if out != nil {
		n = out.Len()
	}
	f()
	noteSent(tape.Outputs(), out, n)
	tape.End()
}

// sendControl is SendControl of the endpoint.
func (c *Conn) sendControl(t time.Time, out *wire.Batch) {
	c.call(capture.Control, t, out, func() { c.endpoint.SendControl(t, out) })
}

// inquiryDue is InquiryDue of the endpoint.
func (c *Conn) inquiryDue(t time.Time) (due bool) {
	c.call(capture.InquiryDue, t, nil, func() {
		due = c.endpoint.InquiryDue(t)
		c.notes().Result(truth(due))
	})
	return due
}

// sendInquiry is SendInquiry of the endpoint.
func (c *Conn) sendInquiry(t time.Time, out *wire.Batch) {
	c.call(capture.Inquire, t, out, func() { c.endpoint.SendInquiry(t, out) })
}

// free is Free of the endpoint, before which its figures are noted.
func (c *Conn) free() {
	c.call(capture.Close, c.born(), nil, func() {
		if notes := c.notes(); notes != nil {
			addFigures(notes, &c.endpoint)
		}
		c.endpoint.Free()
	})
	if tape := c.tape(); tape != nil {
		tape.Close()
		c.rare.tape = nil
	}
}

// noteAside notes datagrams that the connection sends without its endpoint.
func (c *Conn) noteAside(now clock, out *wire.Batch, n int) {
	if tape := c.tape(); tape != nil {
		c.begin(tape, capture.Aside, c.at(now))
		noteSent(tape.Outputs(), out, n)
		tape.End()
	}
}

// addFigures adds the counters and figures of an endpoint.
func addFigures(out *capture.Outputs, e *reliable.Endpoint) {
	n, s := e.Counters(), e.Stats()
	for _, v := range [...]uint64{
		n.PacketsSent, n.PacketsReceived, n.PacketsAcked, n.PacketsStale, n.PacketsDuplicate, n.PacketsInvalid,
		n.PacketsTooLargeToSend, n.PacketsTooLargeToReceive, n.FragmentsSent, n.FragmentsReceived, n.FragmentsInvalid,
		n.AcksInvalid, uint64(e.MemoryUsage()), uint64(e.InFlight()),
	} {
		out.Result(int64(v))
	}
	for _, v := range [...]float32{s.RTT, s.RTTMin, s.RTTMax, s.RTTAvg, s.PacketLoss, s.SentBandwidth, s.ReceivedBandwidth, s.AckedBandwidth} {
		out.Result(int64(math.Float32bits(v)))
	}
}

func truth(ok bool) int64 {
	if ok {
		return 1
	}
	return 0
}
