package netcode

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
)

var (
	// ErrIdleTimeout ends a session whose peer has been silent for the timeout of
	// its connect token. Messages that arrived before are read first. It is no
	// timeout by net.Error, because the session does not come back.
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

// A HandshakeError says why Dial got no session. A server answers only clients
// with a valid token, so silence has many causes; the text names them.
type HandshakeError struct {
	// Server is the last one that was tried.
	Server netip.AddrPort
	// Elapsed is the time since the first request to the first server.
	Elapsed time.Duration
	// Attempts has an entry for each server that was tried.
	Attempts []Attempt
	// Err is the failure of the last attempt, or the error of the context:
	// [ErrServerFull], [ErrTokenExpired], an error of the network, or silence.
	Err error

	expired time.Duration // before the Dial, by this machine's clock; zero: it had not
}

// An Attempt is the failure of one of the servers in a connect token.
type Attempt struct {
	Server     netip.AddrPort // an address from the connect token
	Challenged bool           // the server accepted the token, but not the answer to its challenge
	Elapsed    time.Duration  // since the first request to this server
	Err        error          // as HandshakeError.Err
}

// export returns what users see of a.
func (a attempt) export() Attempt {
	x := Attempt{Server: a.server, Elapsed: a.elapsed, Err: a.err}
	x.Challenged = a.state == stateResponseTimedOut || a.state == stateResponding
	switch {
	case a.err != nil:
	case a.state == stateTokenExpired:
		x.Err = ErrTokenExpired
	case a.state == stateDenied:
		x.Err = ErrServerFull
	case x.Challenged:
		x.Err = errNotAccepted
	default:
		x.Err = errNoAnswer
	}
	return x
}

// Unwrap returns Err.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Timeout reports whether silence ended the handshake.
func (e *HandshakeError) Timeout() bool {
	return e.Err == errNoAnswer || e.Err == errNotAccepted ||
		errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, os.ErrDeadlineExceeded)
}

// Temporary is false, because the same token does not help again. It is used,
// unless the context had ended before the first request.
func (e *HandshakeError) Temporary() bool { return false }

func (e *HandshakeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "netcode: no session with %v", e.Server)
	if n := len(e.Attempts); n > 1 {
		fmt.Fprintf(&b, " (the last of %d servers)", n)
	}
	if e.Elapsed > 0 {
		fmt.Fprintf(&b, " after %s", seconds(e.Elapsed))
	}
	cause := e.Err
	b.WriteString(": " + reason(cause))
	if n := len(e.Attempts); n > 0 && errors.Is(cause, context.DeadlineExceeded) {
		cause = errNoAnswer
		if e.Attempts[n-1].Challenged {
			cause = errNotAccepted
		}
		b.WriteString(": " + reason(cause))
	}
	switch cause {
	case errNoAnswer, ErrTokenExpired:
		b.WriteString(": " + silentReasons)
	case errNotAccepted:
		b.WriteString(": it may have gone, or connected the same client meanwhile")
	}
	if e.expired > 0 {
		fmt.Fprintf(&b, "; the connect token had expired %s before by this machine's clock", seconds(e.expired))
	}
	e.describeOthers(&b)
	return b.String()
}

// reason returns the text of a cause within that of a HandshakeError.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "netcode: ") }

const silentReasons = "a silent server may be down or unreachable, have another private key or protocol id, " +
	"not find its own address in the token, as behind a proxy or a NAT, have seen the token used or know its client as connected, " +
	"have started after the token was issued, or find it expired by its clock"

// describeOthers adds the failures of the servers before the last.
func (e *HandshakeError) describeOthers(b *strings.Builder) {
	if len(e.Attempts) < 2 {
		return
	}
	b.WriteString("; before that:")
	for i, a := range e.Attempts[:len(e.Attempts)-1] {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, " %v after %s: %s", a.Server, seconds(a.Elapsed), reason(a.Err))
	}
}

// seconds writes a duration as people say it.
func seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
	case d < 10*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return d.Round(time.Minute).String()
}
