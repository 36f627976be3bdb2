package netcode

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrTokenUsed is the error of dialing twice with one connect token. A token
// is good for one session; ask the backend for another.
var ErrTokenUsed = errors.New("netcode: connect token already used")

// errRefused is why a server was given up whose machine says that nobody listens
// on the port.
var errRefused = fmt.Errorf("the server's machine says that nobody listens on the port: %w", syscall.ECONNREFUSED)

// A PayloadTooLargeError is the error of a Write of more than one packet
// carries. Nothing was sent.
type PayloadTooLargeError struct {
	Size int // of the payload, in bytes
	Max  int // the limit, [MaxPayload]
}

func (e *PayloadTooLargeError) Error() string {
	return fmt.Sprintf("netcode: payload of %d bytes is larger than a packet's %d", e.Size, e.Max)
}

// A TokenError is the error of a connect token that cannot be read or used.
type TokenError struct {
	Reason DropReason // the first rule that refuses it; DropNone for a nil Token
}

var tokenProblems = map[DropReason]string{
	DropNone:              "it is nil",
	DropTokenLength:       "it does not have 2048 bytes",
	DropVersion:           "it is for another protocol version",
	DropCreateAfterExpire: "it expires before it was created",
	DropServerCount:       "its number of servers is not between 1 and 32",
	DropAddressType:       "it has an address of unknown family",
	DropTokenDecrypt:      "its private part does not open with this key",
}

func (e *TokenError) Error() string {
	return "netcode: invalid connect token: " + tokenProblems[e.Reason]
}
