package secure

import (
	"fmt"
	"strings"
	"time"
)

// A DialError says at which step no session came to be, and what helps.
type DialError struct {
	// Step is where it failed:
	//   - "tcp": no connection to the token service came to be;
	//   - "tls": the server is not the one of the URL;
	//   - "clock": the certificate is not valid at this time;
	//   - "version": the server speaks another version;
	//   - "busy": the server has too many logins at once;
	//   - "token": the server gave no token;
	//   - "udp": the server gave a token, and does not answer in UDP;
	//   - "expired": so it is, and the token has expired meanwhile.
	Step string
	// Address is the server's, with the port.
	Address string
	// Err is the cause.
	Err error
}

func (e *DialError) Error() string {
	return "secure: dial " + e.Address + ": " + e.advice() + ": " + e.Err.Error()
}

// advice says what is wrong, and what helps.
func (e *DialError) advice() string {
	port := e.Address[strings.LastIndexByte(e.Address, ':')+1:]
	switch e.Step {
	case "tcp":
		return "nothing answers at TCP port " + port + "; is it open in the firewall? sessions use UDP and TCP port " + port
	case "tls":
		return "this is not the server of the URL"
	case "clock":
		return "the certificate of the server is not valid at this time; is the clock of this machine right?"
	case "version":
		return "the server speaks another version of the protocol; is one side older?"
	case "busy":
		return "the server has too many logins at once; try again in a second"
	case "udp":
		return "the server gives tokens by TCP, and UDP port " + port + " does not answer; is UDP open in the firewall?"
	case "expired":
		return "UDP port " + port + " did not answer before the token expired; is UDP open in the firewall?"
	}
	return "the server gave no connect token"
}

// Unwrap returns Err.
func (e *DialError) Unwrap() error { return e.Err }

// A pinError is the Err of a DialError if the server has another key.
type pinError struct {
	want []pin
	got  pin
}

func (e *pinError) Error() string {
	want := make([]string, len(e.want))
	for i, p := range e.want {
		want[i] = p.String()
	}
	return fmt.Sprintf("it has the key %v, and the URL says %s", e.got, strings.Join(want, " or "))
}

// A RefusedError is the error of Dial if the server refuses the client.
type RefusedError struct {
	// Reason is the server's: the text of the error of Authorize, or "full".
	Reason string
	// RetryAfter is when the server expects to have room, 0 if a retry does not help.
	RetryAfter time.Duration

	server string // address of the token service that has refused; empty: a backend
}

func (e *RefusedError) Error() string {
	s := "secure: the server refuses the client: " + e.Reason
	if e.RetryAfter > 0 {
		s += fmt.Sprintf("; it asks to try again in %v", e.RetryAfter)
	}
	return s
}

// A CloseError ends a session whose peer has closed it with a reason. Messages that
// arrived before are read first.
type CloseError struct {
	// Reason is the peer's, one line of at most 64 bytes.
	Reason string
}

func (e *CloseError) Error() string { return "secure: closed by the peer: " + e.Reason }
