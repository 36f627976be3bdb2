package netplay

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Options are the bits that a frame says about its payload.
type Options uint8

const (
	// Compressed says that the payload is a compressed stream of the body.
	Compressed Options = 1 << 0
	// Encrypted has no meaning that was ever defined, see
	// Config.AcceptEncrypted.
	Encrypted Options = 1 << 1
	// Reserved are the bits that the format leaves open. They are written as
	// 0 and, when read, shown and otherwise ignored.
	Reserved Options = 0xfc
)

// A Frame is a message as it travels: a length of two bytes, then the options
// in one, the type in two, and the payload. All numbers are big-endian, and
// the length counts what comes after it.
type Frame struct {
	Type    uint16
	Options Options
	Payload []byte
}

// MaxPayload is the longest payload of a frame, in bytes.
const MaxPayload = maxFrame - minFrame

// Len returns the length of the frame in bytes, its length field included.
func (f Frame) Len() int { return minFrame + len(f.Payload) }

// A FrameTooLargeError is returned for a message whose frame would be longer
// than the format or Config.MaxFrame allows. Nothing of it was sent.
type FrameTooLargeError struct {
	Size int // of the frame in bytes, its length field included
	Max  int
}

func (e *FrameTooLargeError) Error() string {
	return fmt.Sprintf("netplay: frame of %d bytes exceeds the maximum of %d", e.Size, e.Max)
}

// A ProtocolError means that what arrived is not in the format, so that it
// cannot be known where the next frame begins. It ends the connection.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "netplay: protocol error: " + e.Reason }

func protocolError(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// ErrShortFrame is returned by [ParseFrame] for the beginning of a frame.
var ErrShortFrame = errors.New("netplay: incomplete frame")

// AppendFrame appends f to dst as it is, without the chunk headers of V4. The
// error is a [*FrameTooLargeError] if the payload is longer than [MaxPayload].
func AppendFrame(dst []byte, f Frame) ([]byte, error) {
	if len(f.Payload) > MaxPayload {
		return dst, &FrameTooLargeError{Size: f.Len(), Max: maxFrame}
	}
	n := f.Len() - 2
	dst = append(dst, byte(n>>8), byte(n), byte(f.Options), byte(f.Type>>8), byte(f.Type))
	return append(dst, f.Payload...), nil
}

// ParseFrame returns the frame at the front of b, whose payload is part of b,
// and what follows it. The error is [ErrShortFrame] if the frame does not end
// within b, and a [*ProtocolError] if its length is not possible.
func ParseFrame(b []byte) (f Frame, rest []byte, err error) {
	size, err := frameSize(b, maxFrame)
	if err != nil {
		return Frame{}, b, err
	}
	if len(b) < size {
		return Frame{}, b, ErrShortFrame
	}
	return frameAt(b[:size]), b[size:], nil
}

// frameSize returns the length of the frame that begins with b.
func frameSize(b []byte, limit int) (int, error) {
	if len(b) < 2 {
		return 0, ErrShortFrame
	}
	size := 2 + int(binary.BigEndian.Uint16(b))
	if size < minFrame {
		return 0, protocolError("a frame says that its length is %d, less than 3", size-2)
	}
	if size > limit {
		return 0, protocolError("a frame of %d bytes exceeds the maximum of %d", size, limit)
	}
	return size, nil
}

// frameAt returns the frame that is all of b.
func frameAt(b []byte) Frame {
	return Frame{Options: Options(b[2]), Type: binary.BigEndian.Uint16(b[3:]), Payload: b[minFrame:]}
}
