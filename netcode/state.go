package netcode

import "fmt"

// A State is the state of a client, with the numbers of the standard: negative
// is an error, 0 disconnected, 1 and 2 are connecting.
type State int

// The states of a client.
const (
	StateTokenExpired     State = -6 // the connect token expired before the session began
	StateInvalidToken     State = -5 // the connect token cannot be read
	StateTimedOut         State = -4 // the session ended by silence of the server
	StateResponseTimedOut State = -3 // no word after the challenge was answered
	StateRequestTimedOut  State = -2 // no answer to the request
	StateDenied           State = -1 // the server was full
	StateDisconnected     State = 0
	StateRequesting       State = 1 // sending requests
	StateResponding       State = 2 // challenged, sending responses
	StateConnected        State = 3
)

var stateNames = [...]string{
	"token expired", "invalid token", "timed out", "response timed out", "request timed out",
	"denied", "disconnected", "requesting", "responding", "connected",
}

func (s State) String() string {
	if s < StateTokenExpired || s > StateConnected {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s-StateTokenExpired]
}
