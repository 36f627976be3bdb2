package netcode

import (
	"cmp"
	"fmt"
	"time"

	"volley/internal/inbox"
	"volley/internal/socket"
)

// A Config says how sessions behave. The zero value, and a nil *Config, is the
// documented default of every field. Fields may be added; use field names in
// literals. A Config is not changed by this package and must not be changed by
// others once it has been passed in.
type Config struct {
	// KeepAlive is the longest silence before an empty packet is sent. By
	// default it is 100 ms until each side knows that the other one has the
	// session, and then a tenth of the token's timeout, at most 1 s: the
	// standard's 100 ms cost an idle server more than anything else. Set it to
	// 100 ms to have them. The timeout in the tokens has to be several times
	// as long. At most 2^31-1 s. Negative: none, which ends sessions of peers
	// with a timeout.
	KeepAlive time.Duration
	// ReplayWindow is how far behind the newest packet others may come and
	// still be accepted, in packets: a power of two, or rounded up to one.
	// Default 2048, at least 64, at most 65536; a session takes a bit for
	// each.
	ReplayWindow int
	// ReadBuffer limits the received payloads that wait for Read, in bytes
	// (a payload counts 4 more than its length). What finds no room is
	// dropped and counted. Default 256 KiB, at least 1204.
	ReadBuffer int

	// SocketBuffer is the size in bytes to ask for of the kernel's receive
	// and send buffer, each, of a UDP socket. The system may grant less.
	// Default 4 MiB. Negative: the system's default.
	SocketBuffer int
	// DisableOffload sends and receives datagram by datagram, without
	// segmentation offload, where a UDP socket would otherwise use it. The
	// environment variable VOLLEY_DISABLE_OFFLOAD=1 does so for all.
	DisableOffload bool
}

const (
	defaultReadBuffer = 256 << 10
	minReadBuffer     = MaxPayload + inbox.MessageOverhead
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
}

// A ConfigError says which field of a configuration cannot be used.
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
		socket: socket.Config{
			ReadBuffer:     cfg.SocketBuffer,
			WriteBuffer:    cfg.SocketBuffer,
			DisableOffload: cfg.DisableOffload,
		},
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
		return nil, configError("Config.ReadBuffer", "%d does not hold one payload, which takes %d", s.readBuffer, minReadBuffer)
	}
	return s, nil
}
