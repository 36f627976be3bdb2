package netplay

import (
	"cmp"
	"time"
)

// A Config has options for messages and limits for a peer. A zero field, and a nil
// *Config, means the default. Do not change a Config after you have passed it in.
type Config struct {
	// MaxFrame is the length in bytes of the longest frame that is written or read, with
	// its length field. A peer that sends more is disconnected. From 5 to 65537; default
	// 65537, the limit of the format.
	MaxFrame int
	// MaxExpanded limits bodies before compression and after expansion, in bytes.
	// Default 1 MiB, at least 1024.
	MaxExpanded int
	// MaxDecoded limits the memory of the values of one received message, in bytes:
	// elements of slices, texts of strings, structs behind pointers. Default 1 MiB, at
	// least 1024.
	MaxDecoded int
	// MaxDepth limits how deep structs are nested, in messages written and read. Default
	// 64, at most 1000.
	MaxDepth int

	// WriteGzip writes compressed bodies as gzip streams, as the public page says. The
	// Java library reads only the default, zlib streams. Both are read in any case.
	WriteGzip bool
	// AcceptEncrypted reads frames with the flag "encrypted" as if it was not set, as the
	// Java library does. By default they are refused, because no cipher was ever defined.
	AcceptEncrypted bool

	// FrameTimeout is how long the rest of a frame may take after its first byte. Default
	// 10 s. Negative: no limit.
	FrameTimeout time.Duration
}

// ReferenceConfig returns the configuration for a peer that runs the Java library: frames
// of at most 1024 bytes. Longer ones kill the library's server, and its clients lose them.
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
		maxFrame:        cmp.Or(cfg.MaxFrame, maxFrame),
		maxExpanded:     cmp.Or(cfg.MaxExpanded, defaultExpanded),
		maxDecoded:      cmp.Or(cfg.MaxDecoded, defaultDecoded),
		maxDepth:        cmp.Or(cfg.MaxDepth, defaultDepth),
		gzip:            cfg.WriteGzip,
		acceptEncrypted: cfg.AcceptEncrypted,
		frameTimeout:    max(0, cmp.Or(cfg.FrameTimeout, defaultFrameLimit)),
	}
	switch {
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
