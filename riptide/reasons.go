package riptide

import "strconv"

// A RejectReason says why a connection did not come about. Its numbers are
// those of the packed layout.
type RejectReason uint8

const (
	// NoConnection: the server did not answer.
	NoConnection RejectReason = iota
	// AlreadyConnected: the server has a connection with this client. No
	// released server says so.
	AlreadyConnected
	// ServerFull: the server has as many clients as it takes.
	ServerFull
	// Rejected: the application at the server has refused, without data.
	Rejected
	// RejectedWithData: the application at the server has refused, with data.
	RejectedWithData
)

func (r RejectReason) String() string {
	return reasonName(int(r), "no answer", "already connected", "server full", "rejected", "rejected with data")
}

// A DisconnectReason says why a connection ended.
type DisconnectReason uint8

const (
	// NeverConnected: it ended before it was established.
	NeverConnected DisconnectReason = iota
	// ConnectionRejected: the server did not accept it.
	ConnectionRejected
	// TransportError: the socket failed.
	TransportError
	// TimedOut: the other side fell silent.
	TimedOut
	// Kicked: the server ended it, perhaps with data.
	Kicked
	// ServerStopped: the server has been shut down.
	ServerStopped
	// Disconnected: the client ended it.
	Disconnected
	// PoorConnection: too much was lost, such as a reliable message 15 times,
	// or more waited to be sent than the limit.
	PoorConnection
)

func (r DisconnectReason) String() string {
	return reasonName(int(r), "never connected", "connection rejected", "transport error", "timed out",
		"kicked", "server stopped", "disconnected", "poor connection")
}

func reasonName(r int, names ...string) string {
	if r < len(names) {
		return names[r]
	}
	return "reason " + strconv.Itoa(r)
}
