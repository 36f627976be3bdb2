package porous

import (
	"cmp"
	"fmt"
	"time"

	"volley/capture"
	"volley/internal/recording"
	"volley/internal/socket"
	"volley/porous/internal/core"
)

// A Config says how a connection behaves. The zero value, and a nil *Config, is
// the documented default of every field; a negative value is "off" where that
// is said. Fields may be added; use field names in literals. A Config is not
// changed by this package and must not be changed by others once it has been
// passed in.
type Config struct {
	// Channels is their number, 1 to 256, which must be the same at both
	// sides: else the connection is refused. Default 1.
	Channels int
	// MaxMessageSize is the largest message in bytes, to send and to receive:
	// 1 to what 65536 frames carry. Larger ones of the peer are skipped, and
	// counted in Stats.MessagesTooLarge, though their receipts say Delivered
	// there: use the same value at both sides. Default 65536. Negative: an error.
	MaxMessageSize int
	// SmallFrames limits datagrams to 1200 bytes in place of 1472, for IPv6
	// and tunnels. It must be the same at both sides (on the wire it is
	// version 1 of the protocol), and is always so where the connection below
	// carries less than 1472 bytes, such as a session of package netcode.
	SmallFrames bool

	// SendBandwidth limits what is sent in bytes per second, and
	// ReceiveBandwidth what the peer sends, which is told so; the lower one
	// of both sides counts for each direction. Default, and the most:
	// 4294967295, which is no limit. Negative: an error.
	SendBandwidth, ReceiveBandwidth int64
	// SendBuffer limits the messages whose fate is not known yet, in bytes (a
	// message counts 112 more than its length). Writes wait for room. No
	// channel of several gets more than half of it, or two thirds of what the
	// others leave of three quarters, so that one that the peer does not read
	// blocks only itself; each may have its part of the last quarter, divided
	// equally, and one message in any case. Default 4 MiB. Negative: an error.
	SendBuffer int
	// ReceiveBuffer limits what has arrived and was not read yet, and what
	// waits for fragments or for earlier messages, in bytes, overhead
	// included. Channels share it as they do SendBuffer. Each may exceed
	// its share by the one message that the others wait for. Default 4 MiB. Negative: an error.
	ReceiveBuffer int
	// Receipts limits the receipts that wait for AppendReceipts; further ones
	// are dropped and counted. Default 16384. Negative: there are none.
	Receipts int

	// LowShare is what channels of priority [Low] have of everything that is
	// sent while those of [High] have something to send, too: 1 to 50 percent.
	// Default: nothing, since the protocol's priorities are strict. Others are
	// errors.
	LowShare int

	// KeepAlive is the silence of the peer after which it is pinged, at most
	// half of IdleTimeout. Default 5 s, or a quarter of IdleTimeout if that is
	// less. Negative: an error.
	KeepAlive time.Duration
	// IdleTimeout ends the connection with ErrIdleTimeout when nothing was
	// heard from the peer for so long, though it was pinged. Default 20 s, as
	// the protocol has it. Negative: an error.
	IdleTimeout time.Duration
	// HandshakeTimeout is how long the peer may take to connect. Default 20 s,
	// as the protocol has it. Negative: an error.
	HandshakeTimeout time.Duration
	// CloseTimeout is how long Close waits for the acknowledgement of what
	// was accepted, and for how long after that the peer is asked to end at
	// most. Default 5 s. Negative: not at all.
	CloseTimeout time.Duration

	// Congestion chooses the congestion control. Default: [CUBIC].
	Congestion Congestion
	// Redundancy repeats small reliable messages, of up to 400 bytes, in the
	// frames that follow theirs, as long as the connection sends far less than
	// it might: then a lost frame costs the time until the next one, and not a
	// round trip. How often follows from the measured loss: without any, not
	// at all, but for the first messages of a connection; at 20 % five times.
	// It changes nothing on the wire. Off by default.
	Redundancy bool
	// VerifyDisconnect has a request of the peer to end the connection, which
	// anybody can forge, answered by a ping, and ignored as long as the peer
	// answers that. A true end takes half a second longer then. Off by
	// default, since version 0 of the protocol says otherwise.
	VerifyDisconnect bool
	// ManualStep has nothing sent but what [Conn.Step] sends, for tests and
	// for programs with a loop of their own.
	ManualStep bool

	// SocketBuffer asks the system for socket buffers of so many bytes, which
	// it may cut. Default 4 MiB. Negative: those of the system. A Listener's
	// is that of its own Config.
	SocketBuffer int
	// Capture records what the connections do, for Replay, see package capture.
	// The same Recorder may serve any number of them. Default: nothing is
	// recorded. A capture contains the messages; a Recorder that leaves them out
	// records nothing of this protocol.
	Capture *capture.Recorder
}

// A Congestion is a way of congestion control.
type Congestion int

const (
	// CUBIC is the default: congestion control as TCP has it today (RFC 9438),
	// with pacing, losses found by later acknowledgements, and back-offs taken
	// back that proved wrong. It takes less of the window back for losses
	// during which the round-trip time shows no queue. It shares a bottleneck
	// with TCP, also where that has a short queue.
	CUBIC Congestion = iota
	// PaperAIMD is that of the POROUS paper: a window that begins with one
	// frame, grows by one for each acknowledged frame and later for each window,
	// and is halved by losses, which timeouts alone find; no pacing, and no
	// ageing in idleness. Three things are not the paper's: the timeout has a
	// floor of 25 ms or half the round trip beyond it instead of T_step; pings
	// are sent in silence only, not each round trip; and frames are sent again
	// while the bytes under way leave room in the window, which the paper
	// measures from the front of the queue. It is here for comparisons.
	PaperAIMD
	// LossTolerant sends as fast as frames have been seen to arrive, whatever
	// is lost, after the model of BBR. On links that lose without being full,
	// such as radio, it is several times as fast as CUBIC. Beside TCP it takes
	// more than its share: TCP keeps a quarter where the bottleneck has a queue for
	// a round trip, and next to nothing where that is four times shorter. Choose
	// it where the path is known to lose by itself, or is not shared.
	LossTolerant
)

// A ConfigError says which field of a configuration cannot be used.
type ConfigError struct {
	Field  string // such as "Config.Channels"
	Reason string // with the value and the limit
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("porous: invalid %s: %s", e.Field, e.Reason)
}

func configError(field, format string, args ...any) error {
	return &ConfigError{Field: "Config." + field, Reason: fmt.Sprintf(format, args...)}
}

const (
	defaultReceipts     = 16384
	defaultCloseTimeout = 5 * time.Second
	// longest is the longest time in use: longer ones might overflow where
	// they are added to others.
	longest = 50 * 365 * 24 * time.Hour
)

// settings are a Config with the defaults filled in. Connections of a Listener
// share them.
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
	if maxDatagram < c.MTU {
		return nil, &ConfigError{Field: "inner", Reason: fmt.Sprintf("it carries %d bytes, frames have up to %d", maxDatagram, c.MTU)}
	}
	c.Channels = cmp.Or(cfg.Channels, 1)
	c.MaxPacket = cmp.Or(cfg.MaxMessageSize, c.MaxPacket)
	c.SendBuffer = cmp.Or(cfg.SendBuffer, c.SendBuffer)
	c.ReceiveBuffer = cmp.Or(cfg.ReceiveBuffer, c.ReceiveBuffer)
	c.Watchdog = min(cmp.Or(cfg.IdleTimeout, c.Watchdog), longest)
	c.PingInterval = min(cmp.Or(cfg.KeepAlive, min(c.PingInterval, c.Watchdog/4)), c.Watchdog/2)
	c.HandshakeTimeout = min(cmp.Or(cfg.HandshakeTimeout, c.HandshakeTimeout), longest)
	c.LowShare = cfg.LowShare
	c.VerifyDisconnect = cfg.VerifyDisconnect
	c.EagerRequest, c.AwaitAcks, c.VerifyRequest = true, true, true
	s.receipts = max(0, cmp.Or(cfg.Receipts, defaultReceipts))
	s.closeTimeout = max(0, cmp.Or(cfg.CloseTimeout, defaultCloseTimeout))
	s.manual = cfg.ManualStep
	if r := (*recording.Recorder)(cfg.Capture); !r.Omitted() {
		s.capture = r
	}
	if err := s.setRates(cfg); err != nil {
		return nil, err
	}
	return s, s.check(cfg)
}

func (s *settings) setRates(cfg *Config) error {
	for _, r := range []struct {
		field string
		value int64
		to    *uint32
	}{
		{"SendBandwidth", cfg.SendBandwidth, &s.core.SendBandwidth},
		{"ReceiveBandwidth", cfg.ReceiveBandwidth, &s.core.ReceiveBandwidth},
	} {
		switch {
		case r.value < 0 || r.value > core.NoBandwidthLimit:
			return configError(r.field, "%d is not from 1 to %d", r.value, int64(core.NoBandwidthLimit))
		case r.value > 0:
			*r.to = uint32(r.value)
		}
	}
	s.core.Redundancy = cfg.Redundancy
	switch cfg.Congestion {
	case CUBIC:
	case LossTolerant:
		s.core.Controller = core.Tolerant
	case PaperAIMD:
		s.core.Controller, s.core.TimeoutOnly, s.core.PaperRTT = core.Paper, true, true
	default:
		return configError("Congestion", "there is no %d", int(cfg.Congestion))
	}
	return nil
}

// check looks for values out of range.
func (s *settings) check(cfg *Config) error {
	c := &s.core
	largest := core.MaxFragments * core.FragmentSize(c.MTU)
	switch {
	case c.Channels < 1 || c.Channels > 256:
		return configError("Channels", "%d is not from 1 to 256", c.Channels)
	case c.MaxPacket < 1 || c.MaxPacket > largest:
		return configError("MaxMessageSize", "%d is not from 1 to %d", c.MaxPacket, largest)
	case c.LowShare < 0 || c.LowShare > 50:
		return configError("LowShare", "%d is not from 0 to 50", c.LowShare)
	case c.SendBuffer < c.MaxPacket+core.PacketOverhead:
		return configError("SendBuffer", "%d does not hold one message, which takes %d", c.SendBuffer, c.MaxPacket+core.PacketOverhead)
	case c.ReceiveBuffer < core.MinReceiveBuffer(c):
		return configError("ReceiveBuffer", "%d does not hold one message, which takes %d", c.ReceiveBuffer, core.MinReceiveBuffer(c))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"KeepAlive", cfg.KeepAlive}, {"IdleTimeout", cfg.IdleTimeout}, {"HandshakeTimeout", cfg.HandshakeTimeout}} {
		if d.value < 0 {
			return configError(d.field, "%v is negative", d.value)
		}
	}
	return nil
}

func socketConfig(cfg *Config) socket.Config {
	if cfg == nil {
		return socket.Config{}
	}
	return socket.Config{ReadBuffer: cfg.SocketBuffer, WriteBuffer: cfg.SocketBuffer}
}
