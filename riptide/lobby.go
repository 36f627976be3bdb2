package riptide

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// A stage is how far a client has come.
type stage uint8

const (
	stagePending   stage = iota // not accepted
	stageAccepted               // has not answered
	stageConnected              //
	stageGone
)

// A lobby accounts for a server's clients. Server.mu guards it, and the Peers' fields it uses.
type lobby struct {
	maxClients, maxPending int

	nextID  uint16   // from here on no id has been used
	freed   []uint16 // in the order in which they became free
	peers   map[*Peer]struct{}
	pending [numTransports]places // of peers, those that are not connected
	called  []*Peer               // accepted, and have not answered, in the order of acceptance
}

// confirmAfter is how long an accepted client may take before another gets its place.
const confirmAfter = time.Second

func (l *lobby) init(maxClients, maxPending int) {
	*l = lobby{maxClients: maxClients, maxPending: maxPending, nextID: 1, peers: make(map[*Peer]struct{})}
	for i := range l.pending {
		l.pending[i] = newPlaces()
	}
}

// enter admits a client that is not accepted yet.
func (l *lobby) enter(p *Peer) bool {
	if l.crowded(p.transport) {
		return false
	}
	l.pending[p.transport].add(p)
	l.peers[p] = struct{}{}
	return true
}

// crowded reports whether all places of a transport are taken.
func (l *lobby) crowded(t transport) bool { return len(l.pending[t].peers) >= l.maxPending }

// yields returns the client that must give way to a client of a host; nil: none.
func (l *lobby) yields(now time.Time, t transport, host netip.Addr) *Peer {
	if l.crowded(t) {
		if p := l.pending[t].crowding(host); p != nil {
			return p
		}
		if p := l.pending[t].silent(now); p != nil {
			return p
		}
	}
	return l.unanswered(now)
}

func (l *lobby) full() bool { return len(l.freed) == 0 && int(l.nextID) > l.maxClients }

// accept gives a client the smallest unused id, or the one that was freed first.
func (l *lobby) accept(p *Peer, now time.Time) (id uint16, ok bool) {
	switch {
	case l.full():
		return 0, false
	case int(l.nextID) <= l.maxClients:
		id = l.nextID
		l.nextID++
	default:
		id = l.freed[0]
		l.freed = l.freed[1:]
	}
	p.stage, p.accepted = stageAccepted, now
	l.called = append(l.called, p)
	return id, true
}

// connected notes that a client has answered.
func (l *lobby) connected(p *Peer) {
	l.uncall(p)
	p.stage = stageConnected
	l.pending[p.transport].remove(p)
}

// uncall forgets that a client was accepted, since it has answered or gone.
func (l *lobby) uncall(p *Peer) {
	if i := slices.Index(l.called, p); i >= 0 {
		l.called = slices.Delete(l.called, i, i+1)
	}
}

// left forgets a client, except for its id, and returns how far it had come.
func (l *lobby) left(p *Peer) stage {
	was := p.stage
	l.uncall(p)
	if was == stagePending || was == stageAccepted {
		l.pending[p.transport].remove(p)
	}
	p.stage = stageGone
	delete(l.peers, p)
	return was
}

// free makes the id of a client that has left free.
func (l *lobby) free(id uint16) { l.freed = append(l.freed, id) }

// unanswered returns the first accepted client that has not answered in time.
func (l *lobby) unanswered(now time.Time) *Peer {
	if len(l.called) == 0 || now.Sub(l.called[0].accepted) < confirmAfter {
		return nil
	}
	return l.called[0]
}

func (l *lobby) all() []*Peer { return slices.Collect(maps.Keys(l.peers)) }
