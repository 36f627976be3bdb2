package world

import (
	"bytes"
	"io"

	"volley"
	"volley/capture"
	"volley/porous"
)

// recorded is how much is recorded of a world, in bytes.
const recorded = 1 << 20

// recorder returns the one of all connections of a world, or nil: few worlds have one.
func recorder(p *plan) *capture.Recorder {
	if p.seed%5 != 2 {
		return nil
	}
	r, err := capture.NewRecorder(&capture.Config{MaxBytes: recorded})
	if err != nil {
		panic(err)
	}
	return r
}

// replay checks that what was recorded replays exactly.
func (w *world) replay() {
	if w.recorder == nil {
		return
	}
	w.recorder.Close()
	var buf bytes.Buffer
	if _, err := w.recorder.WriteTo(&buf); err != nil {
		w.book.judged("no capture: %v", err)
		return
	}
	w.replayBy(buf.Bytes(), "volley", volley.Replay)
	w.replayBy(buf.Bytes(), "porous", porous.Replay)
}

func (w *world) replayBy(b []byte, name string, replay func(io.Reader) (*capture.Report, error)) {
	report, err := replay(bytes.NewReader(b))
	if err != nil {
		w.book.judged("replay of %s: %v", name, err)
		return
	}
	for _, c := range report.Connections {
		if c.Incomplete {
			continue
		}
		w.book.counts.Replayed += uint64(c.Calls)
		if !c.Same() {
			w.book.judged("replay of %s, %s to %s: %v", name, c.Local, c.Remote, c.Divergence)
		}
	}
}
