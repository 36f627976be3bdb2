package reliable

import (
	"errors"
	"fmt"
)

// ErrNoMemory is returned by Send when Config.Reserve refuses the memory for
// the window of sent packets.
var ErrNoMemory = errors.New("reliable: no memory for the window of sent packets")

// A PacketTooLargeError is returned by Send for a payload above
// Config.MaxPacketSize. Nothing of it is sent.
type PacketTooLargeError struct {
	Size int // bytes of the payload
	Max  int // bytes allowed
}

func (e *PacketTooLargeError) Error() string {
	return fmt.Sprintf("reliable: packet of %d bytes exceeds the maximum of %d", e.Size, e.Max)
}

// A ConfigError says which field of a Config is wrong, and why.
type ConfigError struct {
	Field  string // name of the field
	Value  any    // what it holds
	Reason string // what is wrong with it, and the limit
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("reliable: Config.%s = %v: %s", e.Field, e.Value, e.Reason)
}

// A FormatError says why a datagram is not a valid packet or fragment. The
// zero value is not an error.
type FormatError uint8

// Why a header cannot be read.
const (
	ErrHeaderShort        FormatError = iota + 1 // fewer than 3 bytes
	ErrHeaderIsFragment                          // the prefix is that of a fragment
	ErrHeaderShortAck                            // ends before or inside the ack
	ErrHeaderShortAckBits                        // ends before or inside the ack bits
	ErrFragmentShort                             // fewer than 5 bytes
	ErrFragmentPrefix                            // the prefix is not 1
	ErrFragmentCount                             // more fragments than allowed
	ErrFragmentID                                // the id is not below the count
	ErrFragmentSequence                          // the header inside fragment 0 has another sequence
	ErrFragmentHeader                            // the header inside fragment 0 is not in its only legal encoding
	ErrFragmentLong                              // more data than a fragment carries
	ErrFragmentSize                              // not the last fragment, and not full
)

var formatErrors = [...]string{
	ErrHeaderShort:        "header is shorter than 3 bytes",
	ErrHeaderIsFragment:   "prefix is that of a fragment",
	ErrHeaderShortAck:     "header ends before the ack is complete",
	ErrHeaderShortAckBits: "header ends before the ack bits are complete",
	ErrFragmentShort:      "fragment is shorter than 5 bytes",
	ErrFragmentPrefix:     "fragment prefix is not 1",
	ErrFragmentCount:      "fragment count exceeds the maximum",
	ErrFragmentID:         "fragment id is not below the count",
	ErrFragmentSequence:   "fragment 0 has a header with another sequence",
	ErrFragmentHeader:     "fragment 0 has a header in an encoding no sender uses",
	ErrFragmentLong:       "fragment exceeds the fragment size",
	ErrFragmentSize:       "fragment is not the last and not full",
}

func (e FormatError) Error() string {
	if int(e) < len(formatErrors) && formatErrors[e] != "" {
		return "reliable: " + formatErrors[e]
	}
	return fmt.Sprintf("reliable: FormatError(%d)", uint8(e))
}
