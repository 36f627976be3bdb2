package porous

import (
	"encoding/json"

	"volley/capture"
	"volley/internal/wire"
	"volley/porous/internal/core"
)

// A connection makes all calls that change its core through the methods of this file.
// If it is captured (Config.Capture), they note what goes in and comes out.

// coreProtocol names captures of this package's core.
const coreProtocol = "porous"

// A coreConfig is what is captured of a new connection's core. Fields of the
// core's Config that newSettings leaves at their defaults are not in it.
type coreConfig struct {
	ID       uint32 // of the request
	OtherID  uint32 // of one before it
	Accepted bool   // the peer has acknowledged it
	Limited  bool   // there is a Reserve

	Version                             uint8
	Channels, MaxPacket                 int
	SendBandwidth, ReceiveBandwidth     uint32
	SendBuffer, ReceiveBuffer           int
	LowShare                            int
	Watchdog, PingInterval, Handshake   core.Clock
	Controller                          core.ControllerKind
	Redundancy, VerifyDisconnect, Paper bool
}

func newCoreConfig(c *core.Config, id ids) coreConfig {
	return coreConfig{
		ID: id.own, OtherID: id.other, Accepted: id.accepted, Limited: c.Reserve != nil,
		Version: c.Version, Channels: c.Channels, MaxPacket: c.MaxPacket,
		SendBandwidth: c.SendBandwidth, ReceiveBandwidth: c.ReceiveBandwidth,
		SendBuffer: c.SendBuffer, ReceiveBuffer: c.ReceiveBuffer, LowShare: c.LowShare,
		Watchdog: c.Watchdog, PingInterval: c.PingInterval, Handshake: c.HandshakeTimeout,
		Controller: c.Controller, Redundancy: c.Redundancy, VerifyDisconnect: c.VerifyDisconnect, Paper: c.PaperRTT,
	}
}

// coreConfig returns what the core of a new connection is to be made of, and
// begins to capture it, if that is wanted.
func (c *Conn) coreConfig(id ids) *core.Config {
	cfg := &c.set.core
	if c.set.capture == nil {
		return cfg
	}
	j, err := json.Marshal(newCoreConfig(cfg, id))
	if err != nil {
		return cfg
	}
	tape := c.set.capture.Open(capture.Info{
		Protocol: coreProtocol,
		Local:    c.dc.LocalAddr().String(), Remote: c.dc.RemoteAddr().String(),
		Start: c.born, Config: j,
	})
	c.tape = tape
	if tape == nil || cfg.Reserve == nil {
		return cfg
	}
	own := *cfg
	own.Reserve = func(delta, has int) bool {
		ok := cfg.Reserve(delta, has)
		if out := tape.Outputs(); out != nil && delta > 0 {
			out.Asked(delta)
			tape.Answer(ok)
		}
		return ok
	}
	return &own
}

// A call is a call that changes a core. Connections and replays make all such calls
// by its method do, so that each call can be noted and replayed.
type call struct {
	kind capture.Kind
	args [3]int64 // as many as the kind has
	data []byte   // the datagram that came in, or the message to send
}

// arguments returns how many arguments a kind of call has.
func arguments(kind capture.Kind) int {
	switch kind {
	case capture.Send: // channel, mode, deadline
		return 3
	case capture.Priority: // channel, whether it is high
		return 2
	case capture.Abort: // whether the connection lingers
		return 1
	}
	return 0
}

// do makes the call at now. Datagrams to send go to out. The result is the id of a
// message, or -1 if the core did not take it, and 0 of other calls.
func (k call) do(p *core.Peer, now core.Clock, out *wire.Batch) (result int64) {
	switch k.kind {
	case capture.Receive:
		p.Receive(now, k.data, out)
	case capture.EndBatch:
		p.EndBatch(now, out)
	case capture.Tick:
		p.Tick(now, out)
	case capture.Transmit:
		p.Transmit(now, out, runFrames)
	case capture.Send:
		id, ok := p.Send(now, int(k.args[0]), k.data, core.Mode(k.args[1]), core.Clock(k.args[2]))
		if !ok {
			return -1
		}
		return int64(id)
	case capture.Priority:
		p.SetPriority(int(k.args[0]), k.args[1] != 0)
	case capture.Disconnect:
		p.Disconnect(now, true)
	case capture.Abort:
		p.Abort(now, out, k.args[0] != 0)
	case capture.Compact:
		p.Compact()
	}
	return 0
}

// doNoted makes the call, and notes what comes of it.
func (k call) doNoted(notes *capture.Outputs, p *core.Peer, now core.Clock, out *wire.Batch) (result int64) {
	before := 0
	if out != nil {
		before = out.Len()
	}
	result = k.do(p, now, out)
	noteSent(notes, out, before)
	switch k.kind {
	case capture.Send:
		notes.Result(result)
	case capture.Close:
		noteFigures(notes, p)
	}
	return result
}

// doLocked makes a call of the connection's core at now, which is noted if the
// connection is captured.
func (c *Conn) doLocked(now core.Clock, k call, out *wire.Batch) (result int64) {
	if c.tape == nil {
		return k.do(&c.peer, now, out)
	}
	c.tape.Begin(k.kind, now)
	for _, v := range k.args[:arguments(k.kind)] {
		c.tape.Arg(v)
	}
	if k.kind == capture.Receive || k.kind == capture.Send {
		c.tape.Data(k.data, len(k.data))
	}
	result = k.doNoted(c.tape.Outputs(), &c.peer, now, out)
	c.tape.End()
	return result
}

// endCaptureLocked notes the figures of the end.
func (c *Conn) endCaptureLocked() {
	if c.tape != nil {
		c.doLocked(c.now, call{kind: capture.Close}, nil)
		c.tape.Close()
		c.tape = nil
	}
}

// noteSent notes the datagrams of a batch, which may be nil, from number n on.
func noteSent(notes *capture.Outputs, b *wire.Batch, n int) {
	if notes == nil || b == nil {
		return
	}
	for ; n < b.Len(); n++ {
		notes.Datagram(b.At(n), len(b.At(n)))
	}
}

func noteFate(notes *capture.Outputs, f core.Fate) {
	fate := Lost
	if f.Delivered {
		fate = Delivered
	}
	notes.Fate(f.Number, uint8(fate), f.RTT)
}

func noteFigures(notes *capture.Outputs, p *core.Peer) {
	st := p.Stats()
	for _, v := range [...]uint64{
		uint64(p.State()), st.Received, st.Invalid, st.OutOfWindow, st.Refused, st.Accepted, st.Duplicates, st.OutOfReach, st.Malformed,
		st.TooLarge, st.Delivered, st.FramesSent, st.FramesResent, st.FramesAcked, st.FramesLost, st.Spurious, st.Timeouts,
		st.AcksUnknown, st.FatesDelivered, st.FatesLost, uint64(st.RTT), uint64(st.RTTVar), uint64(st.RTTMin),
		uint64(st.Window), uint64(st.InFlight),
	} {
		notes.Result(int64(v))
	}
}

func truth(ok bool) int64 {
	if ok {
		return 1
	}
	return 0
}
