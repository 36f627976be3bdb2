// Package handover is the seam between package secure and what hands sessions over from one
// server to another: package fleet. A session that goes to another server is a new one there,
// of the same client.
package handover

import (
	"crypto"
	"net"
)

// A SessionID tells a session from all others, at all servers.
type SessionID = [16]byte

// A Kind says what has become of a session.
type Kind uint8

// The kinds of events.
const (
	Begun Kind = iota // it has begun here, or come from another server
	Moved             // its client has a new address, and it a higher generation
	Wants             // its client has room for a spare token for another server
	Over              // it has ended here, and its client must not come back by a spare token
	Left              // it has ended here, and may go on elsewhere: its client was silent, or has gone there
)

// An Event is what has become of a session.
type Event struct {
	Kind       Kind
	Session    SessionID
	Generation uint64  // the session's of now
	Conn       Session // nil after Over and Left
}

// A Server is a *secure.Listener. Its methods may be called from the function of Watch, unless
// they say otherwise.
type Server interface {
	// Watch sets what is called for each Event. It must not block, and is called by several
	// goroutines at once. Nil: nothing.
	Watch(func(Event))
	// Seal returns a spare token, for Session.Give, by which the client of a session's ticket can
	// come here. Public is where it reaches this server, an IP address and a port.
	Seal(session SessionID, ticket []byte, public string) (spare []byte, err error)
	// Yield ends a session with a generation below the given one, because it is at another
	// server, and refuses tokens of that or a lower generation for as long as they last.
	Yield(session SessionID, generation uint64)
	// Refuse has the token service refuse new clients, and tell them the reason. An empty
	// reason ends that.
	Refuse(reason string)
	// Sessions calls f for each session.
	Sessions(f func(Session))
}

// A Session is a *secure.Conn at a server.
type Session interface {
	// Of returns the *secure.Conn.
	Of() net.Conn
	// ID returns the session's, and the generation of now.
	ID() (SessionID, uint64)
	// Ticket returns what another server needs to Seal a token for the client. State is for
	// Conn.Resumed there, at most 64 bytes; nil: none.
	Ticket(state []byte) (ticket []byte, err error)
	// Give sends a spare token for another server to the client, which keeps the newest. The
	// message may be lost.
	Give(spare []byte)
	// Go tells the client to go to the server of the spare token that it keeps for another
	// one, or else to dial again. The message may be lost.
	Go(elsewhere bool)
}

// Of returns the Server of a *secure.Listener. Package secure sets it.
var Of func(listener any) Server

// LoadKey returns the private key in a file that may be a KeyFile, and makes it if it is not
// there. Package secure sets it.
var LoadKey func(name string) (crypto.Signer, error)
