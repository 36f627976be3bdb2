package netplay

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Bits of the options.
const (
	compressed = 1 << 0
	encrypted  = 1 << 1
)

// A Frame is a message on the wire: a length of two bytes, the options in one, the
// type in two, and the payload. All numbers are big-endian, and the length counts the
// bytes after it.
type Frame struct {
	Type uint16
	// Options has bit 0 if the payload is a compressed body. Bit 1 means encrypted,
	// see Config.AcceptEncrypted. The others are reserved: they are written as 0, and
	// ignored in received frames.
	Options uint8
	Payload []byte // at most 65532 bytes
}

const maxPayload = maxFrame - minFrame

// size returns the length of the frame in bytes, with its length field.
func (f Frame) size() int { return minFrame + len(f.Payload) }

// A MessageTooLargeError is the error of a message whose frame is longer than the
// format or Config.MaxFrame allows. Nothing of it was sent.
type MessageTooLargeError struct {
	Size int // of the frame in bytes, with its length field
	Max  int
}

func (e *MessageTooLargeError) Error() string {
	return fmt.Sprintf("netplay: frame of %d bytes exceeds the maximum of %d", e.Size, e.Max)
}

// A ProtocolError means that received bytes are not in the format, so that the
// beginning of the next frame is unknown. It ends the connection.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "netplay: protocol error: " + e.Reason }

func protocolError(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

var errShortFrame = fmt.Errorf("netplay: incomplete frame: %w", io.ErrUnexpectedEOF)

// AppendFrame appends f to dst. The error is a *[MessageTooLargeError] if the payload is
// too long.
func AppendFrame(dst []byte, f Frame) ([]byte, error) {
	if len(f.Payload) > maxPayload {
		return dst, &MessageTooLargeError{Size: f.size(), Max: maxFrame}
	}
	n := f.size() - 2
	dst = append(dst, byte(n>>8), byte(n), byte(f.Options), byte(f.Type>>8), byte(f.Type))
	return append(dst, f.Payload...), nil
}

// ParseFrame returns the frame at the front of b, and the rest of b. The payload is
// part of b. The error matches io.ErrUnexpectedEOF if the frame does not end within b,
// and is a *[ProtocolError] if its length is impossible.
func ParseFrame(b []byte) (f Frame, rest []byte, err error) {
	size, err := frameSize(b, maxFrame)
	if err != nil {
		return Frame{}, b, err
	}
	if len(b) < size {
		return Frame{}, b, errShortFrame
	}
	return frameAt(b[:size]), b[size:], nil
}

// frameSize returns the length of the frame that begins with b.
func frameSize(b []byte, limit int) (int, error) {
	if len(b) < 2 {
		return 0, errShortFrame
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

func frameAt(b []byte) Frame {
	return Frame{Options: b[2], Type: binary.BigEndian.Uint16(b[3:]), Payload: b[minFrame:]}
}
