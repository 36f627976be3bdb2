package capture

import (
	"fmt"
	"io"

	"volley/internal/recording"
)

// A Config says what a Recorder keeps. A nil *Config has the default of every field.
type Config struct {
	// MaxBytes limits the size of the capture in bytes, and the memory for it:
	// at least 65536. Default 16 MiB. The record of one call, such as of a
	// message, must fit. A Recorder takes less than 1 KB more for each
	// connection that lives. A ring keeps forgotten bytes until a WriteTo that
	// has begun has written them.
	MaxBytes int64
	// Ring keeps the newest when the limit is reached. A connection whose
	// beginning is gone can be looked at and exported, but not replayed. Without
	// a ring, recording stops at the limit, and the whole capture can be replayed.
	Ring bool
	// OmitPayload leaves out the contents of messages, and of datagrams behind
	// their headers. Connections of package volley can be replayed all the same.
	// Those of package porous are not recorded, because its core looks into
	// messages.
	OmitPayload bool
	// Output, if not nil, is where the capture goes as it comes, instead of
	// memory. It is written by one goroutine, which ends with Close, and may
	// block; recording stops at a call that finds 4 MiB waiting for it already.
	// It excludes Ring.
	Output io.Writer
}

// A ConfigError says which field of a Config is wrong.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string { return fmt.Sprintf("capture: Config.%s %s", e.Field, e.Reason) }

var (
	// ErrLimit says that a capture without a ring has reached Config.MaxBytes.
	ErrLimit = recording.ErrLimit
	// ErrTooSlow says that Config.Output was given more than it took.
	ErrTooSlow = recording.ErrTooSlow
)

// A Recorder takes a capture of any number of connections. Its methods may be
// called from several goroutines at once.
type Recorder recorder

// recorder is what the packages of connections convert a Recorder to.
type recorder = recording.Recorder

// Stats tells what a Recorder holds.
type Stats struct {
	Bytes       int64  // of the capture, as WriteTo would write it, or as has been given to Output
	Calls       uint64 // recorded, with those that a ring has forgotten
	Connections uint64 // recorded, with those that a ring has forgotten
	Forgotten   int64  // bytes that a ring has forgotten
	Dropped     uint64 // calls that were not recorded: recording had stopped, or they did not fit
	Stopped     bool   // nothing is recorded any more, see Err
}

// NewRecorder returns a Recorder, which records from now on. The error is a
// *ConfigError.
func NewRecorder(cfg *Config) (*Recorder, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	switch {
	case c.MaxBytes != 0 && c.MaxBytes < recording.MinBytes:
		return nil, &ConfigError{"MaxBytes", fmt.Sprintf("%d is less than %d", c.MaxBytes, recording.MinBytes)}
	case c.Ring && c.Output != nil:
		return nil, &ConfigError{"Ring", "cannot be combined with Output"}
	}
	return (*Recorder)(recording.NewRecorder(recording.Config(c))), nil
}

func (r *Recorder) inner() *recorder { return (*recorder)(r) }

// Err returns why nothing is recorded any more: ErrLimit, ErrTooSlow, net.ErrClosed
// after Close, or the error of Config.Output. It returns nil while recording goes on.
// Connections go on whatever it is.
func (r *Recorder) Err() error { return r.inner().Err() }

// Stats returns the present figures.
func (r *Recorder) Stats() Stats { return Stats(r.inner().Stats()) }

// WriteTo writes the capture as it stands to w, and goes on recording. It returns
// the number of bytes written, at most Config.MaxBytes, and the error of w. With a
// Config.Output it writes nothing and returns an error.
func (r *Recorder) WriteTo(w io.Writer) (n int64, err error) { return r.inner().WriteTo(w) }

// Close stops recording. With a Config.Output it waits until the whole capture has
// been written, and returns the error of a write, if there was one; it does not close
// Output. A capture in memory can still be written by WriteTo.
func (r *Recorder) Close() error { return r.inner().Close() }
