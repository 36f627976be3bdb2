// Package sideband is the seam between package netcode and a package that gives
// out its sessions as its own. That package has control messages beside those of
// the application, and names of its own on the debug page. One byte in front of
// each message tells the two kinds apart, in both directions.
package sideband

import (
	"net"
	"net/netip"
	"time"
)

// An Owner owns the sessions of a Listener or Dialer. Its methods are called
// without locks, by the goroutine that reads, times or closes.
type Owner interface {
	// Protocol is the name of the package.
	Protocol() string
	// Label names the peer of a session; empty: by the number in its token.
	Label(session net.Conn) string
	// Control takes a control message, which is valid until it returns.
	Control(now time.Time, session net.Conn, msg []byte)
	// Ended learns that a session is over, once.
	Ended(session net.Conn)
	// Broken learns that the way to the peer broke, and reports whether the session stays
	// all the same, because its owner moves it.
	Broken(session net.Conn, err error) (stays bool)

	// Ask says what a request is for, from the user data in its token, before anything is
	// remembered of it, and again before its session is made. It is called with the lock of the
	// Listener. After a session has moved by a token, Ask refuses the token until it expires,
	// because nobody else remembers it.
	Ask(now time.Time, userData []byte) (moves, refused, early bool)
	// Admit is given a new session of a Listener before anybody else sees it, and reports
	// whether it keeps it: to move another session, or to close it.
	Admit(now time.Time, session net.Conn) (kept bool)
}

// Grace is the silence after which an owned session is over. Until then it can move.
const Grace = 30 * time.Second

// A Session is what an Owner can do beside the session's exported methods.
type Session interface {
	// CloseWith ends the session as Close does. A control message of at most 1,199
	// bytes tells the peer in place of the protocol's own packets.
	CloseWith(msg []byte) error
	// Send sends a control message of at most 1,199 bytes, as Write does.
	Send(msg []byte) error
	// Move has the session go on as a newer one of the same peer, which is over for its
	// holder. If this session has ended, the newer one ends, too, and tells its peer.
	Move(newer net.Conn) error
	// Heard returns when the peer was heard last. Asked returns when the first message
	// was sent after that; the zero time: none.
	Heard() time.Time
	Asked() time.Time
	// Keep keeps a value with the session, which Kept returns.
	Keep(v any)
	Kept() any
	// Failure returns why the session has ended, as Write does; nil: it has not.
	Failure() error
	// Left reports whether Close has ended the session, before anything else did.
	Left() bool
	// End ends the session as the peer's Close does, with an error for Read. A control
	// message, if not nil, tells the peer, ten times.
	End(err error, msg []byte)
}

// OwnMove is Own for a Dialer whose session is for another one to Move to.
var OwnMove func(cfg any, o Owner)

// AppendSpare appends what a client needs of a token, a *netcode.Token, beside what it knows
// of its session. ParseSpare makes the token for a server at an address. SpareSize is the
// number of bytes. Package netcode sets the functions.
var (
	AppendSpare func(b []byte, token any) []byte
	ParseSpare  func(b []byte, protocolID uint64, server netip.AddrPort) (token any, ok bool)
)

// SpareSize is 8 bytes for the time of issue, 8 for that of expiry, 4 for the timeout, 24 for
// the nonce, 1,024 for the sealed part and two keys of 32 bytes.
const SpareSize = 8 + 8 + 4 + 24 + 1024 + 2*32

// Own gives the sessions of a configuration to an Owner. Package netcode sets it;
// cfg is its *Config, and each session is a Session by Of.
var Own func(cfg any, o Owner)

// Zone sets the zone of the servers of a token, a *netcode.Token, whose addresses are those
// of a link. A token cannot say it, because a zone means something on one machine only.
// Package netcode sets the function.
var Zone func(token any, zone string)

// Of returns the Session of a connection of package netcode, which sets it.
var Of func(net.Conn) Session
