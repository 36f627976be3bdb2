package volley

import (
	"time"

	"volley/internal/recording"
	"volley/internal/wire"
	"volley/reliable"
)

// A connection with Config.Capture notes the calls of its endpoint, and the answers
// that it gave to the endpoint's questions.

// coreProtocol names captures of endpoints of package reliable.
const coreProtocol = "reliable"

// coreConfig returns the configuration of an endpoint, and begins to capture it if wanted.
func (c *Conn) coreConfig(now time.Time, first uint64) *reliable.Config {
	cfg := &c.set.reliable
	if c.set.capture == nil {
		return cfg
	}
	j, err := captured(cfg, first)
	if err != nil {
		return cfg
	}
	tape := c.set.capture.Open(recording.Connection{
		Protocol: coreProtocol,
		Local:    c.out.Below.LocalAddr().String(), Remote: c.out.Below.RemoteAddr().String(),
		Start: now, Config: j,
	})
	if tape == nil {
		return cfg
	}
	c.mu.Lock()
	c.extraLocked().tape = tape
	c.mu.Unlock()
	if cfg.Reserve == nil {
		return cfg
	}
	own := *cfg
	own.Reserve = func(delta int, acked bool) bool { return tape.Reserved(delta, cfg.Reserve(delta, acked)) }
	return &own
}

// tape returns where the connection is captured, or nil.
func (c *Conn) tape() *recording.Stream {
	if c.set.capture == nil || c.extra() == nil {
		return nil
	}
	return c.extra().tape
}

// do makes a call of the core, which is noted if the connection is captured.
func (c *Conn) do(kind recording.Kind, t time.Time, b []byte, out *wire.Batch) (result int64, err error) {
	tape := c.tape()
	if tape == nil {
		return c.endpoint.do(kind, t, b, out)
	}
	c.begin(tape, kind, t)
	switch kind {
	case recording.Send:
		tape.Data(b, 0)
	case recording.Receive:
		tape.Data(b, headSize(b))
	}
	result, err = c.endpoint.doNoted(tape.Outputs(), kind, t, b, out)
	tape.End()
	return result, err
}

// begin notes a call at t, no earlier than the endpoint's time, which calls without a note move.
func (c *Conn) begin(tape *recording.Stream, kind recording.Kind, t time.Time) {
	tape.Begin(kind, max(c.endpoint.inner().Elapsed(), t.Sub(c.born())))
}

// noteMessage notes a message that the endpoint has given out, and whether it was taken.
func (c *Conn) noteMessage(sequence uint16, payload []byte, taken bool) {
	if tape := c.tape(); tape != nil {
		tape.Outputs().Delivered(uint64(sequence), payload)
		tape.Answer(taken)
	}
}

// noteAside notes datagrams that the connection sends without its endpoint.
func (c *Conn) noteAside(now clock, out *wire.Batch, n int) {
	if tape := c.tape(); tape != nil {
		c.begin(tape, recording.Aside, c.at(now))
		tape.Outputs().Sent(out, n, headSize)
		tape.End()
	}
}

// free ends the endpoint, and its capture.
func (c *Conn) free() {
	c.do(recording.Close, c.born(), nil, nil)
	if tape := c.tape(); tape != nil {
		tape.Close()
		c.extra().tape = nil
	}
}
