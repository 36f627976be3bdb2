package porous

import (
	"cmp"
	"math"
	"time"

	"volley/capture"
	"volley/internal/recording"
	"volley/internal/socket"
	"volley/porous/internal/core"
)

// A Config says how a connection behaves. The zero value of a field, and a nil
// *Config, mean the documented defaults. A negative value turns something off where
// that is said, and is an error elsewhere. A Config must not be changed once it has been
// passed in, and this package does not change it. Use field names in literals, because
// fields may be added.
type Config struct {
	// Channels is the number of channels, 1 to 256. It must be the same at both sides:
	// otherwise the connection is refused. Default 1.
	Channels int
	// MaxMessageSize is the largest message in bytes, to send and to receive:
	// 1 to what 65536 frames carry. Use the same value at both sides: larger messages
	// of the peer are skipped, and counted in Stats.MessagesTooLarge, though the peer's
	// receipts say Delivered. Default 65536.
	MaxMessageSize int
	// SmallFrames limits datagrams to 1200 bytes instead of 1472, for IPv6
	// and tunnels. It must be the same at both sides (on the wire it is
	// version 1 of the protocol). It is always on where the connection below
	// carries less than 1472 bytes, such as a session of package netcode. On one
	// of package secure, datagrams have 1199 bytes.
	SmallFrames bool

	// SendBandwidth and ReceiveBandwidth limit each direction in bytes per second.
	// The peer is told the latter, and the lower limit of both sides counts.
	// Default 4294967295, the largest value, which is no limit.
	SendBandwidth, ReceiveBandwidth int64
	// SendBuffer limits the messages whose fate is not known yet, in bytes, where a
	// message counts 112 more than its length. Writes wait for room. Default 4 MiB.
	//
	// Channels share it, so that a channel which the peer does not read blocks
	// only itself. Of n channels, while the others hold x bytes, each may hold
	//
	//	max((3/4 * SendBuffer - x) * 2/3, SendBuffer / 4 / n)
	//
	// bytes, and one message in any case.
	SendBuffer int
	// ReceiveBuffer limits received messages, in bytes with overhead: those that wait
	// for Read, for fragments, or for earlier messages. Channels share it as they share
	// SendBuffer. Each may exceed its share by the one message that must come next.
	// Default 4 MiB.
	ReceiveBuffer int
	// Receipts limits the receipts that wait for AppendReceipts; further ones
	// are dropped and counted. Default 16384. Negative: there are none.
	Receipts int

	// LowShare is the fraction of what is sent that other channels get while
	// channels of high priority have something to send: from 0 to 0.5, in steps of
	// 0.01. Default 0, because the protocol's priorities are strict.
	LowShare float64

	// KeepAlive is the silence of the peer after which it is pinged, at most half of
	// IdleTimeout. Default 5 s, or a quarter of IdleTimeout if that is less.
	KeepAlive time.Duration
	// IdleTimeout ends the connection with ErrIdleTimeout when the peer was silent
	// for so long, though it was pinged. Default 20 s, as the protocol has it.
	IdleTimeout time.Duration
	// HandshakeTimeout is how long the peer may take to connect. Default 20 s,
	// as the protocol has it.
	HandshakeTimeout time.Duration
	// CloseTimeout limits how long Close waits until accepted messages are
	// acknowledged, and how long the peer is then asked to end. Default 5 s. Negative:
	// Close waits for neither.
	CloseTimeout time.Duration

	// Congestion names the congestion control.
	//
	//   - "cubic", the default, is that of TCP today (RFC 9438), with pacing. It finds
	//     losses by later acknowledgements, and takes back-offs back that prove wrong.
	//     It reduces the window less for losses during which the round-trip time shows
	//     no queue. It shares a bottleneck with TCP, also where that has a short queue.
	//   - "tolerant" follows the model of BBR: it sends as fast as frames have been
	//     seen to arrive, whatever is lost. On links that lose without being full, such
	//     as radio, it is several times as fast as "cubic". Beside TCP it takes more
	//     than its share: TCP keeps a quarter where the bottleneck has a queue for a
	//     round trip, and next to nothing where the queue is four times shorter. Choose
	//     it where the path is known to lose by itself, or is not shared.
	//   - "paper" is that of the POROUS paper, for comparisons: slow start from one
	//     frame, losses found by timeouts only, no pacing. docs/porous.md says where it
	//     differs from the paper.
	Congestion string
	// Redundancy repeats small reliable messages, of up to 400 bytes, in the frames
	// that follow, as long as the connection sends far less than it might. Then a lost
	// frame costs the time until the next one, and not a round trip. How often a message
	// is repeated follows from the measured loss: at 20 % five times; without any, only
	// the first messages of a connection. The wire format stays the same. Off by default.
	Redundancy bool
	// VerifyDisconnect answers a request of the peer to end the connection, which
	// anybody can forge, with a ping, and ignores it as long as the peer answers
	// pings. A true end takes half a second longer then. Off by default, because
	// version 0 of the protocol says otherwise.
	VerifyDisconnect bool
	// ManualStep sends nothing except in [Conn.Step], for tests and for programs with a
	// loop of their own.
	ManualStep bool

	// SocketBuffer asks the system for socket buffers of so many bytes; the system may
	// give less. Default 4 MiB. Negative: those of the system. A Listener's
	// is that of its own Config.
	SocketBuffer int
	// Capture records what the connections do, for [Replay]; see package capture.
	// One Recorder may serve any number of them. A capture contains the messages; a
	// Recorder that leaves them out records nothing of this protocol. Default: nothing
	// is recorded.
	Capture *capture.Recorder
}

const (
	defaultReceipts     = 16384
	defaultCloseTimeout = 5 * time.Second
	// longest is the longest time in use: longer ones might overflow where
	// they are added to others.
	longest = 50 * 365 * 24 * time.Hour
)

// congestions are the controllers by their names in a Config.
var congestions = map[string]core.ControllerKind{
	"": core.Cubic, "cubic": core.Cubic, "tolerant": core.Tolerant, "paper": core.Paper,
}

// settings are a Config with the defaults filled in. Connections of a Listener share them.
type settings struct {
	core         core.Config
	receipts     int
	closeTimeout time.Duration
	manual       bool
	capture      *recording.Recorder // nil: none
	limits       *limits             // of a Listener; nil: none
}

// newSettings checks cfg for a connection on datagrams of the given size.
func newSettings(cfg *Config, maxDatagram int) (*settings, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	version := uint8(0)
	if cfg.SmallFrames || maxDatagram < core.MTU0 {
		version = 1
	}
	s := &settings{core: core.DefaultConfig(version)}
	c := &s.core
	if maxDatagram == core.MTUSecure {
		c.MTU = core.MTUSecure
	}
	if maxDatagram < c.MTU {
		return nil, configError("inner", "it carries at most %d bytes, but frames have up to %d", maxDatagram, c.MTU)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c.Channels = cmp.Or(cfg.Channels, 1)
	c.MaxPacket = cmp.Or(cfg.MaxMessageSize, c.MaxPacket)
	c.SendBandwidth = uint32(cmp.Or(cfg.SendBandwidth, core.NoBandwidthLimit))
	c.ReceiveBandwidth = uint32(cmp.Or(cfg.ReceiveBandwidth, core.NoBandwidthLimit))
	c.SendBuffer = cmp.Or(cfg.SendBuffer, c.SendBuffer)
	c.ReceiveBuffer = cmp.Or(cfg.ReceiveBuffer, c.ReceiveBuffer)
	c.Watchdog = min(cmp.Or(cfg.IdleTimeout, c.Watchdog), longest)
	c.PingInterval = min(cmp.Or(cfg.KeepAlive, min(c.PingInterval, c.Watchdog/4)), c.Watchdog/2)
	c.HandshakeTimeout = min(cmp.Or(cfg.HandshakeTimeout, c.HandshakeTimeout), longest)
	c.LowShare = int(math.Round(100 * cfg.LowShare))
	c.VerifyDisconnect, c.Redundancy = cfg.VerifyDisconnect, cfg.Redundancy
	c.EagerRequest, c.AwaitAcks, c.VerifyRequest = true, true, true
	c.Controller = congestions[cfg.Congestion]
	c.TimeoutOnly, c.PaperRTT = c.Controller == core.Paper, c.Controller == core.Paper
	s.receipts = max(0, cmp.Or(cfg.Receipts, defaultReceipts))
	s.closeTimeout = max(0, cmp.Or(cfg.CloseTimeout, defaultCloseTimeout))
	s.manual = cfg.ManualStep
	if r := (*recording.Recorder)(cfg.Capture); !r.Omitted() {
		s.capture = r
	}
	return s, s.check()
}

// check looks for values that are wrong by themselves.
func (cfg *Config) check() error {
	for _, r := range []struct {
		field string
		value int64
		most  int64
	}{
		{"Config.Channels", int64(cfg.Channels), 256},
		{"Config.SendBandwidth", cfg.SendBandwidth, core.NoBandwidthLimit},
		{"Config.ReceiveBandwidth", cfg.ReceiveBandwidth, core.NoBandwidthLimit},
	} {
		if r.value < 0 || r.value > r.most {
			return configError(r.field, "%d is not from 1 to %d", r.value, r.most)
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"KeepAlive", cfg.KeepAlive}, {"IdleTimeout", cfg.IdleTimeout}, {"HandshakeTimeout", cfg.HandshakeTimeout}} {
		if d.value < 0 {
			return configError("Config."+d.field, "%v is negative", d.value)
		}
	}
	if !(cfg.LowShare >= 0 && cfg.LowShare <= 0.5) {
		return configError("Config.LowShare", "%v is not from 0 to 0.5", cfg.LowShare)
	}
	if _, ok := congestions[cfg.Congestion]; !ok {
		return configError("Config.Congestion", "%q is not cubic, tolerant or paper", cfg.Congestion)
	}
	return nil
}

// check looks for sizes that do not fit each other.
func (s *settings) check() error {
	c := &s.core
	largest := core.MaxFragments * core.FragmentSize(c.MTU)
	switch {
	case c.MaxPacket < 1 || c.MaxPacket > largest:
		return configError("Config.MaxMessageSize", "%d is not from 1 to %d", c.MaxPacket, largest)
	case c.SendBuffer < c.MaxPacket+core.PacketOverhead:
		return configError("Config.SendBuffer", "%d does not hold one message, which takes %d", c.SendBuffer, c.MaxPacket+core.PacketOverhead)
	case c.ReceiveBuffer < core.MinReceiveBuffer(c):
		return configError("Config.ReceiveBuffer", "%d does not hold one message, which takes %d", c.ReceiveBuffer, core.MinReceiveBuffer(c))
	}
	return nil
}

func socketConfig(cfg *Config) socket.Config {
	if cfg == nil {
		return socket.Config{}
	}
	return socket.Config{ReadBuffer: cfg.SocketBuffer, WriteBuffer: cfg.SocketBuffer}
}
