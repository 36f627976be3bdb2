package porous

import (
	"encoding/json"

	"volley/capture"
	"volley/internal/wire"
	"volley/porous/internal/core"
)

// A connection that is captured (Config.Capture) makes those calls of its core that
// change it through the methods of this file, which note what goes in and out. Who
// calls the core in a new way that changes it has to do so here, or replays
// diverge.

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
	own.Reserve = func(delta int) bool {
		ok := cfg.Reserve(delta)
		if out := tape.Outputs(); out != nil && delta > 0 {
			out.Asked(delta)
			tape.Answer(ok)
		}
		return ok
	}
	return &own
}

// call makes a call of the core; out is where its datagrams go, nil if there are
// none.
func (c *Conn) call(kind capture.Kind, out *wire.Batch, f func()) {
	if c.tape == nil {
		f()
		return
	}
	c.tape.Begin(kind, c.now)
	n := 0
	if out != nil {
		n = out.Len()
	}
	f()
	noteSent(c.tape.Outputs(), out, n)
	c.tape.End()
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

func (c *Conn) receiveLocked(b []byte, out *wire.Batch) {
	if c.tape == nil {
		c.peer.Receive(c.now, b, out)
		return
	}
	c.call(capture.Receive, out, func() {
		c.tape.Data(b, len(b))
		c.peer.Receive(c.now, b, out)
	})
}

func (c *Conn) endBatchLocked(out *wire.Batch) {
	c.call(capture.EndBatch, out, func() { c.peer.EndBatch(c.now, out) })
}

func (c *Conn) tickLocked(out *wire.Batch) {
	c.call(capture.Tick, out, func() { c.peer.Tick(c.now, out) })
}

func (c *Conn) transmitLocked(out *wire.Batch) {
	c.call(capture.Transmit, out, func() { c.peer.Transmit(c.now, out, runFrames) })
}

func (c *Conn) abortPeerLocked(out *wire.Batch, linger bool) {
	c.call(capture.Abort, out, func() {
		if c.tape != nil {
			c.tape.Arg(truth(linger))
		}
		c.peer.Abort(c.now, out, linger)
	})
}

func (c *Conn) disconnectLocked() {
	c.call(capture.Disconnect, nil, func() { c.peer.Disconnect(c.now, true) })
}

func (c *Conn) setPriorityLocked(channel int, high bool) {
	c.call(capture.Priority, nil, func() {
		if c.tape != nil {
			c.tape.Arg(int64(channel))
			c.tape.Arg(truth(high))
		}
		c.peer.SetPriority(channel, high)
	})
}

func (c *Conn) sendLocked(now core.Clock, channel int, b []byte, mode core.Mode, until core.Clock) (id uint64, ok bool) {
	if c.tape == nil {
		return c.peer.Send(now, channel, b, mode, until)
	}
	c.tape.Begin(capture.Send, now)
	c.tape.Arg(int64(channel))
	c.tape.Arg(int64(mode))
	c.tape.Arg(int64(until))
	c.tape.Data(b, len(b))
	id, ok = c.peer.Send(now, channel, b, mode, until)
	noteSend(c.tape.Outputs(), id, ok)
	c.tape.End()
	return id, ok
}

func noteSend(notes *capture.Outputs, id uint64, ok bool) {
	if !ok {
		notes.Result(-1)
		return
	}
	notes.Result(int64(id))
}

// endCaptureLocked notes the figures of the end.
func (c *Conn) endCaptureLocked() {
	if c.tape == nil {
		return
	}
	c.call(capture.Close, nil, func() { noteFigures(c.tape.Outputs(), &c.peer) })
	c.tape.Close()
	c.tape = nil
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
