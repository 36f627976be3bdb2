package fleet

import (
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math"
	"time"

	"github.com/nats-io/nats.go"
)

// A peer is another node.
type peer struct {
	beat
	id       instance
	seal     sealer
	heard    time.Time
	alive    bool
	seq      uint64    // of its last message to all
	resynced time.Time // when it was asked for all its seats
	shuns    time.Time // until then it is not asked, because it did not answer
	spares   int       // of clients here that have a token for there
}

// takes reports whether a client can be sent to the peer.
func (p *peer) takes() bool {
	return p != nil && p.alive && p.flags&(flagServes|flagDrains|flagBye) == flagServes && !math.IsInf(p.load, 1)
}

func (n *Node) all() string { return n.key.prefix + ".all" }

func (n *Node) to(id instance) string { return n.key.prefix + ".to." + hex.EncodeToString(id[:]) }

// tell sends a message to all nodes.
func (n *Node) tell(kind byte, body func([]byte) []byte) {
	n.seq++
	b := binary.LittleEndian.AppendUint64([]byte{kind}, n.seq)
	n.send(n.all(), body(b))
}

// send sends a message. If NATS is gone, it is lost: others see that one is missing.
func (n *Node) send(subject string, plain []byte) {
	n.engine.control.Publish(subject, n.seal.seal(n.id, subject, plain))
}

// beat tells all nodes that this one is alive.
func (n *Node) beat() {
	m := beat{name: n.cfg.Name, load: n.loadNow(), sessions: uint32(len(n.own))}
	if n.server != nil {
		m.flags |= flagServes
	}
	if n.drains {
		m.flags |= flagDrains
	}
	if n.bye {
		m.flags |= flagBye
	}
	n.tell(kindBeat, m.append)
}

// announce tells all nodes what has become of sessions.
func (n *Node) announce() {
	for len(n.changes) > 0 {
		some := n.changes[:min(len(n.changes), maxChanges)]
		n.changes = n.changes[len(some):]
		n.tellSeats(0, some)
	}
	n.changes = nil
}

const seatsAll = 1 // the sender has no sessions but these and those that follow

func (n *Node) tellSeats(flags byte, some []change) {
	n.tell(kindSeats, func(b []byte) []byte {
		b = append(b, flags)
		for _, c := range some {
			b = c.append(b)
		}
		return b
	})
}

// announceAll tells all nodes of all sessions.
func (n *Node) announceAll() {
	n.announce()
	n.tellSeats(seatsAll, nil)
	for id, o := range n.own {
		n.changes = append(n.changes, change{changeHere, id, o.generation})
	}
	n.announce()
}

// receive takes a message.
func (n *Node) receive(m *nats.Msg) {
	id, ok := sender(m.Data)
	if !ok {
		n.counts.Bad++
		return
	}
	if id == n.id {
		return
	}
	p := n.peers[id]
	seal := sealer{}
	if p != nil {
		seal = p.seal
	} else {
		seal = n.key.sealer(id)
	}
	b, err := seal.open(m.Subject, m.Data)
	if err != nil || len(b) < 1 {
		n.counts.Bad++
		return
	}
	now := time.Now()
	if m.Subject == n.all() {
		n.receiveAll(now, p, id, seal, b)
		return
	}
	switch {
	case p == nil: // a beat comes soon
	case b[0] == kindAsk:
		n.answer(p, b[1:])
	case b[0] == kindReply:
		n.takeSpares(p, b[1:])
	case b[0] == kindResync:
		n.resync = true
	}
}

// receiveAll takes a message to all nodes.
func (n *Node) receiveAll(now time.Time, p *peer, id instance, seal sealer, b []byte) {
	if len(b) < 1+8 {
		n.counts.Bad++
		return
	}
	seq := binary.LittleEndian.Uint64(b[1:])
	kind, b := b[0], b[1+8:]
	fresh := p == nil
	if fresh {
		m, ok := parseBeat(b)
		if kind != kindBeat || !ok || m.flags&flagBye != 0 {
			return
		}
		p = &peer{id: id, seal: seal, beat: m}
		n.peers[id] = p
		n.log(slog.LevelInfo, "a node has come", "peer", p.name)
		if p.name == n.cfg.Name {
			n.log(slog.LevelError, "another node has the same name", "peer", p.name)
		}
	} else if seq <= p.seq { // repeated by somebody
		n.counts.Bad++
		return
	}
	missed := seq != p.seq+1
	p.seq, p.heard, p.alive = seq, now, true
	switch kind {
	case kindBeat:
		m, ok := parseBeat(b)
		if !ok {
			n.counts.Bad++
			return
		}
		if p.beat = m; m.flags&flagBye != 0 {
			n.log(slog.LevelInfo, "a node has left", "peer", p.name)
			p.alive = false
			n.forget(id)
			return
		}
	case kindSeats:
		n.takeSeats(p, b)
	}
	if missed && now.Sub(p.resynced) >= resyncPace {
		if fresh {
			n.resync = true // it does not know our seats either
		} else {
			n.counts.Missed++
		}
		p.resynced = now
		n.send(n.to(id), []byte{kindResync})
	}
}

// takeSeats takes what has become of the sessions of another node.
func (n *Node) takeSeats(p *peer, b []byte) {
	if len(b) < 1 || (len(b)-1)%changeSize != 0 {
		n.counts.Bad++
		return
	}
	if b[0]&seatsAll != 0 {
		n.forgetSeats(p)
	}
	for b = b[1:]; len(b) > 0; b = b[changeSize:] {
		n.takeChange(p, parseChange(b))
	}
}

func (n *Node) takeChange(p *peer, c change) {
	former, known := n.seats[c.session]
	switch c.kind {
	case changeHere:
		if known && former.peer != p && former.generation > c.generation {
			return // p learns of that from the other one
		}
		n.seats[c.session] = seat{p, c.generation}
		if n.server == nil {
			return
		}
		o := n.own[c.session]
		switch {
		case o != nil && o.generation == c.generation && string(n.id[:]) > string(p.id[:]):
			// Both have a token of their own from the client, while they did not hear each other.
			n.yield(c.session, c.generation+1)
		case o != nil && o.generation >= c.generation:
			delete(n.seats, c.session) // it is here; p learns of that
		case c.generation > 1:
			n.yield(c.session, c.generation)
		}
	case changeLeft, changeOver:
		if known && former.peer == p {
			delete(n.seats, c.session)
		}
		// A client that had two ways gives one up. That does not end the newer one.
		o := n.own[c.session]
		if c.kind == changeOver && n.server != nil && (o == nil || o.generation <= c.generation) {
			n.yield(c.session, math.MaxUint64)
		}
	}
}

// forget forgets a node and its sessions.
func (n *Node) forget(id instance) {
	p := n.peers[id]
	delete(n.peers, id)
	n.forgetSeats(p)
	p.alive = false
}

func (n *Node) forgetSeats(p *peer) {
	for id, s := range n.seats {
		if s.peer == p {
			delete(n.seats, id)
		}
	}
}

// retarget notes for which node a client has a token.
func (n *Node) retarget(o *own, p *peer) {
	if o.target != nil {
		o.target.spares--
	}
	if o.target = p; p != nil {
		p.spares++
	}
	o.ready = false
}

// choose returns the node to which a client should go; nil: there is none.
func (n *Node) choose(now time.Time) (best *peer) {
	least := math.Inf(1)
	for _, p := range n.peers {
		if !p.takes() || now.Before(p.shuns) {
			continue
		}
		if load := p.load + float64(p.spares); load < least || load == least && p.name < best.name {
			best, least = p, load
		}
	}
	return best
}
