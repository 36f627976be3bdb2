package capture

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"volley/internal/recording"
)

// A Reader reads a capture. It takes any bytes: what is no capture is a
// *FormatError, never a panic. It takes memory in proportion to the bytes that are
// there, and none for lengths that are only claimed.
type Reader struct {
	Header Header
	End    *End // after Next has returned io.EOF; nil if there is none, as of a program that has died

	in     *recording.Reader
	record Record
}

// A Header says where a capture was made.
type Header struct {
	Version  int       // of the format
	Library  string    // version of this module, as far as the program knows it
	Go       string    // version of Go
	Platform string    // GOOS/GOARCH
	Created  time.Time // when recording began
	Omitted  bool      // Config.OmitPayload
	Ring     bool      // Config.Ring
}

// An End is the last record of a capture.
type End struct {
	Dropped uint32 // calls that had not been recorded when this was written, with Config.Output as recording stopped
	Limit   bool   // recording has stopped at Config.MaxBytes
	Failed  bool   // recording has stopped because the output failed or was too slow
}

// A Connection is a connection in a capture.
type Connection struct {
	ID         uint64          // from 1, in the order of their beginnings
	Protocol   string          // "reliable", of package volley, or "porous"
	Local      string          // address of this side
	Remote     string          // address of the other side
	Start      time.Time       // of the connection
	Config     json.RawMessage // of its core
	Calls      int             // of its core, so far
	Elapsed    time.Duration   // from Start to the newest call
	Incomplete bool            // calls are missing: a ring has forgotten them, or they did not fit
}

// A Record is one record of a capture. It is valid until the next call of Next.
type Record struct {
	Offset int64 // in the file, in bytes
	// Kind is "opened" or "closed", for the beginning and the end of a connection,
	// "joined" where a ring has forgotten the beginning, or a call of the core,
	// such as "send" or "receive".
	Kind string
	Conn *Connection // the same for all records of a connection

	// Of a call:
	At      time.Duration // since the beginning of the connection
	Data    []byte        // the datagram or message that the core was given, as far as it is there
	Size    int           // of Data, in full
	Packets []Packet      // that it has received or sent
}

// A Packet is a datagram of a capture.
type Packet struct {
	Time time.Time // of the call, as the connection's core was told it
	Sent bool      // by this side
	Data []byte    // as far as it is there
	Size int       // in full
}

// NewReader returns a Reader of a capture, of which it has read the header.
func NewReader(r io.Reader) (*Reader, error) {
	in, err := recording.NewReader(r)
	if err != nil {
		return nil, public(err)
	}
	return &Reader{Header: Header(in.Header()), in: in}, nil
}

// Next returns the next record, and io.EOF after the last one.
func (r *Reader) Next() (*Record, error) {
	in, err := r.in.Next()
	if err != nil {
		r.End = (*End)(r.in.End())
		return nil, public(err)
	}
	packets := r.record.Packets[:0]
	for p := range in.Packets() {
		packets = append(packets, Packet(p))
	}
	r.record = Record{in.Offset, in.Kind.String(), (*Connection)(in.Conn), in.At, in.Data, in.Size, packets}
	return &r.record, nil
}

// A FormatError says that something is not a capture, or was changed since.
type FormatError struct {
	Offset int64  // of the record in bytes
	Reason string // what is wrong there
	Err    error  // io.ErrUnexpectedEOF if the capture ends in the middle of a record, as after a crash; or nil
}

func (e *FormatError) Error() string { return (*recording.FormatError)(e).Error() }

func (e *FormatError) Unwrap() error { return e.Err }

// public returns an error as programs know it.
func public(err error) error {
	if e, ok := errors.AsType[*recording.FormatError](err); ok {
		return (*FormatError)(e)
	}
	return err
}
