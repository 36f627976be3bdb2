package netcode

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"
)

// A HandshakeError says why [Dial] did not get a session. A server answers
// nobody who does not hold a valid token, so silence has many meanings; the
// text names them.
type HandshakeError struct {
	// Server is the one tried last.
	Server netip.AddrPort
	// State is how the handshake ended, or how far it got before the context
	// ended it.
	State State
	// Elapsed is the time since the first request to the first server.
	Elapsed time.Duration
	// Attempts has an entry for each server that was tried.
	Attempts []Attempt
	// Err is the error of the context or the network, if that is what ended
	// the handshake.
	Err error

	expired time.Duration // how long before, by this machine's clock; zero: it had not
}

// Unwrap returns Err.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Timeout reports whether it was silence that ended the handshake.
func (e *HandshakeError) Timeout() bool {
	if e.Err != nil {
		return errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, os.ErrDeadlineExceeded)
	}
	return e.State == StateRequestTimedOut || e.State == StateResponseTimedOut
}

// Temporary is false: the same token does not help again. It is used up, unless
// the context had ended before the first request.
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
	b.WriteString(": ")
	if e.Err != nil {
		b.WriteString(e.Err.Error())
	}
	if e.Err == nil || errors.Is(e.Err, context.DeadlineExceeded) {
		if e.Err != nil {
			b.WriteString(": ")
		}
		b.WriteString(e.reason())
		if e.expired > 0 {
			fmt.Fprintf(&b, "; the connect token had expired %s before by this machine's clock", seconds(e.expired))
		}
	}
	e.describeOthers(&b)
	return b.String()
}

const silentReasons = "a silent server may be down or unreachable, have another private key or protocol id, " +
	"not find its own address in the token, as behind a proxy or a NAT, have seen the token used or know its client as connected, " +
	"have started after the token was issued, or find it expired by its clock"

// reason explains the state.
func (e *HandshakeError) reason() string {
	switch e.State {
	case StateTokenExpired:
		return "the connect token's lifetime ended before a server accepted it: " + silentReasons
	case StateDenied:
		return "the server denied the connection because it is full"
	case StateResponseTimedOut, StateResponding:
		return "the server sent a challenge and then did not accept the answer: it may have gone, or connected the same client in between"
	case StateRequestTimedOut, StateRequesting:
		return "no answer: " + silentReasons
	}
	return e.State.String()
}

// describeOthers adds a word on each server that was tried before.
func (e *HandshakeError) describeOthers(b *strings.Builder) {
	if len(e.Attempts) < 2 {
		return
	}
	b.WriteString("; before that:")
	for i, a := range e.Attempts[:len(e.Attempts)-1] {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, " %v %v after %s", a.Server, a.State, seconds(a.Elapsed))
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
