package fleet

import (
	"crypto/hpke"
	"encoding/binary"
	"log/slog"
	"time"

	"volley/internal/handover"
	"volley/secure"
)

const (
	wantPace   = 500 * time.Millisecond // between two tokens for a session
	askTimeout = 500 * time.Millisecond
	shunTime   = time.Second // in which a node that did not answer is not asked
)

// An asked is what a node was asked for.
type asked struct {
	peer     *peer
	private  hpke.PrivateKey
	sessions []handover.SessionID
	at       time.Time
}

// want has a token for another node come for a session.
func (n *Node) want(now time.Time, id handover.SessionID, o *own) {
	o.asked = now
	if !o.waits {
		o.waits = true
		n.wanting = append(n.wanting, id)
	}
}

// unanswered has the tokens wanted again that did not come.
func (n *Node) unanswered(sessions []handover.SessionID) {
	for _, id := range sessions {
		if o := n.own[id]; o != nil {
			o.waits = false
			n.retarget(o, nil)
		}
	}
}

// askForSpares asks other nodes for the tokens that are wanted.
func (n *Node) askForSpares(now time.Time) {
	if len(n.wanting) == 0 {
		return
	}
	asks := make(map[*peer]*ask)
	for _, id := range n.wanting {
		o := n.own[id]
		if o == nil {
			continue
		}
		n.retarget(o, nil)
		p := n.choose(now)
		if p == nil {
			o.waits = false
			continue
		}
		b, err := o.conn.Ticket(n.stateOf(o.conn))
		if err != nil {
			o.waits = false
			continue
		}
		n.retarget(o, p)
		m := asks[p]
		if m == nil {
			m = new(ask)
			asks[p] = m
		}
		if m.tickets = append(m.tickets, ticket{id, b}); len(m.tickets) == maxTickets {
			n.ask(now, p, m)
			delete(asks, p)
		}
	}
	n.wanting = n.wanting[:0]
	for p, m := range asks {
		n.ask(now, p, m)
	}
}

func (n *Node) stateOf(conn handover.Session) []byte {
	if n.cfg.State == nil {
		return nil
	}
	return n.cfg.State(conn.Of().(*secure.Conn))
}

// The tokens in a reply are for the one who asked. The key is fresh each time, and safe from
// quantum computers, as those of TLS: so whoever records the messages, and steals the fleet's key
// one day, cannot read the sessions.
var (
	kem  = hpke.MLKEM768X25519()
	kdf  = hpke.HKDFSHA256()
	aead = hpke.AES256GCM()
)

// ask asks a node for tokens.
func (n *Node) ask(now time.Time, p *peer, m *ask) {
	a := &asked{peer: p, at: now}
	for _, t := range m.tickets {
		a.sessions = append(a.sessions, t.session)
	}
	var err error
	if a.private, err = kem.GenerateKey(); err != nil {
		n.unanswered(a.sessions)
		return
	}
	n.lastAsk++
	m.id, m.public = n.lastAsk, a.private.PublicKey().Bytes()
	n.asked[m.id] = a
	n.send(n.to(p.id), m.append([]byte{kindAsk}))
}

func spareInfo(from, to instance, id uint64) []byte {
	b := append([]byte("volley fleet spares"), from[:]...)
	b = append(b, to[:]...)
	return binary.LittleEndian.AppendUint64(b, id)
}

// answer answers a node that asks for tokens. It gets them for sessions that it has announced.
func (n *Node) answer(p *peer, b []byte) {
	m, ok := parseAsk(b)
	if !ok {
		n.counts.Bad++
		return
	}
	public, err := kem.NewPublicKey(m.public)
	if err != nil {
		n.counts.Bad++
		return
	}
	var plain []byte
	defer func() { clear(plain) }()
	for _, t := range m.tickets {
		var spare []byte
		if s := n.seats[t.session]; s.peer == p && n.server != nil && !n.drains {
			if spare, err = n.server.Seal(t.session, t.ticket, n.public); err != nil {
				n.log(slog.LevelWarn, "a token for a client of another node cannot be made", "peer", p.name, "error", err)
			}
		}
		if spare != nil {
			n.counts.Sealed++
		} else {
			n.counts.Refused++
		}
		plain = appendBytes(plain, spare)
		clear(spare)
	}
	sealed, err := hpke.Seal(public, kdf, aead, spareInfo(n.id, p.id, m.id), plain)
	if err != nil {
		n.counts.Bad++
		return
	}
	n.send(n.to(p.id), append(binary.LittleEndian.AppendUint64([]byte{kindReply}, m.id), sealed...))
}

// takeSpares takes the answer of a node, and gives the tokens to the clients.
func (n *Node) takeSpares(p *peer, b []byte) {
	if len(b) < 8 {
		n.counts.Bad++
		return
	}
	id := binary.LittleEndian.Uint64(b)
	a := n.asked[id]
	if a == nil || a.peer != p {
		return // too late
	}
	delete(n.asked, id)
	plain, err := hpke.Open(a.private, kdf, aead, spareInfo(p.id, n.id, id), b[8:])
	if err != nil {
		n.counts.Bad++
		n.unanswered(a.sessions)
		return
	}
	defer clear(plain)
	rest := plain
	for i, session := range a.sessions {
		var spare []byte
		var ok bool
		if spare, rest, ok = cutBytes(rest); !ok {
			n.counts.Bad++
			n.unanswered(a.sessions[i:])
			return
		}
		o := n.own[session]
		if o == nil {
			continue
		}
		if len(spare) == 0 {
			n.unanswered(a.sessions[i : i+1])
			continue
		}
		o.waits, o.ready = false, true
		n.counts.Given++
		o.conn.Give(spare)
		if o.goes {
			o.conn.Go(true)
		}
	}
}
