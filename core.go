package volley

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"volley/internal/inner"
	"volley/internal/recording"
	"volley/internal/wire"
	"volley/reliable"
)

// A core is an endpoint whose changes all go through do, for captures and replays.
type core struct{ reliable.Endpoint }

// inner returns the calls of the endpoint that package reliable does not export.
func (k *core) inner() inner.Endpoint { return inner.Of(&k.Endpoint) }

// errNoCall is what do says of a kind that is no call of an endpoint.
var errNoCall = errors.New("an endpoint has no such call")

// do makes a call with b at t, and returns an id or -1, a Verdict, or 1 for true.
func (k *core) do(kind recording.Kind, t time.Time, b []byte, out *wire.Batch) (result int64, err error) {
	switch kind {
	case recording.Send:
		id, err := k.Send(t, b, out)
		if err != nil {
			return -1, err
		}
		return int64(id), nil
	case recording.Receive:
		return int64(k.Receive(t, b)), nil
	case recording.Update:
		k.Update(t)
	case recording.Control:
		k.SendControl(t, out)
	case recording.Expire:
		k.inner().ExpireReassemblies(t)
	case recording.Compact:
		k.Compact(t)
	case recording.InquiryDue:
		if k.inner().InquiryDue(t) {
			return 1, nil
		}
	case recording.Inquire:
		k.inner().SendInquiry(t, out)
	case recording.Renew:
		k.inner().Renew()
	case recording.Move:
		k.inner().Move(t)
	case recording.Close:
		k.Free()
	default:
		return 0, errNoCall
	}
	return 0, nil
}

// doNoted makes a call, and notes what comes of it.
func (k *core) doNoted(notes *recording.Outputs, kind recording.Kind, t time.Time, b []byte, out *wire.Batch) (result int64, err error) {
	before := 0
	if out != nil {
		before = out.Len()
	}
	if kind == recording.Close {
		k.noteFigures(notes)
	}
	result, err = k.do(kind, t, b, out)
	notes.Sent(out, before, headSize)
	switch kind {
	case recording.Send, recording.Receive, recording.InquiryDue:
		notes.Result(result)
	}
	return result, err
}

func (k *core) noteFigures(notes *recording.Outputs) {
	if notes == nil {
		return
	}
	n, s := k.Counters(), k.Stats()
	for _, v := range [...]uint64{
		n.PacketsSent, n.PacketsReceived, n.PacketsAcked, n.PacketsStale, n.PacketsDuplicate, n.PacketsInvalid,
		n.PacketsTooLargeToSend, n.PacketsTooLargeToReceive, n.FragmentsSent, n.FragmentsReceived, n.FragmentsInvalid,
		n.AcksInvalid, uint64(k.MemoryUsage()), uint64(k.InFlight()),
	} {
		notes.Result(int64(v))
	}
	for _, v := range [...]float32{s.RTT, s.RTTMin, s.RTTMax, s.RTTAvg, s.PacketLoss, s.SentBandwidth, s.ReceivedBandwidth, s.AckedBandwidth} {
		notes.Result(int64(math.Float32bits(v)))
	}
}

// headSize returns how many bytes of a datagram come before the application's.
func headSize(d []byte) int {
	if !wire.IsFragment(d) {
		return regularHead(d)
	}
	n := min(reliable.FragmentHeaderSize, len(d))
	if n == reliable.FragmentHeaderSize && d[3] == 0 {
		n += regularHead(d[n:])
	}
	return n
}

// regularHead is headSize for a packet. Without a header, the first bytes are taken for one.
func regularHead(d []byte) int {
	_, n, err := reliable.ParseHeader(d)
	if err != nil {
		return min(reliable.MaxHeaderSize, len(d))
	}
	return n
}

// A coreConfig is the configuration of a core in a capture.
type coreConfig struct {
	reliable.Config
	Reserve bool   `json:"Limited,omitzero"` // in the place of the function
	FirstID uint64 `json:"FirstID,omitzero"` // of the first packet; older captures have none, for 0
}

// captured returns the configuration as a capture has it, in JSON.
func captured(cfg *reliable.Config, first uint64) (json.RawMessage, error) {
	c := coreConfig{Config: *cfg, Reserve: cfg.Reserve != nil, FirstID: first}
	c.Config.Reserve = nil
	return json.Marshal(c)
}

// possible reports whether newSettings allows the sizes: some of an endpoint's take too long.
func (c *coreConfig) possible() bool {
	return c.SentBuffer|c.ReceivedBuffer|c.ReassemblyBuffer|c.RTTHistory == 0 && c.AckBuffer == -1
}
