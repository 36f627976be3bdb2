package fleet

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math"

	"volley/internal/handover"
)

// Nodes send each other messages by NATS. Each begins with the version and the sender's
// instance. The rest is sealed by a key of that instance, which everybody with the fleet's key
// can derive. The subject is sealed with it, so that nobody can send a message elsewhere.

// An instance is a process as a node: after a restart it has another one.
type instance [16]byte

const (
	version      = 1
	envelopeHead = 1 + len(instance{})
	maxMessage   = 256 << 10 // bytes
)

// The kinds of messages. The first ones go to all nodes and are numbered.
const (
	kindBeat   = 1 // name, load, flags: it is alive
	kindSeats  = 2 // what has become of sessions
	kindAsk    = 3 // spare tokens for sessions are wanted
	kindReply  = 4 // the spare tokens
	kindResync = 5 // messages were missed: all seats are wanted
)

// A sealer seals the messages of one instance, and opens them.
type sealer struct{ cipher.AEAD }

func (k *key) sealer(id instance) sealer {
	block, err := aes.NewCipher(k.derive("messages "+string(id[:]), 32))
	if err != nil {
		panic(err) // the size is wrong
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return sealer{aead}
}

// seal returns a message for a subject.
func (s sealer) seal(from instance, subject string, plain []byte) []byte {
	b := make([]byte, envelopeHead+s.NonceSize(), envelopeHead+s.NonceSize()+len(plain)+s.Overhead())
	b[0] = version
	copy(b[1:], from[:])
	nonce := b[envelopeHead:]
	rand.Read(nonce)
	return s.Seal(b, nonce, plain, []byte(subject))
}

// open returns what seal was given.
func (s sealer) open(subject string, b []byte) ([]byte, error) {
	if len(b) < envelopeHead+s.NonceSize() {
		return nil, errMessage
	}
	b = b[envelopeHead:]
	return s.Open(nil, b[:s.NonceSize()], b[s.NonceSize():], []byte(subject))
}

var errMessage = errors.New("fleet: a message is malformed")

// sender returns the instance that a message says it is from.
func sender(b []byte) (id instance, ok bool) {
	if len(b) < envelopeHead || b[0] != version || len(b) > maxMessage {
		return id, false
	}
	copy(id[:], b[1:])
	return id, true
}

// A beat says that a node is alive.
type beat struct {
	name     string
	load     float64
	sessions uint32
	flags    byte
}

const (
	flagServes = 1 << iota // it has a Listener
	flagDrains             // it wants no clients
	flagBye                // it closes
)

func (m *beat) append(b []byte) []byte {
	b = append(b, byte(len(m.name)))
	b = append(b, m.name...)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(m.load))
	b = binary.LittleEndian.AppendUint32(b, m.sessions)
	return append(b, m.flags)
}

func parseBeat(b []byte) (m beat, ok bool) {
	if len(b) < 1 || len(b) < 1+int(b[0])+8+4+1 {
		return m, false
	}
	n := 1 + int(b[0])
	m.name, b = string(b[1:n]), b[n:]
	m.load = math.Float64frombits(binary.LittleEndian.Uint64(b))
	m.sessions = binary.LittleEndian.Uint32(b[8:])
	m.flags = b[12]
	return m, !math.IsNaN(m.load) && m.load >= 0
}

// A change is what has become of a session at the sender.
type change struct {
	kind       byte
	session    handover.SessionID
	generation uint64
}

const (
	changeHere = 1 // it is here
	changeLeft = 2 // it is not here any more
	changeOver = 3 // it has ended, and must not come back

	changeSize = 1 + len(handover.SessionID{}) + 8
	maxChanges = 2000 // in a message
)

func (c *change) append(b []byte) []byte {
	b = append(b, c.kind)
	b = append(b, c.session[:]...)
	return binary.LittleEndian.AppendUint64(b, c.generation)
}

func parseChange(b []byte) (c change) {
	c.kind = b[0]
	copy(c.session[:], b[1:])
	c.generation = binary.LittleEndian.Uint64(b[changeSize-8:])
	return c
}

// An ask is for spare tokens.
type ask struct {
	id      uint64
	public  []byte // key for HPKE
	tickets []ticket
}

type ticket struct {
	session handover.SessionID
	ticket  []byte
}

const maxTickets = 50 // in a message

func (m *ask) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.id)
	b = appendBytes(b, m.public)
	for _, t := range m.tickets {
		b = append(b, t.session[:]...)
		b = appendBytes(b, t.ticket)
	}
	return b
}

func parseAsk(b []byte) (m ask, ok bool) {
	if len(b) < 8 {
		return m, false
	}
	m.id = binary.LittleEndian.Uint64(b)
	if m.public, b, ok = cutBytes(b[8:]); !ok {
		return m, false
	}
	for len(b) > 0 {
		var t ticket
		if len(b) < len(t.session) || len(m.tickets) == maxTickets {
			return m, false
		}
		copy(t.session[:], b)
		if t.ticket, b, ok = cutBytes(b[len(t.session):]); !ok {
			return m, false
		}
		m.tickets = append(m.tickets, t)
	}
	return m, true
}

// appendBytes appends bytes with their length in front.
func appendBytes(b, x []byte) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(x))), x...)
}

func cutBytes(b []byte) (x, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := 2 + int(binary.LittleEndian.Uint16(b))
	if len(b) < n {
		return nil, nil, false
	}
	return b[2:n], b[n:], true
}
