package datagram

import (
	"time"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A Gathering is one pass over sockets for many peers: it gathers their
// datagrams, so that they leave in as few system calls as there can be, instead
// of one or more for each peer. The zero value is ready. It is for one
// goroutine; used again after Flush, it allocates nothing.
type Gathering struct {
	last    *lane // used last
	lanes   []*lane
	used    int // of lanes
	scratch wire.Batch
	now     time.Time // zero: not looked at since something was sent
	err     error
}

// A lane is what is gathered for one socket.
type lane struct {
	mux     *Mux
	data    wire.Batch
	parts   []part
	packets [gatherPackets]socket.Packet
}

// A part is the datagrams for one peer, in one piece.
type part struct {
	to   route
	end  int // of the datagrams in data
	from Sender
}

const (
	gatherPackets = 64
	// gatherBytes is how much is gathered before it is sent, in bytes.
	gatherBytes = 256 << 10
	// gatherLanes is for how many sockets at a time.
	gatherLanes = 16
)

// A Gatherer is a Conn whose datagrams may leave in one pass with those of
// others. Gather and Gathered belong together, with nothing gathered between
// them for another Conn, and are called without locks that a Sender takes.
type Gatherer interface {
	// Gather returns a batch. The caller appends datagrams for this Conn, and
	// changes none that are in it already. Gather may first send those gathered
	// so far.
	Gather(g *Gathering) *wire.Batch
	// Gathered takes what was appended, at least one datagram. It may have
	// called from.Sent when it returns. From may be nil.
	Gathered(g *Gathering, from Sender)
}

// A Sender learns what became of datagrams it has gathered, once, and before
// that sends nothing else to the Conn: so its datagrams leave in order.
type Sender interface {
	// Sent says that the datagrams are done with, but for those for which there
	// was no room in a send buffer: these it gets back, valid until it returns,
	// nil if there are none. The error is one that ends the socket.
	Sent(unsent *wire.Batch, err error)
}

// Now returns the time, read once for those that leave together.
func (g *Gathering) Now() time.Time {
	if g.now.IsZero() {
		g.now = time.Now()
	}
	return g.now
}

// Scratch returns a batch for the use of a Gatherer between Gather and Gathered.
func (g *Gathering) Scratch() *wire.Batch { return &g.scratch }

// lane returns what is gathered for the socket of m.
func (g *Gathering) lane(m *Mux) *lane {
	if g.last != nil && g.last.mux == m {
		return g.last
	}
	for _, l := range g.lanes[:g.used] {
		if l.mux == m {
			g.last = l
			return l
		}
	}
	if g.used == gatherLanes {
		g.send()
	}
	if g.used == len(g.lanes) {
		g.lanes = append(g.lanes, new(lane))
	}
	l := g.lanes[g.used]
	g.used++
	l.mux, g.last = m, l
	return l
}

// Gather implements Gatherer.
func (p *Peer) Gather(g *Gathering) *wire.Batch {
	l := g.lane(p.mux)
	if len(l.parts) >= gatherPackets || l.data.Size() >= gatherBytes {
		g.sendLane(l)
	}
	return &l.data
}

// Gathered implements Gatherer.
func (p *Peer) Gathered(g *Gathering, from Sender) {
	l := g.lane(p.mux)
	l.parts = append(l.parts, part{p.route(), l.data.Len(), from})
}

// Flush sends what was gathered. It returns the first error that ended a socket since.
func (g *Gathering) Flush() error {
	g.send()
	err := g.err
	g.err = nil
	return err
}

// send sends what has been gathered, and forgets the sockets.
func (g *Gathering) send() {
	for _, l := range g.lanes[:g.used] {
		g.sendLane(l)
		l.mux = nil
	}
	g.used, g.last, g.now = 0, nil, time.Time{}
}

// sendLane sends a socket's share and tells the Senders. It never waits for room.
func (g *Gathering) sendLane(l *lane) {
	g.now = time.Time{}
	if len(l.parts) == 0 {
		return
	}
	done, err := l.write()
	if err != nil && g.err == nil {
		g.err = err
	}
	begin := 0
	for i := range l.parts {
		p := &l.parts[i]
		if p.end > done {
			l.late(p, max(begin, done), err)
		} else if p.from != nil {
			p.from.Sent(nil, err)
		}
		begin = p.end
	}
	clear(l.parts)
	l.parts = l.parts[:0]
	l.data.Reset()
}

// write returns how many datagrams the socket has dealt with, and the error that ended it.
func (l *lane) write() (done int, err error) {
	w := packetWriter{sock: l.mux.sock, errors: &l.mux.writeErrors}
	if w.patient = l.mux.sock.Features().Late; w.patient != nil {
		w.until = deadline.Passed()
	}
	for p := 0; p < len(l.parts); {
		n := 0
		for n < len(l.packets) && p < len(l.parts) {
			to := &l.parts[p]
			done = fillPacket(&l.packets[n], &l.data, done, to.end, to.to)
			n++
			if done == to.end {
				p++
			}
		}
		unsent, e := w.write(l.packets[:n])
		for i := range unsent {
			done -= unsent[i].Datagrams()
		}
		late := len(unsent) > 0
		clear(l.packets[:n])
		if e != nil && !socket.IsTransient(e) {
			return l.data.Len(), e
		}
		if late {
			return done, nil
		}
	}
	return done, nil
}

// late returns datagrams from number i on to their sender, or waits here for room.
func (l *lane) late(p *part, i int, err error) {
	b := GetBatch()
	defer PutBatch(b)
	for ; i < p.end; i++ {
		b.Append(l.data.At(i))
	}
	if p.from != nil {
		p.from.Sent(b, err)
		return
	}
	sendBatch(&l.mux.turns, p.to, b, &l.mux.writeErrors)
}
