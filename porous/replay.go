package porous

import (
	"errors"
	"fmt"
	"io"

	"volley/capture"
	"volley/internal/datagram"
	"volley/internal/recording"
	"volley/internal/replay"
	"volley/porous/internal/core"
)

// Replay replays a capture of connections of this package (see Config.Capture). It gives
// the recorded datagrams, messages and times to new protocol cores, and compares what they
// send, deliver and decide with the recording. The report tells where they first differ.
// A capture from another kind of processor may differ, because congestion control uses
// floating-point numbers.
//
// The error is one of r, or a *capture.FormatError if r is no capture or was changed. The
// report is then of what came before, or nil.
func Replay(r io.Reader) (*capture.Report, error) {
	return replay.Replay(r, coreProtocol, replay.MaxMemory, newReplayed)
}

// A replayed is a core in a replay.
type replayed struct {
	cfg  core.Config
	peer core.Peer
	now  core.Clock

	// Of the present call:
	record *recording.Record
	notes  *recording.Outputs
}

func newReplayed(info *recording.Connection) (replay.Core, error) {
	var c coreConfig
	if err := info.DecodeConfig(&c); err != nil {
		return nil, err
	}
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	p := &replayed{cfg: *cfg}
	if c.Limited {
		p.cfg.Reserve = p.reserve
	}
	startPeer(&p.peer, &p.cfg, c.ids(), p)
	return p, nil
}

// config undoes newCoreConfig through a Config, so a capture says nothing that one cannot.
func (c *coreConfig) config() (*core.Config, error) {
	congestion := ""
	switch {
	case c.Paper:
		congestion = "paper"
	case c.Controller == core.Tolerant:
		congestion = "tolerant"
	}
	datagram := core.MTU0
	if c.Secure {
		datagram = core.MTUSecure
	}
	set, err := newSettings(&Config{
		Channels: c.Channels, MaxMessageSize: c.MaxPacket, SmallFrames: c.Version > 0,
		SendBandwidth: int64(c.SendBandwidth), ReceiveBandwidth: int64(c.ReceiveBandwidth),
		SendBuffer: c.SendBuffer, ReceiveBuffer: c.ReceiveBuffer, LowShare: float64(c.LowShare) / 100,
		KeepAlive: c.PingInterval, IdleTimeout: c.Watchdog, HandshakeTimeout: c.Handshake,
		Congestion: congestion, Redundancy: c.Redundancy, VerifyDisconnect: c.VerifyDisconnect,
	}, datagram)
	if err != nil {
		return nil, err
	}
	again := newCoreConfig(&set.core, c.ids())
	if again.Limited = c.Limited; again != *c {
		return nil, errors.New("configuration: a connection of this package has other values")
	}
	return &set.core, nil
}

func (c *coreConfig) ids() ids { return ids{c.ID, c.OtherID, c.Accepted} }

func (p *replayed) reserve(delta, _ int) bool {
	if delta <= 0 {
		return true
	}
	p.notes.Asked(delta)
	ok, _ := p.record.Answer()
	return ok
}

// Call implements replay.Core.
func (p *replayed) Call(r *recording.Record, notes *recording.Outputs) error {
	p.record, p.notes = r, notes
	if r.At < p.now {
		return errors.New("the time runs backwards")
	}
	p.now = r.At
	if len(r.Data) != r.Size {
		return errors.New("the data that the record needs were left out")
	}
	k, err := p.call(r)
	if err != nil {
		return err
	}
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	k.doNoted(notes, &p.peer, p.now, out)
	return nil
}

// Memory implements replay.Core.
func (p *replayed) Memory() int {
	st := p.peer.Stats()
	return st.Held + st.Queued + p.peer.Memory()
}

// call returns the call of a record, if a connection can have made it.
func (p *replayed) call(r *recording.Record) (k call, err error) {
	k = call{kind: r.Kind, data: r.Data}
	for i := range arguments(r.Kind) {
		v, ok := r.Arg()
		if !ok {
			return k, fmt.Errorf("a call of %v lacks its arguments", r.Kind)
		}
		k.args[i] = v
	}
	switch r.Kind {
	case recording.Send:
		if mode := k.args[1]; mode < 0 || mode > int64(core.Passive) || len(r.Data) > p.cfg.MaxPacket {
			return k, errors.New("a message with invalid arguments")
		}
		return k, p.checkChannel(k.args[0])
	case recording.Priority:
		return k, p.checkChannel(k.args[0])
	case recording.Receive, recording.EndBatch, recording.Tick, recording.Transmit, recording.Abort, recording.Disconnect, recording.Compact, recording.Close:
		return k, nil
	}
	return k, fmt.Errorf("the core has no call %v", r.Kind)
}

func (p *replayed) checkChannel(n int64) error {
	if n < 0 || n >= int64(p.cfg.Channels) {
		return errors.New("a channel beyond the connection's channels")
	}
	return nil
}

// HandlePacket implements core.Handler.
func (p *replayed) HandlePacket(channel int, b []byte) {
	p.notes.Delivered(uint64(channel), b)
	if p.cfg.Reserve != nil {
		n, _ := p.record.AnswerNumber()
		p.peer.Keep(int(min(n, 1<<30)))
	}
}

// HandleFate implements core.Handler.
func (p *replayed) HandleFate(f core.Fate) { noteFate(p.notes, f) }

// HandleEvent implements core.Handler.
func (p *replayed) HandleEvent(e core.Event) { p.notes.Result(int64(e)) }

// Unread implements core.Handler: what was recorded.
func (p *replayed) Unread(int) (one, all int) {
	a, ok := p.record.AnswerNumber()
	b, also := p.record.AnswerNumber()
	if !ok || !also {
		p.notes.Result(-1) // which no recording has here, so that it shows
	}
	return int(min(a, 1<<30)), int(min(b, 1<<30))
}
