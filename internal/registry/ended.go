package registry

import (
	"cmp"
	"sync"
)

// Totals are the counters of connections that have ended, added up, and how many
// they are. The fields are explained at volleydebug.Totals, which has the same.
type Totals struct {
	Conns                           uint64
	MessagesSent, MessagesReceived  uint64
	MessagesDelivered, MessagesLost uint64
	MessagesResent                  uint64
	BytesSent, BytesReceived        uint64
	PacketsSent, PacketsReceived    uint64
	PacketsInvalid                  uint64
	MissedNetwork, MissedSocket     uint64
	MissedInbox                     uint64
}

func (t *Totals) add(c *Conn) {
	t.Conns++
	t.MessagesSent += c.MessagesSent
	t.MessagesReceived += c.MessagesReceived
	t.MessagesDelivered += c.MessagesDelivered
	t.MessagesLost += c.MessagesLost
	t.MessagesResent += c.MessagesResent
	t.BytesSent += c.BytesSent
	t.BytesReceived += c.BytesReceived
	t.PacketsSent += c.PacketsSent
	t.PacketsReceived += c.PacketsReceived
	t.PacketsInvalid += c.PacketsInvalid
	t.MissedNetwork += c.MissedNetwork
	t.MissedSocket += c.MissedSocket
	t.MissedInbox += c.MissedInbox
}

// An Ended holds the totals of the connections that one listener has had, or of
// those of one Set. The zero value is ready for use.
type Ended struct {
	role     string // of the connections of a Set; "": they are accepted
	mu       sync.Mutex
	totals   Totals
	protocol string // of the last one
}

// Add adds a connection once, after its End, or it could be counted twice; to miss it for a
// moment is better. The caller holds no lock that View takes. A connection of another listener
// is left to that.
func (e *Ended) Add(v Viewer, listener uint64) {
	c := Conn{ID: v.ID(), Listener: listener}
	v.View(&c, false)
	if c.Listener != listener {
		return
	}
	recent.add(endOf(&c, cmp.Or(e.role, Accepted), v.End()))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.totals.add(&c)
	e.protocol = c.Lowest()
}

// Totals returns the sums.
func (e *Ended) Totals() Totals {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.totals
}

// Lowest returns the protocol that a connection speaks on its socket.
func (c *Conn) Lowest() string {
	if c.Over != "" {
		return c.Over
	}
	return c.Protocol
}

// A Group is what has been of the connections of one Set.
type Group struct {
	Protocol, Role string
	Totals
}

// Groups returns the totals of those sets of which a connection has ended.
func Groups() (all []Group) {
	sources.mu.Lock()
	ended := sources.ended
	sources.mu.Unlock()
	for _, e := range ended {
		e.mu.Lock()
		g := Group{Protocol: e.protocol, Role: e.role, Totals: e.totals}
		e.mu.Unlock()
		if g.Conns > 0 {
			all = append(all, g)
		}
	}
	return all
}
