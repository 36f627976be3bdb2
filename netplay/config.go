package netplay

import (
	"cmp"
	"time"
)

// A Dialect is one of the formats that the Java library has had. Nothing on
// the wire tells them apart: both sides must be set to the same.
type Dialect int

const (
	// Release is the format of the public page and of the tag "release".
	Release Dialect = iota
	// V3 is that of 2025-07-29: a presence byte before every value, so that
	// all of them can be null, and no compression.
	V3
	// V4 is that of 2025-10-26: V3, cut into chunks of at most 1024 bytes.
	V4
)

func (d Dialect) String() string {
	switch d {
	case Release:
		return "release"
	case V3:
		return "v3"
	case V4:
		return "v4"
	}
	return "unknown dialect"
}

// A Config says how messages are written and what is taken from a peer. The
// zero value, and a nil *Config, is the documented default of every field.
// Fields may be added; use field names in literals. A Config is not changed by
// this package and must not be changed by others once it has been passed in.
type Config struct {
	// Dialect is the format on the wire, by default Release.
	Dialect Dialect

	// MaxFrame is the length in bytes of the longest frame that is written
	// or read, its length field included: from 5 to 65537, which is the
	// default and all that the format allows. (The chunk headers of V4 do
	// not count.) A peer that sends more is disconnected.
	MaxFrame int
	// MaxExpanded limits what a compressed body is expanded to, and what a
	// body to be written may hold, in bytes. Default 1 MiB, at least 1024.
	MaxExpanded int
	// MaxDecoded limits the memory that the values of one received message
	// take, in bytes of Go values: elements of slices, texts of strings,
	// structs behind pointers. Default 1 MiB, at least 1024.
	MaxDecoded int
	// MaxDepth limits how deep structs are nested, in messages written and
	// read. Default 64, at most 1000.
	MaxDepth int

	// WriteGzip writes compressed bodies as gzip streams, as the public page
	// says, and not as zlib streams, which is what the Java library reads.
	// Both are read in any case.
	WriteGzip bool
	// AcceptEncrypted reads frames with the flag "encrypted" as if it was
	// not set, as the Java library does. By default they are refused: no
	// cipher was ever defined, and what is encrypted could not be read.
	AcceptEncrypted bool

	// FrameTimeout is how long the rest of a frame may take once its first
	// byte has arrived. Default 10 s. Negative: no limit.
	FrameTimeout time.Duration
}

// ReferenceConfig returns the configuration for a peer that runs the Java
// library: frames of at most 1024 bytes, since longer ones kill the library's
// server and are lost by its clients. Everything else is the default.
func ReferenceConfig() *Config { return &Config{MaxFrame: 1024} }

const (
	maxFrame          = 2 + 65535
	minFrame          = 5 // a frame without payload
	defaultExpanded   = 1 << 20
	defaultDecoded    = 1 << 20
	minLimit          = 1024
	defaultDepth      = 64
	maxDepth          = 1000
	defaultFrameLimit = 10 * time.Second
)

// settings is a Config with its defaults applied.
type settings struct {
	dialect         Dialect
	maxFrame        int
	maxExpanded     int
	maxDecoded      int
	maxDepth        int
	gzip            bool
	acceptEncrypted bool
	frameTimeout    time.Duration // 0: none
}

// defaults are the settings of a nil Config.
var defaults = func() *settings {
	s, err := newSettings(nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return s
}()

// newSettings checks cfg, which may be nil.
func newSettings(cfg *Config) (*settings, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	s := &settings{
		dialect:         cfg.Dialect,
		maxFrame:        cmp.Or(cfg.MaxFrame, maxFrame),
		maxExpanded:     cmp.Or(cfg.MaxExpanded, defaultExpanded),
		maxDecoded:      cmp.Or(cfg.MaxDecoded, defaultDecoded),
		maxDepth:        cmp.Or(cfg.MaxDepth, defaultDepth),
		gzip:            cfg.WriteGzip,
		acceptEncrypted: cfg.AcceptEncrypted,
		frameTimeout:    max(0, cmp.Or(cfg.FrameTimeout, defaultFrameLimit)),
	}
	switch {
	case s.dialect < Release || s.dialect > V4:
		return nil, configError("Config.Dialect", "%d is none of Release, V3 and V4", int(s.dialect))
	case s.maxFrame < minFrame || s.maxFrame > maxFrame:
		return nil, configError("Config.MaxFrame", "%d is not from %d to %d", s.maxFrame, minFrame, maxFrame)
	case s.maxExpanded < minLimit:
		return nil, configError("Config.MaxExpanded", "%d is less than %d", s.maxExpanded, minLimit)
	case s.maxDecoded < minLimit:
		return nil, configError("Config.MaxDecoded", "%d is less than %d", s.maxDecoded, minLimit)
	case s.maxDepth < 1 || s.maxDepth > maxDepth:
		return nil, configError("Config.MaxDepth", "%d is not from 1 to %d", s.maxDepth, maxDepth)
	}
	return s, nil
}
