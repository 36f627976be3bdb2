package volley

import (
	"errors"
	"fmt"
	"io"
	"time"

	"volley/capture"
	"volley/internal/datagram"
	"volley/internal/wire"
	"volley/reliable"
)

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
	return capture.Replay(r, coreProtocol, capture.MaxMemory, newReplayed)
}

// A replayed is an endpoint in a replay.
type replayed struct {
	cfg      reliable.Config
	endpoint reliable.Endpoint
	start    time.Time

	// Of the present call:
	call  *capture.Record
	out   *capture.Outputs
	batch *wire.Batch
}

func newReplayed(info *capture.Info) (capture.Core, error) {
	var cfg coreConfig
	if err := info.DecodeConfig(&cfg); err != nil {
		return nil, err
	}
	if !cfg.possible() {
		return nil, errors.New("configuration: no connection can have it")
	}
	p := &replayed{cfg: cfg.config(), start: info.Start}
	if cfg.Limited {
		p.cfg.Reserve = p.reserve
	}
	if err := p.endpoint.Init(&p.cfg, p.start, p); err != nil {
		return nil, err
	}
	return p, nil
}

// Memory implements capture.Core.
func (p *replayed) Memory() int { return p.endpoint.MemoryUsage() }

// reserve answers as was recorded.
func (p *replayed) reserve(delta int, _ bool) bool {
	if delta <= 0 {
		return true
	}
	p.out.Asked(delta)
	ok, _ := p.call.Answer()
	return ok
}

// Call implements capture.Core.
func (p *replayed) Call(r *capture.Record, out *capture.Outputs) error {
	p.call, p.out, p.batch = r, out, datagram.GetBatch()
	defer datagram.PutBatch(p.batch)
	return p.do(r, p.start.Add(r.At))
}

func (p *replayed) do(r *capture.Record, t time.Time) error {
	e, out := &p.endpoint, p.out
	switch r.Kind {
	case capture.Send:
		id, err := e.Send(t, r.Whole(), p.batch)
		noteSent(out, p.batch, 0)
		out.Result(sendResult(id, err))
	case capture.Receive:
		out.Result(int64(e.Receive(t, r.Whole())))
	case capture.Update:
		e.Update(t)
	case capture.Control:
		e.SendControl(t, p.batch)
		noteSent(out, p.batch, 0)
	case capture.Expire:
		e.ExpireReassemblies(t)
	case capture.Compact:
		e.Compact(t)
	case capture.InquiryDue:
		out.Result(truth(e.InquiryDue(t)))
	case capture.Inquire:
		e.SendInquiry(t, p.batch)
		noteSent(out, p.batch, 0)
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
