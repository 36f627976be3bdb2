package netcode

import (
	"cmp"
	"fmt"
	"time"

	"volley/internal/inbox"
	"volley/internal/sideband"
	"volley/internal/socket"
)

// A Config has options for sessions. A zero field, and a nil *Config, means the
// default. Do not change a Config after you have passed it in.
type Config struct {
	// KeepAlive is the longest silence before an empty packet is sent. Default:
	// 100 ms until both sides know that there is a session, as in the standard,
	// then a tenth of the token's timeout, at most 1 s. The timeout should be
	// several times as long. At most 2^31-1 s. Negative: no keep alives, so the
	// timeout of the peer ends an idle session.
	KeepAlive time.Duration
	// ReplayWindow is how far behind the newest packet another one may arrive and
	// still be accepted, in packets, rounded up to a power of two. Default 2048,
	// at least 64, at most 65536. A session takes one bit for each.
	ReplayWindow int
	// ReadBuffer limits the received messages that wait for Read, in bytes. A
	// message counts its length and 4. Messages that find no room are dropped and
	// counted. Default 256 KiB, at least 1204.
	ReadBuffer int
	// SocketBuffer is the size in bytes to request for each of the two buffers of
	// a UDP socket. The system may grant less. Default 4 MiB. Negative: no
	// request.
	SocketBuffer int

	owner sideband.Owner // gives the sessions out as its own; nil: nobody
	move  bool           // a session that is dialed is for another one to go on as
}

const (
	defaultReadBuffer = 256 << 10
	minReadBuffer     = MaxMessageSize + inbox.MessageOverhead
	maxWindow         = 65536
	// never is an interval that does not end in practice.
	never = 1 << 62
)

// settings is a Config with its defaults applied.
type settings struct {
	interval   time.Duration // of keep alives
	window     int
	readBuffer int
	socket     socket.Config
	owner      sideband.Owner
	move       bool
}

// A ConfigError names a field of a configuration that cannot be used.
type ConfigError struct {
	Field  string // such as "Config.ReadBuffer"
	Reason string // with the value and the limit
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("netcode: invalid %s: %s", e.Field, e.Reason)
}

func configError(field, format string, args ...any) error {
	return &ConfigError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// newSettings checks cfg, which may be nil.
func newSettings(cfg *Config) (*settings, error) {
	if err := checkCrypto(); err != nil {
		return nil, err
	}
	if cfg == nil {
		cfg = &Config{}
	}
	s := &settings{
		interval:   cfg.KeepAlive,
		window:     cmp.Or(cfg.ReplayWindow, defaultWindow),
		readBuffer: cmp.Or(cfg.ReadBuffer, defaultReadBuffer),
		owner:      cfg.owner,
		move:       cfg.move,
		socket:     socket.Config{ReadBuffer: cfg.SocketBuffer, WriteBuffer: cfg.SocketBuffer},
	}
	if err := checkSeconds("Config.KeepAlive", s.interval); err != nil {
		return nil, err
	}
	if s.interval < 0 {
		s.interval = never
	}
	switch {
	case s.window < 64 || s.window > maxWindow:
		return nil, configError("Config.ReplayWindow", "%d is not from 64 to %d", s.window, maxWindow)
	case s.readBuffer < minReadBuffer:
		return nil, configError("Config.ReadBuffer", "%d does not hold one message, which takes %d", s.readBuffer, minReadBuffer)
	}
	return s, nil
}
