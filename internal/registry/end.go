package registry

import (
	"io"
	"net"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// An End is a connection that has ended. The fields are explained at volleydebug.End, which
// has the same.
type End struct {
	ID, Listener                uint64
	Protocol, Over, Role, Label string
	Remote                      string
	Born, Time                  time.Time
	Reason                      string
}

const (
	// maxEnds is how many connections are remembered after their end.
	maxEnds = 32
	// maxText is how many bytes of an address, label or reason are kept. Peers choose some.
	maxText = 160
)

// A record holds the last connections that have ended, whole values that refer to nothing
// else. The zero value is ready for use.
type record struct {
	mu   sync.Mutex
	ends [maxEnds]End
	next uint64 // how many there have been
}

var recent record

func (r *record) add(e End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends[r.next%maxEnds] = e
	r.next++
}

// list returns them, the newest first.
func (r *record) list() []End {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(r.next, maxEnds)
	all := make([]End, 0, n)
	for i := range n {
		all = append(all, r.ends[(r.next-1-i)%maxEnds])
	}
	return all
}

// Ends returns the last connections that have ended, the newest first.
func Ends() []End { return recent.list() }

// endOf returns what is remembered of a connection.
func endOf(c *Conn, role string, why error) End {
	e := End{
		ID: c.ID, Listener: c.Listener, Protocol: c.Protocol, Over: c.Over, Role: role,
		Label: plain(c.Label), Born: c.Born, Time: time.Now(),
	}
	if c.Remote != nil {
		e.Remote = plain(c.Remote.String())
	}
	switch why {
	case nil, net.ErrClosed:
		e.Reason = "closed"
	case io.EOF:
		e.Reason = "closed by the peer"
	default:
		e.Reason = plain(strings.TrimPrefix(why.Error(), c.Protocol+": "))
	}
	return e
}

// plain returns a copy of text that may be a peer's: of at most maxText bytes, and with a
// question mark in the place of what cannot be printed.
func plain(text string) string {
	var b strings.Builder
	for _, r := range text {
		if !unicode.IsPrint(r) {
			r = '?'
		}
		if b.Len()+utf8.RuneLen(r) > maxText-len("…") {
			b.WriteRune('…')
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
