package reliable

import (
	"errors"
	"fmt"
)

// ErrNoMemory is returned by Send when Config.Reserve refuses the memory for
// the window of sent packets.
var ErrNoMemory = errors.New("reliable: no memory for the window of sent packets")

// A MessageTooLargeError is returned by Send for a payload above
// Config.MaxPacketSize. Nothing of it is sent.
type MessageTooLargeError struct {
	Size int // bytes of the payload
	Max  int // bytes allowed
}

func (e *MessageTooLargeError) Error() string {
	return fmt.Sprintf("reliable: packet of %d bytes exceeds the maximum of %d", e.Size, e.Max)
}

// A ConfigError says which field of a Config is wrong, and why.
type ConfigError struct {
	Field  string // name of the field
	Reason string // its value, what is wrong with it, and the limit
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("reliable: Config.%s: %s", e.Field, e.Reason)
}

// A FormatError says why a datagram is not a valid packet or fragment.
type FormatError string

// The reasons; an empty one is no error.
const (
	errHeaderShort        FormatError = "header is shorter than 3 bytes"
	errHeaderIsFragment   FormatError = "prefix is that of a fragment"
	errHeaderShortAck     FormatError = "header ends before the ack is complete"
	errHeaderShortAckBits FormatError = "header ends before the ack bits are complete"
	errFragmentShort      FormatError = "fragment is shorter than 5 bytes"
	errFragmentPrefix     FormatError = "fragment prefix is not 1"
	errFragmentCount      FormatError = "fragment count exceeds the maximum"
	errFragmentID         FormatError = "fragment id is not below the count"
	errFragmentSequence   FormatError = "fragment 0 has a header with another sequence"
	errFragmentHeader     FormatError = "fragment 0 has a header in an encoding no sender uses"
	errFragmentLong       FormatError = "fragment exceeds the fragment size"
	errFragmentSize       FormatError = "fragment is not the last and not full"
)

func (e FormatError) Error() string { return "reliable: " + string(e) }

// OtherSize reports whether the sender cuts its messages otherwise than the reader
// expects.
func (e FormatError) OtherSize() bool {
	return e == errFragmentCount || e == errFragmentLong || e == errFragmentSize
}
