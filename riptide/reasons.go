package riptide

// A Reason says why a connection ended, or why there was none.
type Reason uint8

const (
	// NoAnswer: the server did not answer.
	NoAnswer Reason = 1 + iota
	// AlreadyConnected: the server has a connection with this client. No
	// released server says so.
	AlreadyConnected
	// ServerFull: the server has as many clients as it takes.
	ServerFull
	// Rejected: the application at the server has refused, perhaps with data.
	Rejected
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
	// PoorConnection: too much was lost, or more waited to be sent than the limit.
	PoorConnection
)

func (r Reason) String() string {
	return enumName("Reason", int(r), "unknown reason", "no answer", "already connected", "server full", "rejected", "transport error",
		"timed out", "kicked", "server stopped", "disconnected", "poor connection")
}

// A rejectReason is the reason of a reject, by its number in the packed layout.
type rejectReason uint8

const (
	rejectNoAnswer rejectReason = iota
	_                           // already connected
	rejectFull
	rejectPlain
	rejectData
)

// An endReason is the reason of a disconnect, by its number in the packed layout.
type endReason uint8

const (
	endUnconnected endReason = iota
	endRejected
	endTransport
	endTimeout
	endKicked
	endStopped
	endLeft
	endPoor
)

// An end is what eventEnded says.
type end struct {
	reason   endReason
	rejected rejectReason // if reason is endRejected
	data     []byte       // a body
}

func endOf(body []byte) end { return end{endReason(body[0]), rejectReason(body[1]), body[2:]} }

// why returns the reason as the application learns it; 0 if it is unknown.
func (e end) why() Reason {
	names, i := [...]Reason{NoAnswer, 0, TransportError, TimedOut, Kicked, ServerStopped, Disconnected, PoorConnection}, int(e.reason)
	if e.reason == endRejected {
		names, i = [...]Reason{NoAnswer, AlreadyConnected, ServerFull, Rejected, Rejected, 0, 0, 0}, int(e.rejected)
	}
	if i < len(names) {
		return names[i]
	}
	return 0
}

// message returns the data of the end as a message; nil if it can have none.
func (e end) message(set *settings) *Message {
	if e.reason != endKicked && (e.reason != endRejected || e.rejected != rejectData) {
		return nil
	}
	return set.loadData(e.data)
}
