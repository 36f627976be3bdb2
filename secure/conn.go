package secure

import (
	"net"
	"sync"
	"time"
	"weak"

	"volley/internal/datagram"
	"volley/internal/sideband"
	"volley/netcode"
)

// A Conn is an encrypted session, on which each Write sends one message of 1 to
// 1199 bytes. A message arrives whole, at most once, perhaps late or never. Its
// methods are those of the session of package netcode, and a few more. Put a
// volley.Conn, or another protocol, on top with its NewConn.
type Conn struct {
	*netcode.Conn
	clientID uint64
	serial   uint64 // of the token
	identity []byte
	expiry   *time.Timer // of the Grant; nil: none
	expires  time.Time   // the same; zero: never
	session  sessionID
	handed   *[]byte // what another server says of the session; nil: it has begun here
	roamer   *roamer // at the client; nil at the server

	endMu sync.Mutex
	done  chan struct{} // closed at the end; nil: nobody has asked
	ended bool

	anonymous bool // clientID is random, and that of no other session

	// The Listener's seats.mu guards these.
	foreign    bool      // a token of another server has moved or begun it
	generation uint64    // of the token by which the session goes on
	issued     uint64    // the highest generation of a token
	moved      time.Time // when the session moved last
	wanted     time.Time // so far, the client has had its spare tokens
	shown      []shown   // tokens that were not used
}

func init() {
	datagram.RegisterLayer(func(c *Conn) datagram.Conn { return datagram.Below(c.Conn) })
}

var _ net.Conn = (*Conn)(nil)

// ClientID returns the number of the client, from its Grant. At the client it is 0.
func (c *Conn) ClientID() uint64 { return c.clientID }

// Identity returns what the Grant says of the client. At the client it is nil. The
// caller must not change it.
func (c *Conn) Identity() []byte { return c.identity }

// CloseWithReason is Close, and tells the peer why: its calls return a *[CloseError]
// with the reason, of which 64 bytes are sent at most. If a server closes a session, the
// client cannot come back by tokens that it got before.
func (c *Conn) CloseWithReason(reason string) error {
	if reason = clean(reason, maxReason); reason == "" {
		return c.Close()
	}
	return sideband.Of(c.Conn).CloseWith(append([]byte{controlBye}, reason...))
}

// expireAt ends the session at a time. The runtime may hold a timer that was stopped until
// it would have fired, and so only a weak pointer to the session.
func (c *Conn) expireAt(end time.Time) {
	p := weak.Make(c)
	c.expiry = time.AfterFunc(time.Until(end), func() {
		if c := p.Value(); c != nil {
			c.CloseWithReason("the session has expired")
		}
	})
}

// over ends what goes with a session.
func (c *Conn) over() {
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.endMu.Lock()
	defer c.endMu.Unlock()
	if c.done != nil && !c.ended {
		close(c.done)
	}
	c.ended = true
}

// Done returns a channel that is closed when the session is over. [Conn.Err] says why.
func (c *Conn) Done() <-chan struct{} {
	c.endMu.Lock()
	defer c.endMu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.ended {
			close(c.done)
		}
	}
	return c.done
}

// Err returns nil while the session lives, and then why it is over:
//   - net.ErrClosed after Close;
//   - io.EOF if the peer has closed it, or a *[CloseError] if the peer has said why;
//   - [netcode.ErrIdleTimeout] if the peer was silent for 30 s, or shorter if [Conn.Next] has
//     found a third server of a fleet;
//   - [ErrMoved] if it goes on at another server, or after a restart of its own;
//   - a *[RefusedError] if the server does not know it any more;
//   - what broke the socket.
func (c *Conn) Err() error {
	return sideband.Of(c.Conn).Failure()
}

// Control messages begin with their kind. Unknown ones are passed over.
const (
	controlBye   = 1 // and the reason: the session ends
	controlWant  = 2 // the client has room for a spare token
	controlSpare = 3 // and a spare token
	controlPing  = 4 // and up to maxPing bytes: are you there?
	controlPong  = 5 // and the same bytes: I am

	controlElsewhere = 6 // and a spare token for another server, with the address
	controlGo        = 7 // the client is to go there, or to dial again
	controlGone      = 8 // the client has gone there
)

const (
	wantElsewhere = 1 // behind controlWant: the client wants one for another server, too
	wantNoOwn     = 2 // beside it: and none for this server
	goElsewhere   = 1 // behind controlGo: it is to go there, and not to dial again
)

const (
	maxReason = 64 // bytes
	maxPing   = 8
)

// handleControl takes a control message that both sides send.
func handleControl(session net.Conn, msg []byte) bool {
	switch msg[0] {
	case controlBye:
		sideband.Of(session).End(&CloseError{Reason: clean(string(msg[1:]), maxReason)}, nil)
	case controlPing:
		if len(msg) <= 1+maxPing {
			var pong [1 + maxPing]byte
			pong[0] = controlPong
			n := copy(pong[1:], msg[1:])
			sideband.Of(session).Send(pong[:1+n])
		}
	default:
		return false
	}
	return true
}
