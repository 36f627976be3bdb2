package volley

import (
	"errors"
	"fmt"
	"io"
	"time"

	"volley/capture"
	"volley/internal/datagram"
	"volley/internal/recording"
	"volley/internal/replay"
	"volley/reliable"
)

// Replay replays a capture of connections of this package (see [Config].Capture). It
// gives the recorded datagrams, messages and times to fresh endpoints of package
// reliable, and compares their answers with the recorded ones. The report tells
// where they first differ, if they do. A
// capture that was made on a processor of another kind may differ, since round-trip
// times and losses are smoothed with floating-point numbers.
//
// The error is a *capture.FormatError if r is no capture, or was changed, or one of
// r. The report is of what came before, or nil.
func Replay(r io.Reader) (*capture.Report, error) {
	return replay.Replay(r, coreProtocol, replay.MaxMemory, newReplayed)
}

// A replayed is a core in a replay.
type replayed struct {
	core
	cfg   reliable.Config
	start time.Time
	first uint64 // id of the first packet

	// Of the present call:
	call  *recording.Record
	notes *recording.Outputs
}

func newReplayed(info *recording.Connection) (replay.Core, error) {
	var cfg coreConfig
	if err := info.DecodeConfig(&cfg); err != nil {
		return nil, err
	}
	if !cfg.possible() {
		return nil, errors.New("configuration: a connection of this package has other values")
	}
	p := &replayed{cfg: cfg.Config, start: info.Start, first: cfg.FirstID}
	if cfg.Reserve {
		p.cfg.Reserve = p.reserve
	}
	if err := p.Init(&p.cfg, p.start, p.first, p); err != nil {
		return nil, err
	}
	return p, nil
}

// Memory implements replay.Core.
func (p *replayed) Memory() int { return p.MemoryUsage() }

// reserve answers as was recorded.
func (p *replayed) reserve(delta int, _ bool) bool {
	if delta <= 0 {
		return true
	}
	p.notes.Asked(delta)
	ok, _ := p.call.Answer()
	return ok
}

// Call implements replay.Core.
func (p *replayed) Call(r *recording.Record, notes *recording.Outputs) error {
	p.call, p.notes = r, notes
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	_, err := p.doNoted(notes, r.Kind, p.start.Add(r.At), r.Whole(), out)
	switch {
	case err == errNoCall:
		return fmt.Errorf("%w as %v", errNoCall, r.Kind)
	case r.Kind == recording.Close:
		return p.Init(&p.cfg, p.start, p.first, p) // only a capture that was made up goes on
	}
	return nil
}

// HandleMessage implements reliable.Handler.
func (p *replayed) HandleMessage(sequence uint16, payload []byte) bool {
	p.notes.Delivered(uint64(sequence), payload)
	taken, _ := p.call.Answer()
	return taken
}

// HandleFate implements reliable.FateHandler.
func (p *replayed) HandleFate(id uint64, fate reliable.Fate, rtt time.Duration) {
	p.notes.Fate(id, uint8(fate), rtt)
}
