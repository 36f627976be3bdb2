package secure

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"
)

// A ticket is what a Listener tells itself about a client, in the user data of a
// token: nobody else can read or make it.
type ticket struct {
	clientID uint64    // 0: that of the session, which is random
	serial   uint64    // of the token; a newer login has a higher one
	expires  time.Time // of the session; zero: never
	identity []byte
	// A session goes on with tokens of its own, each of a higher generation.
	session    sessionID
	generation uint64 // 1: the session begins
	handed     bool   // another server has had the session
	state      []byte // from there
}

// A sessionID tells a session from all others. Only both ends of it know it.
type sessionID [16]byte

func newSessionID() (id sessionID) {
	rand.Read(id[:])
	return id
}

// String returns the form that sessionHeader has.
func (id sessionID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// parseSessionID reads what String has written.
func parseSessionID(text string) (id sessionID, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	return sessionID(b), true
}

const (
	ticketVersion = 2
	ticketHeader  = 1 + 8 + 8 + 8 + 16 + 8 + 2
	maxIdentity   = 128 // bytes
	maxState      = 64
)

// append returns the ticket as user data.
func (t *ticket) append(b []byte) []byte {
	b = append(b, ticketVersion)
	b = binary.LittleEndian.AppendUint64(b, t.clientID)
	b = binary.LittleEndian.AppendUint64(b, t.serial)
	var expires int64
	if !t.expires.IsZero() {
		expires = max(t.expires.UnixMilli(), 1)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(expires))
	b = append(b, t.session[:]...)
	b = binary.LittleEndian.AppendUint64(b, t.generation)
	b = append(b, byte(len(t.identity)))
	if t.handed {
		b = append(b, byte(1+len(t.state)))
	} else {
		b = append(b, 0)
	}
	return append(append(b, t.identity...), t.state...)
}

// parseTicket reads user data.
func parseTicket(b []byte) (t ticket, ok bool) {
	if len(b) < ticketHeader || b[0] != ticketVersion {
		return ticket{}, false
	}
	t.clientID = binary.LittleEndian.Uint64(b[1:])
	t.serial = binary.LittleEndian.Uint64(b[9:])
	ms := int64(binary.LittleEndian.Uint64(b[17:]))
	if ms != 0 {
		t.expires = time.UnixMilli(ms)
	}
	copy(t.session[:], b[25:])
	t.generation = binary.LittleEndian.Uint64(b[41:])
	n, state := int(b[49]), int(b[50])
	if t.handed = state > 0; t.handed {
		state--
	}
	if b = b[ticketHeader:]; ms < 0 || n > maxIdentity || state > maxState || len(b) < n+state {
		return ticket{}, false
	}
	t.identity, t.state = slices.Clone(b[:n]), slices.Clone(b[n:n+state])
	return t, true
}
