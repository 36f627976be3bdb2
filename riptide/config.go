package riptide

import (
	"cmp"
	"fmt"
	"time"

	"volley/internal/socket"
)

// A Config has options of connections, for servers and clients alike. Its zero
// value, and nil where a *Config is asked for, stands for the defaults, which
// are those of the released C# library. A Config is never modified.
type Config struct {
	// Layout is the encoding. Both ends must use the same.
	Layout Layout
	// Version says which release's datagrams are sent where they differ.
	Version Version
	// MaxPayload is the largest payload of a message in bytes, 16 to 65000.
	// Both ends must use the same. Above about 1200 a datagram may not fit
	// into one packet of the network. Default [DefaultMaxPayload].
	MaxPayload int

	// HeartbeatInterval is the time between two heartbeats of a client, and
	// between two of its attempts to connect. Default 1 s.
	HeartbeatInterval time.Duration
	// Timeout ends a connection of which no heartbeat has arrived for so
	// long; other messages do not count. Default 5 s. Negative: never.
	Timeout time.Duration
	// PendingTimeout is how long a server may take to decide on a client. It
	// applies at both ends. Default 10 s.
	PendingTimeout time.Duration
	// ConnectAttempts is how many connects a client sends. Default 5.
	ConnectAttempts int

	// MinResend is the least interval between two sends of a reliable message.
	// The interval is 1.2 times the smoothed round-trip time otherwise, or
	// longer where acknowledgements are seen to take longer; 50 ms or this if
	// no round-trip time is known yet. While nothing is acknowledged only the
	// two oldest are sent again. Default 50 ms. The released library has
	// 10 ms, but its peers acknowledge once a frame, and a busy machine may
	// not have a processor for them within 10 ms.
	//
	// Up to six times a message is sent again earlier: when one that left
	// later has been acknowledged, or, of the two oldest, after the time that
	// acknowledgements have been measured to take, at least 10 ms.
	MinResend time.Duration
	// MaxSends is how often a reliable message is sent, not counting those
	// times that did not wait for the interval. If it is not acknowledged
	// then, the connection ends with [PoorConnection]. Default 15. Negative:
	// any number of times.
	MaxSends int
	// MaxMeanSends ends a connection, with [PoorConnection], when the mean
	// number of sends of the last 64 reliable messages exceeds it for 64
	// messages in a row. Default 5. Negative: never.
	MaxMeanSends float64
	// MaxNotifyLoss ends a connection, with [PoorConnection], when the loss of
	// the last 64 notify messages exceeds it for 64 of them in a row. Default
	// 0.05. Negative: never.
	MaxNotifyLoss float64
	// IgnoreQuality turns off all three.
	IgnoreQuality bool

	// DuplicateWindow makes unreliable messages arrive at most once also where
	// the network repeats datagrams: one that is byte for byte equal to a
	// datagram of such a message that came on the connection within this time
	// is dropped, and counted in [Stats.UnreliableDuplicates]. Nothing else
	// tells a copy, for these messages have no id on the wire. So two equal
	// messages that were sent within the window count as one, too: put a
	// number or a time into each. The last 128 messages are remembered, in
	// some 2 KiB a connection; a copy that comes later is not known as one.
	// In the notes layout it is for notify messages, too. Over streams, which
	// repeat nothing, it has no effect, and over sessions of package netcode,
	// which drop copies themselves, no use. Default 0, which is off, as in the
	// C# library. Negative: off.
	DuplicateWindow time.Duration

	// SendBuffer limits what waits to be acknowledged on a connection, and,
	// over TCP, to be sent, each in bytes. A message of n bytes counts as n +
	// 64. A server kicks a client that exceeds it; a client's Send fails.
	// Default 1 MiB.
	SendBuffer int
	// ReadBuffer limits the messages of a connection that wait for their
	// handler, in bytes. What finds no room is dropped; a reliable message is
	// not acknowledged then, so it comes again. Default 1 MiB.
	ReadBuffer int

	// SocketBuffer is the size in bytes to ask for of the kernel's receive
	// and send buffer, each, of a UDP socket. The system may grant less.
	// Default 4 MiB. Negative: the system's default.
	SocketBuffer int
}

const (
	defaultHeartbeat      = time.Second
	defaultTimeout        = 5 * time.Second
	defaultPendingTimeout = 10 * time.Second
	defaultAttempts       = 5
	defaultMinResend      = 50 * time.Millisecond
	defaultMaxSends       = 15
	defaultMaxMeanSends   = 5
	defaultMaxNotifyLoss  = 0.05
	defaultSendBuffer     = 1 << 20
	defaultReadBuffer     = 1 << 20
	disconnectRepeats     = 3
	minMaxPayload         = 16
)

// A ConfigError says which option is not usable, and why.
type ConfigError struct {
	// Field is the name of the option, such as "Config.MaxPayload".
	Field string
	// Reason says what is wrong with it.
	Reason string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("riptide: invalid %s: %s", e.Field, e.Reason)
}

func configError(field, format string, args ...any) error {
	return &ConfigError{field, fmt.Sprintf(format, args...)}
}

// settings are a Config with its defaults applied.
type settings struct {
	codec
	maxPayload     int
	heartbeat      time.Duration
	timeout        time.Duration // negative: never
	pendingTimeout time.Duration
	attempts       int
	minResend      time.Duration
	maxSends       int // negative: any number
	sendBuffer     int
	readBuffer     int
	quality        bool
	maxMeanSends   float64
	maxNotifyLoss  float64
	dupWindow      time.Duration // not positive: copies are not looked for
	repeats        int           // of a disconnect
	socket         socket.Config
}

// newSettings checks a Config, which may be nil, and applies the defaults.
func newSettings(cfg *Config) (*settings, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	s := &settings{
		codec:          codec{cfg.Layout, cfg.Version},
		maxPayload:     cmp.Or(cfg.MaxPayload, DefaultMaxPayload),
		heartbeat:      cmp.Or(cfg.HeartbeatInterval, defaultHeartbeat),
		timeout:        cmp.Or(cfg.Timeout, defaultTimeout),
		pendingTimeout: cmp.Or(cfg.PendingTimeout, defaultPendingTimeout),
		attempts:       cmp.Or(cfg.ConnectAttempts, defaultAttempts),
		minResend:      cmp.Or(cfg.MinResend, defaultMinResend),
		maxSends:       cmp.Or(cfg.MaxSends, defaultMaxSends),
		sendBuffer:     cmp.Or(cfg.SendBuffer, defaultSendBuffer),
		readBuffer:     cmp.Or(cfg.ReadBuffer, defaultReadBuffer),
		quality:        !cfg.IgnoreQuality,
		maxMeanSends:   cmp.Or(cfg.MaxMeanSends, defaultMaxMeanSends),
		maxNotifyLoss:  cmp.Or(cfg.MaxNotifyLoss, defaultMaxNotifyLoss),
		dupWindow:      cfg.DuplicateWindow,
		repeats:        disconnectRepeats,
		socket:         socket.Config{ReadBuffer: cfg.SocketBuffer, WriteBuffer: cfg.SocketBuffer},
	}
	if s.maxMeanSends < 0 {
		s.maxMeanSends = 1 << 30
	}
	if s.maxNotifyLoss < 0 {
		s.maxNotifyLoss = 1
	}
	return s, s.check()
}

// check returns the first option that is out of its range.
func (s *settings) check() error {
	switch {
	case !s.layout.valid():
		return configError("Config.Layout", "there is no %v", s.layout)
	case !s.version.valid():
		return configError("Config.Version", "there is no %v", s.version)
	case s.maxPayload < minMaxPayload || s.maxPayload > maxMaxPayload:
		return configError("Config.MaxPayload", "%d is not from %d to %d", s.maxPayload, minMaxPayload, maxMaxPayload)
	case s.heartbeat < time.Millisecond:
		return configError("Config.HeartbeatInterval", "%v is less than 1ms", s.heartbeat)
	case s.timeout >= 0 && s.timeout <= s.heartbeat:
		return configError("Config.Timeout", "%v is not more than the heartbeat interval, %v", s.timeout, s.heartbeat)
	case s.pendingTimeout < 0:
		return configError("Config.PendingTimeout", "%v is negative", s.pendingTimeout)
	case s.attempts < 1:
		return configError("Config.ConnectAttempts", "%d is negative", s.attempts)
	case s.minResend < time.Millisecond:
		return configError("Config.MinResend", "%v is less than 1ms", s.minResend)
	case s.sendBuffer < s.maxPayload+maxHeaderSize+messageCost:
		return configError("Config.SendBuffer", "%d does not hold a message of %d bytes", s.sendBuffer, s.maxPayload)
	case s.readBuffer < s.maxPayload+maxHeaderSize+messageCost:
		return configError("Config.ReadBuffer", "%d does not hold a message of %d bytes", s.readBuffer, s.maxPayload)
	}
	return nil
}

// payload returns the payload limit for messages made by a Config.
func (cfg *Config) payload() (Layout, int) {
	if cfg == nil {
		return Packed, DefaultMaxPayload
	}
	return cfg.Layout, cmp.Or(cfg.MaxPayload, DefaultMaxPayload)
}

// NewMessage returns an empty message for connections with these options. See
// the function [NewMessage].
func (cfg *Config) NewMessage(mode Mode, id uint16) *Message {
	m := newMessage()
	layout, limit := cfg.payload()
	m.initUser(layout, mode, id, limit)
	return m
}

// NewNotify returns an empty notify message without an id for connections with
// these options. In the notes layout, in which each has an id, it is 0.
func (cfg *Config) NewNotify() *Message {
	m := newMessage()
	layout, limit := cfg.payload()
	m.initNotify(layout, limit)
	return m
}

// NewData returns an empty message without a header for connections with these
// options. See the function [NewData].
func (cfg *Config) NewData() *Message {
	m := newMessage()
	layout, limit := cfg.payload()
	m.initData(layout, limit)
	return m
}
