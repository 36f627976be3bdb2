package porous

import (
	"encoding/json"

	"volley/internal/recording"
	"volley/internal/wire"
	"volley/porous/internal/core"
)

// All calls that change a connection's core go through the methods of this file. If it is
// captured (Config.Capture), they note what goes in and comes out.

// coreProtocol names captures of this package's core.
const coreProtocol = "porous"

// A coreConfig is the part of the core's Config that is captured: what newSettings sets.
type coreConfig struct {
	ID       uint32 // of the request
	OtherID  uint32 // of one before it
	Accepted bool   // the peer has acknowledged it
	Limited  bool   // there is a Reserve

	Version                             uint8
	Secure                              bool `json:",omitempty"` // frames have 1199 bytes
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
		Version: c.Version, Secure: c.MTU == core.MTUSecure, Channels: c.Channels, MaxPacket: c.MaxPacket,
		SendBandwidth: c.SendBandwidth, ReceiveBandwidth: c.ReceiveBandwidth,
		SendBuffer: c.SendBuffer, ReceiveBuffer: c.ReceiveBuffer, LowShare: c.LowShare,
		Watchdog: c.Watchdog, PingInterval: c.PingInterval, Handshake: c.HandshakeTimeout,
		Controller: c.Controller, Redundancy: c.Redundancy, VerifyDisconnect: c.VerifyDisconnect, Paper: c.PaperRTT,
	}
}

// coreConfig returns the Config of a new core, and begins to capture it if that is wanted.
func (c *Conn) coreConfig(id ids) *core.Config {
	cfg := &c.set.core
	if c.set.capture == nil {
		return cfg
	}
	j, err := json.Marshal(newCoreConfig(cfg, id))
	if err != nil {
		return cfg
	}
	tape := c.set.capture.Open(recording.Connection{
		Protocol: coreProtocol,
		Local:    c.out.Below.LocalAddr().String(), Remote: c.out.Below.RemoteAddr().String(),
		Start: c.born, Config: j,
	})
	c.tape = tape
	if tape == nil || cfg.Reserve == nil {
		return cfg
	}
	own := *cfg
	own.Reserve = func(delta, has int) bool { return tape.Reserved(delta, cfg.Reserve(delta, has)) }
	return &own
}

// A call changes a core. Connections and replays make all calls by its method do, so that
// each call can be noted and replayed.
type call struct {
	kind recording.Kind
	args [3]int64 // as many as the kind has
	data []byte   // the datagram that came in, or the message to send
}

// arguments returns how many arguments a kind of call has.
func arguments(kind recording.Kind) int {
	switch kind {
	case recording.Send: // channel, mode, deadline
		return 3
	case recording.Priority: // channel, whether it is high
		return 2
	case recording.Abort: // whether the connection lingers
		return 1
	}
	return 0
}

// do makes the call at now, and returns the id of a sent message, or -1.
func (k call) do(p *core.Peer, now core.Clock, out *wire.Batch) (result int64) {
	switch k.kind {
	case recording.Receive:
		p.Receive(now, k.data, out)
	case recording.EndBatch:
		p.EndBatch(now, out)
	case recording.Tick:
		p.Tick(now, out)
	case recording.Transmit:
		p.Transmit(now, out, runFrames)
	case recording.Send:
		id, ok := p.Send(now, int(k.args[0]), k.data, core.Mode(k.args[1]), core.Clock(k.args[2]))
		if !ok {
			return -1
		}
		return int64(id)
	case recording.Priority:
		p.SetPriority(int(k.args[0]), k.args[1] != 0)
	case recording.Disconnect:
		p.Disconnect(now, true)
	case recording.Abort:
		p.Abort(now, out, k.args[0] != 0)
	case recording.Compact:
		p.Compact()
	case recording.Move:
		p.Move(now)
	}
	return 0
}

// doNoted makes the call, and notes what comes of it.
func (k call) doNoted(notes *recording.Outputs, p *core.Peer, now core.Clock, out *wire.Batch) (result int64) {
	before := 0
	if out != nil {
		before = out.Len()
	}
	result = k.do(p, now, out)
	notes.Sent(out, before, wholly)
	switch k.kind {
	case recording.Send:
		notes.Result(result)
	case recording.Close:
		noteFigures(notes, p)
	}
	return result
}

// doLocked makes a call of the connection's core, which is noted if that is captured.
func (c *Conn) doLocked(now core.Clock, k call, out *wire.Batch) (result int64) {
	if c.tape == nil {
		return k.do(&c.peer, now, out)
	}
	c.tape.Begin(k.kind, now)
	for _, v := range k.args[:arguments(k.kind)] {
		c.tape.Arg(v)
	}
	if k.kind == recording.Receive || k.kind == recording.Send {
		c.tape.Data(k.data, len(k.data))
	}
	result = k.doNoted(c.tape.Outputs(), &c.peer, now, out)
	c.tape.End()
	return result
}

func (c *Conn) endCaptureLocked() {
	if c.tape != nil {
		c.doLocked(c.now, call{kind: recording.Close}, nil)
		c.tape.Close()
		c.tape = nil
	}
}

// wholly is the part of a datagram that is always recorded.
func wholly(d []byte) int { return len(d) }

func noteFate(notes *recording.Outputs, f core.Fate) {
	notes.Fate(f.Number, uint8(1-truth(f.Delivered)), f.RTT)
}

func noteFigures(notes *recording.Outputs, p *core.Peer) {
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
