package volley

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"volley/capture"
	"volley/internal/wire"
	"volley/reliable"
)

// replayMemory is how much memory the endpoints of one replay may take, in bytes,
// whatever the capture says.
const replayMemory = 1 << 30

// Replay replays what was captured of connections of this package with
// [Config].Capture: it gives the recorded datagrams, messages and times to fresh
// endpoints of package reliable, and compares what they send, deliver and decide
// with what was recorded. The report tells where they first differ, if they do. A
// capture that was made on a processor of another kind may differ, since round-trip
// times and losses are smoothed with floating-point numbers.
//
// The error is a *capture.FormatError if r is no capture, or was changed, or one of
// r. The report is of what came before, or nil.
func Replay(r io.Reader) (*capture.Report, error) {
	left := replayMemory
	return capture.Replay(r, coreProtocol, func(info *capture.Info) (capture.Core, error) {
		return newReplayed(info, &left)
	})
}

// A replayed is an endpoint in a replay.
type replayed struct {
	cfg      reliable.Config
	endpoint reliable.Endpoint
	start    time.Time
	batch    wire.Batch
	left     *int // bytes of memory, of all
	full     bool // there were none left

	// Of the present call:
	call *capture.Record
	out  *capture.Outputs
}

func newReplayed(info *capture.Info, left *int) (*replayed, error) {
	var cfg coreConfig
	d := json.NewDecoder(bytes.NewReader(info.Config))
	d.DisallowUnknownFields() // they would matter
	if err := d.Decode(&cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	p := &replayed{cfg: cfg.config(), start: info.Start, left: left}
	p.cfg.Reserve = func(delta int, _ bool) bool { return p.reserve(delta, cfg.Limited) }
	if err := p.endpoint.Init(&p.cfg, p.start, p); err != nil {
		return nil, err
	}
	return p, nil
}

// reserve answers as was recorded, or yes where there was no limit.
func (p *replayed) reserve(delta int, limited bool) bool {
	*p.left -= delta
	if delta <= 0 {
		return true
	}
	ok := true
	if limited {
		p.out.Asked(delta)
		ok, _ = p.call.Answer()
	}
	p.full = p.full || *p.left < 0
	if !ok || p.full {
		*p.left += delta
		return false
	}
	return true
}

// Call implements capture.Core.
func (p *replayed) Call(r *capture.Record, out *capture.Outputs) error {
	p.call, p.out = r, out
	p.batch.Reset()
	t := p.start.Add(r.At)
	if err := p.do(r, t); err != nil {
		return err
	}
	if p.full {
		return errors.New("more memory is needed than replays may take")
	}
	return nil
}

func (p *replayed) do(r *capture.Record, t time.Time) error {
	e, out := &p.endpoint, p.out
	switch r.Kind {
	case capture.Send:
		id, err := e.Send(t, whole(r), &p.batch)
		addSent(out, &p.batch, 0)
		out.Result(sendResult(id, err))
	case capture.Receive:
		out.Result(int64(e.Receive(t, whole(r))))
	case capture.Update:
		e.Update(t)
	case capture.Control:
		e.SendControl(t, &p.batch)
		addSent(out, &p.batch, 0)
	case capture.Expire:
		e.ExpireReassemblies(t)
	case capture.Compact:
		e.Compact(t)
	case capture.InquiryDue:
		out.Result(truth(e.InquiryDue(t)))
	case capture.Inquire:
		e.SendInquiry(t, &p.batch)
		addSent(out, &p.batch, 0)
	case capture.Renew:
		e.Renew()
	case capture.Close:
		addFigures(out, e)
		e.Free()
		return e.Init(&p.cfg, p.start, p) // nothing comes any more but from a capture that was made up
	default:
		return fmt.Errorf("an endpoint has no call %v", r.Kind)
	}
	return nil
}

// whole returns the data of a call, with zeros for what was left out.
func whole(r *capture.Record) []byte {
	if len(r.Data) == r.Size {
		return r.Data
	}
	b := make([]byte, r.Size)
	copy(b, r.Data)
	return b
}

// HandleMessage implements reliable.Handler.
func (p *replayed) HandleMessage(sequence uint16, payload []byte) bool {
	p.out.Delivered(uint64(sequence), payload)
	taken, _ := p.call.Answer()
	return taken
}

// HandleFate implements reliable.FateHandler.
func (p *replayed) HandleFate(id uint64, fate reliable.Fate, rtt time.Duration) {
	p.out.Fate(id, uint8(fate), rtt)
}
