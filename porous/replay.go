package porous

import (
	"errors"
	"fmt"
	"io"
	"time"

	"volley/capture"
	"volley/internal/datagram"
	"volley/internal/wire"
	"volley/porous/internal/core"
)

// Replay replays what was captured of connections of this package with
// [Config].Capture: it gives the recorded datagrams, messages and times to fresh
// protocol cores, and compares what they send, deliver and decide with what was
// recorded. The report tells where they first differ, if they do. A capture that
// was made on a processor of another kind may differ, since congestion control
// reckons with floating-point numbers.
//
// The error is a *capture.FormatError if r is no capture, or was changed, or one of
// r. The report is of what came before, or nil.
func Replay(r io.Reader) (*capture.Report, error) {
	return capture.Replay(r, coreProtocol, capture.MaxMemory, newReplayed)
}

// A replayed is a core in a replay.
type replayed struct {
	cfg  core.Config
	peer core.Peer
	now  core.Clock

	// Of the present call:
	call  *capture.Record
	out   *capture.Outputs
	batch *wire.Batch
}

func newReplayed(info *capture.Info) (capture.Core, error) {
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

// config undoes newCoreConfig, by the way that every Config goes, so that a capture
// can say nothing that a Config cannot.
func (c *coreConfig) config() (*core.Config, error) {
	congestion := CUBIC
	switch {
	case c.Paper:
		congestion = PaperAIMD
	case c.Controller == core.Tolerant:
		congestion = LossTolerant
	}
	set, err := newSettings(&Config{
		Channels: c.Channels, MaxMessageSize: c.MaxPacket, SmallFrames: c.Version > 0,
		SendBandwidth: int64(c.SendBandwidth), ReceiveBandwidth: int64(c.ReceiveBandwidth),
		SendBuffer: c.SendBuffer, ReceiveBuffer: c.ReceiveBuffer, LowShare: c.LowShare,
		KeepAlive: c.PingInterval, IdleTimeout: c.Watchdog, HandshakeTimeout: c.Handshake,
		Congestion: congestion, Redundancy: c.Redundancy, VerifyDisconnect: c.VerifyDisconnect,
	}, core.MTU0)
	if err != nil {
		return nil, err
	}
	again := newCoreConfig(&set.core, c.ids())
	if again.Limited = c.Limited; again != *c {
		return nil, errors.New("configuration: no connection can have it")
	}
	return &set.core, nil
}

func (c *coreConfig) ids() ids { return ids{c.ID, c.OtherID, c.Accepted} }

func (p *replayed) reserve(delta int) bool {
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
	if r.At < p.now {
		return errors.New("the time runs backwards")
	}
	p.now = r.At
	if len(r.Data) != r.Size {
		return errors.New("data that were left out")
	}
	if err := p.do(r); err != nil {
		return err
	}
	noteSent(out, p.batch, 0)
	return nil
}

// Memory implements capture.Core.
func (p *replayed) Memory() int {
	st := p.peer.Stats()
	return st.Held + st.Queued + p.peer.Memory()
}

func (p *replayed) do(r *capture.Record) error {
	switch r.Kind {
	case capture.Receive:
		p.peer.Receive(p.now, r.Data, p.batch)
	case capture.EndBatch:
		p.peer.EndBatch(p.now, p.batch)
	case capture.Tick:
		p.peer.Tick(p.now, p.batch)
	case capture.Transmit:
		p.peer.Transmit(p.now, p.batch, runFrames)
	case capture.Abort:
		linger, _ := r.Arg()
		p.peer.Abort(p.now, p.batch, linger != 0)
	case capture.Disconnect:
		p.peer.Disconnect(p.now, true)
	case capture.Compact:
		p.peer.Compact()
	case capture.Close:
		noteFigures(p.out, &p.peer)
	case capture.Send:
		return p.send(r)
	case capture.Priority:
		channel, err := p.channel(r)
		if err != nil {
			return err
		}
		high, _ := r.Arg()
		p.peer.SetPriority(channel, high != 0)
	default:
		return fmt.Errorf("the core has no call %v", r.Kind)
	}
	return nil
}

func (p *replayed) send(r *capture.Record) error {
	channel, err := p.channel(r)
	if err != nil {
		return err
	}
	mode, _ := r.Arg()
	until, ok := r.Arg()
	if !ok || mode < 0 || mode > int64(core.Passive) || len(r.Data) > p.cfg.MaxPacket {
		return errors.New("a message that no connection sends")
	}
	id, taken := p.peer.Send(p.now, channel, r.Data, core.Mode(mode), time.Duration(until))
	noteSend(p.out, id, taken)
	return nil
}

// channel takes the number of a channel.
func (p *replayed) channel(r *capture.Record) (int, error) {
	n, ok := r.Arg()
	if !ok || n < 0 || n >= int64(p.cfg.Channels) {
		return 0, errors.New("a channel that the connection does not have")
	}
	return int(n), nil
}

// HandlePacket implements core.Handler.
func (p *replayed) HandlePacket(channel int, b []byte) { p.out.Delivered(uint64(channel), b) }

// HandleFate implements core.Handler.
func (p *replayed) HandleFate(f core.Fate) { noteFate(p.out, f) }

// HandleEvent implements core.Handler.
func (p *replayed) HandleEvent(e core.Event) { p.out.Result(int64(e)) }

// Unread implements core.Handler: what was recorded.
func (p *replayed) Unread(int) (one, all int) {
	a, ok := p.call.AnswerNumber()
	b, also := p.call.AnswerNumber()
	if !ok || !also {
		p.out.Result(-1) // which no recording has here, so that it shows
	}
	return int(min(a, 1<<30)), int(min(b, 1<<30))
}
