package netcode

import (
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrIdleTimeout ends a session whose peer has been silent for the timeout of
	// its connect token. Messages that arrived before are read first. Its Timeout
	// is false, because the session does not come back.
	ErrIdleTimeout = errors.New("netcode: no packet from the peer within the timeout of the connect token")
	// ErrServerFull is matched by the error of Dial if the server has denied the
	// connection because no slot is free.
	ErrServerFull = errors.New("netcode: the server is full and has denied the connection")
	// ErrTokenExpired is matched by the error of Dial if the lifetime of the
	// connect token ended before a server accepted it.
	ErrTokenExpired = errors.New("netcode: the connect token's lifetime ended before a server accepted it")
	// ErrTokenUsed is the error of dialing twice with one connect token. A token
	// is good for one session; ask the backend for another.
	ErrTokenUsed = errors.New("netcode: connect token already used")
)

var (
	// errExhausted ends a session that has used up its share of sequence numbers.
	errExhausted = errors.New("netcode: session has used up its sequence numbers, 2^40 packets")
	// errRefused is the failure of a server whose machine says that nobody listens
	// on the port.
	errRefused = fmt.Errorf("the server's machine says that nobody listens on the port: %w", syscall.ECONNREFUSED)

	errNoAnswer    = errors.New("no answer")
	errNotAccepted = errors.New("the server sent a challenge and did not accept the answer")
)

// A MessageTooLargeError is the error of a Write of more than a packet carries.
// Nothing was sent.
type MessageTooLargeError struct {
	Size int // of the message, in bytes
	Max  int // the limit, [MaxMessageSize]
}

func (e *MessageTooLargeError) Error() string {
	return fmt.Sprintf("netcode: message of %d bytes exceeds the maximum of %d", e.Size, e.Max)
}

// A TokenError is the error of a connect token that cannot be read or used.
type TokenError struct {
	Reason string // such as "it does not have 2048 bytes"
}

func (e *TokenError) Error() string { return "netcode: invalid connect token: " + e.Reason }

func tokenError(r dropReason) error { return &TokenError{tokenProblems[r]} }

var tokenProblems = map[dropReason]string{
	dropNone:              "it is nil",
	dropTokenLength:       "it does not have 2048 bytes",
	dropVersion:           "it is for another protocol version",
	dropCreateAfterExpire: "it expires before it was created",
	dropServerCount:       "its number of servers is not from 1 to 32",
	dropAddressType:       "it has an address of unknown family",
	dropTokenDecrypt:      "its private part does not open with this key",
}
