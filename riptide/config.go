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
	// NotesLayout selects the layout of whole bytes that the notes on Riptide
	// describe. No released C# library speaks it; some ports do. Both ends must
	// use the same layout.
	NotesLayout bool
	// Version21 sends what the releases 2.1.0 to 2.1.2 send where 2.2.1 differs:
	// acks of 7 bytes, and the bytes 05 05 when a server stops. Every release is
	// understood in any case.
	Version21 bool
	// MaxPayload is the largest payload of a message in bytes, 16 to 65000.
	// Both ends must use the same. Above about 1200 a datagram may not fit
	// into one packet of the network. Default 1225.
	MaxPayload int

	// HeartbeatInterval is the time between two heartbeats of a client, and
	// between two of its attempts to connect. Default 1 s.
	HeartbeatInterval time.Duration
	// Timeout ends a connection when no heartbeat has arrived for so long.
	// Other messages do not count. Default 5 s. Negative: never.
	Timeout time.Duration
	// PendingTimeout is how long a server may take to decide on a client. It
	// applies at both ends. Default 10 s.
	PendingTimeout time.Duration
	// ConnectAttempts is how many connects a client sends. Default 5.
	ConnectAttempts int

	// MinResend is the least interval between two sends of a reliable message.
	// Default 50 ms. The interval is longer, 1.2 times the smoothed round-trip
	// time, or more if acknowledgements take longer. While nothing is
	// acknowledged, only the two oldest messages are sent again. The C# library
	// has 10 ms.
	//
	// A message is sent again earlier, up to six times, when one that left later
	// has been acknowledged. The two oldest are also sent again after the time
	// that acknowledgements usually take, at least 10 ms.
	MinResend time.Duration
	// MaxSends ends a connection, with [PoorConnection], when a reliable message
	// was sent so often and not acknowledged. Sends before the end of the
	// interval do not count. While no round trip is known, the message must also be
	// 5 s old; meanwhile it is sent once a second. Default 15. Negative: never.
	MaxSends int
	// MaxMeanSends ends a connection, with [PoorConnection], when the mean
	// number of sends of the last 64 reliable messages exceeds it for 64
	// messages in a row. Default 5. Negative: never.
	MaxMeanSends float64
	// MaxNotifyLoss ends a connection, with [PoorConnection], when the lost
	// fraction of the last 64 notify messages exceeds it for 64 of them in a row.
	// Default 0.05. Negative: never.
	MaxNotifyLoss float64
	// IgnoreQuality turns off all three.
	IgnoreQuality bool

	// DuplicateWindow drops copies of unreliable messages that the network makes.
	// Default 0: off, as in the C# library.
	//
	// These messages have no id on the wire. A datagram is dropped if it is equal,
	// byte for byte, to one that came within this time, and counts in
	// [Stats.UnreliableDuplicates]. So put a number or a time into each message:
	// two equal messages within the window count as one. The last 128 messages are
	// remembered, in about 2 KiB a connection. In the notes layout this also
	// applies to notify messages. It has no effect over streams, and is not needed
	// over sessions of package netcode, which drop copies.
	DuplicateWindow time.Duration

	// SendBuffer limits the messages of a connection that wait for an
	// acknowledgement, in bytes, and over TCP also those that wait to be sent.
	// A message of n bytes counts as n + 64. A server kicks a client that exceeds
	// it; a client's Send fails. Default 1 MiB.
	SendBuffer int
	// ReadBuffer limits the messages of a connection that wait for their
	// handler, in bytes. Further ones are dropped; a reliable message is not
	// acknowledged then, so it comes again. Default 1 MiB.
	ReadBuffer int

	// SocketBuffer is the size in bytes to ask for of the kernel's receive
	// and send buffer, each, of a UDP socket. The system may grant less.
	// Default 4 MiB. Negative: the system's default.
	SocketBuffer int
}

const (
	disconnectRepeats = 3
	minMaxPayload     = 16
)

// A ConfigError says which option cannot be used.
type ConfigError struct {
	Field  string // such as "Config.MaxPayload"
	Reason string // with the value and the limit
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("riptide: invalid %s: %s", e.Field, e.Reason)
}

func configError(field, format string, args ...any) error {
	return &ConfigError{field, fmt.Sprintf(format, args...)}
}

// settings are a Config with the defaults applied.
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
	dupWindow      time.Duration // 0: off
	repeats        int           // of a disconnect
	socket         socket.Config
}

// newSettings checks a Config, which may be nil, and applies the defaults.
func newSettings(cfg *Config) (*settings, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	s := &settings{
		codec:          codec{cfg.layout(), cfg.Version21},
		maxPayload:     cmp.Or(cfg.MaxPayload, defaultMaxPayload),
		heartbeat:      cmp.Or(cfg.HeartbeatInterval, time.Second),
		timeout:        cmp.Or(cfg.Timeout, 5*time.Second),
		pendingTimeout: cmp.Or(cfg.PendingTimeout, 10*time.Second),
		attempts:       cmp.Or(cfg.ConnectAttempts, 5),
		minResend:      cmp.Or(cfg.MinResend, 50*time.Millisecond),
		maxSends:       cmp.Or(cfg.MaxSends, 15),
		sendBuffer:     cmp.Or(cfg.SendBuffer, 1<<20),
		readBuffer:     cmp.Or(cfg.ReadBuffer, 1<<20),
		quality:        !cfg.IgnoreQuality,
		maxMeanSends:   cmp.Or(cfg.MaxMeanSends, 5),
		maxNotifyLoss:  cmp.Or(cfg.MaxNotifyLoss, 0.05),
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
	case s.dupWindow < 0:
		return configError("Config.DuplicateWindow", "%v is negative", s.dupWindow)
	case s.sendBuffer < s.maxPayload+maxHeaderSize+messageCost:
		return configError("Config.SendBuffer", "%d does not hold a message of %d bytes", s.sendBuffer, s.maxPayload)
	case s.readBuffer < s.maxPayload+maxHeaderSize+messageCost:
		return configError("Config.ReadBuffer", "%d does not hold a message of %d bytes", s.readBuffer, s.maxPayload)
	}
	return nil
}

// layout returns the layout of messages for a Config, which may be nil.
func (cfg *Config) layout() layout {
	if cfg != nil && cfg.NotesLayout {
		return notes
	}
	return packed
}

// payload returns the payload limit of messages for a Config, which may be nil.
func (cfg *Config) payload() int {
	if cfg == nil {
		return defaultMaxPayload
	}
	return cmp.Or(cfg.MaxPayload, defaultMaxPayload)
}

// NewMessage is the function [NewMessage] for connections with these options.
func (cfg *Config) NewMessage(mode Mode, id uint16) *Message {
	m := &Message{layout: cfg.layout(), maxPayload: cfg.payload()}
	m.Reset(mode, id)
	return m
}

// NewData is the function [NewData] for connections with these options.
func (cfg *Config) NewData() *Message {
	m := new(Message)
	m.initData(cfg.layout(), cfg.payload())
	return m
}
